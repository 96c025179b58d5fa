"""Sessions: one heartbeat for many claims, and a context that outlives its worker."""

from typing import Any

import msgspec

from octostore.core.errors import LeaseLost, OctoStoreError
from octostore.core.replies import ClaimReply, SessionPage, SessionReply, SessionView
from octostore.server.calls import Call, command_route, question_route
from octostore.server.examples import IN_A_MINUTE
from octostore.server.http import Response
from octostore.server.refusals import Refusal
from octostore.server.routes.jobs import CLAIMED_BUILD, hide_other_jobs
from octostore.server.routes.queues import SOME_LATER
from octostore.stores.ids import new_session_id
from octostore.wire import bodies
from octostore.wire.endpoints import GONE
from octostore.wire.failures import failure_from_error
from octostore.wire.responses import (
    ClaimTaskResponse,
    OpenedSession,
    SessionList,
    SessionState,
    extend_view,
    task_response,
)

TAG = "sessions"
OPEN = {"session_id": "agent-3", "expires_at": IN_A_MINUTE, "remaining_ms": 60_000, "renew_after_ms": 20_000}
SESSION = {"params": {"session_id": "agent-3"}, "first": ["open_session"], "response": OPEN}
LEASE = {"lease_id": "$LEASE"}
NEEDS_LEASE = (
    "This needs the session's lease. If a client opened the session without an `agent`, as lock clients do, a token of "
    "its principal is enough."
)


def lost_session_as_gone(error: OctoStoreError) -> Exception:
    """Respond with 410 for a session that has ended; one that never existed is a 404."""
    return Refusal(GONE, failure_from_error(error)) if isinstance(error, LeaseLost) else error


def _prepare_session(call: Call) -> Any:
    body: bodies.OpenSessionBody = call.body
    session_id = new_session_id() if body.session_id is None else body.session_id
    agent = call.principal.owner if body.agent is None else body.agent
    return call.command(session_id=session_id, agent=agent, max_sessions=call.services.settings.max_sessions)


def _respond_opened(_call: Call, reply: SessionReply) -> Response:
    return Response(OpenedSession.of(reply), 201)


def _prepare_get(call: Call) -> Any:
    question = call.question()
    return msgspec.structs.replace(question, session_id=call.principal.session(question.session_id))


def _prepare_list(call: Call) -> Any:
    """Operators see all sessions, others their own."""
    return call.question(principal=None if call.principal.sees_all else call.principal.name)


def _prepare_as_operator(call: Call) -> Any:
    return call.command(as_operator=call.principal.may("admin"))


def _respond_page(call: Call, page: SessionPage) -> Response:
    return Response(SessionList(sessions=[_state(call, view) for view in page.sessions], cursor=page.cursor))


def _state(call: Call, view: SessionView) -> SessionState:
    return extend_view(
        SessionState,
        view,
        user_id=call.services.pseudonym("user", view.principal),
        active=view.status == "open",
        lock_count=len(view.jobs),
    )


def _prepare_task(call: Call) -> Any:
    settings = call.services.settings
    limits = {"max_claims": settings.max_claims, "max_sessions": settings.max_sessions}
    return call.command(prefix=call.principal.prefix, host=call.host, **limits)


def _respond_task(call: Call, reply: ClaimReply) -> Response:
    return Response(task_response(hide_other_jobs(call, reply)))


ROUTES = [
    command_route(
        "open_session",
        prepare=_prepare_session,
        respond=_respond_opened,
        summary="Open a session, or resume one that has ended",
        description=(
            "If you pass the id of an earlier session of your principal, that session resumes with its context. If it "
            "is still alive elsewhere, you get 409 `held`. Each principal has its own session ids."
        ),
        responses={201: OpenedSession},
        codes={409: ("held", "lease_lost", "limit_exceeded")},
        example={
            "body": {"agent": "agent-3", "ttl_seconds": 60, "session_id": "agent-3"},
            "response": {**OPEN, "ttl": 60},
        },
    ),
    command_route(
        "keepalive",
        summary="Keep a session and everything bound to it alive",
        description=NEEDS_LEASE,
        codes={404: ("not_found",), 410: ("lease_lost",)},
        translate=lost_session_as_gone,
        example={**SESSION, "body": LEASE, "response": {**OPEN, "stop_requested": {}}},
    ),
    question_route(
        "get_session",
        prepare=_prepare_get,
        respond=lambda call, view: Response(_state(call, view)),
        summary="Get a session",
        description="Only operators can see other principals' sessions; everyone else gets 404.",
        responses={200: SessionState},
        codes={404: ("not_found",)},
        example={**SESSION, "response": {**OPEN, "status": "open", "jobs": []}},
    ),
    question_route(
        "list_sessions",
        prepare=_prepare_list,
        respond=_respond_page,
        summary="List sessions, page by page",
        description="Contexts are left out. Only operators see other principals' sessions.",
        responses={200: SessionList},
        example={
            "query": {"status": "open"},
            "first": ["open_session"],
            "response": {"sessions": [{**OPEN, "status": "open", "jobs": []}]},
        },
    ),
    command_route(
        "save_context",
        summary="Save a session's context for the next agent",
        description=f"The new context replaces the previous one. {NEEDS_LEASE}",
        codes={404: ("not_found",), 409: ("conflict",), 410: ("lease_lost",)},
        translate=lost_session_as_gone,
        example={
            **SESSION,
            "body": {**LEASE, "context": {"turn": 4, "next_action": "run the tests"}, "phase": "planning"},
            "response": {"session_id": "agent-3", "context_seq": 4712, "phase": "planning"},
        },
    ),
    command_route(
        "hand_over",
        prepare=_prepare_as_operator,
        summary="Hand over a live session, with its context and claims, to another agent",
        description=(
            "Your lease ends with this call. `to_agent` then opens the session with a token of the session's principal "
            "and gets a lease that also covers the claims. Operators need no lease."
        ),
        codes={404: ("not_found",), 410: ("lease_lost",)},
        translate=lost_session_as_gone,
        example={
            **SESSION,
            "body": {**LEASE, "to_agent": "agent-4", "note": "the tests still fail on Windows"},
            "response": {"session_id": "agent-3", "agent": "agent-4", "expires_at": IN_A_MINUTE, "jobs": []},
        },
    ),
    command_route(
        "claim_task",
        prepare=_prepare_task,
        respond=_respond_task,
        summary="Open a session and claim its next task, in one step",
        description=(
            "If someone else has the session, the status is `held`; if there is no task, it is `empty`. Nothing "
            "changes in either case. With the `lease_id` of a session you have open, the task is claimed in that "
            "session. A session has one task at a time: if it still has one, the status is `held`, and `job_id` names "
            "the task. `POST /jobs/{job_id}/release` settles a task and leaves the session open."
        ),
        responses={200: ClaimTaskResponse},
        codes={404: ("not_found",), 409: ("limit_exceeded", "lease_lost")},
        example={
            "params": {"session_id": "agent-3"},
            "body": {"agent": "agent-3", "queues": ["default"]},
            "first": ["enqueue"],
            "response": {
                **CLAIMED_BUILD,
                "session_id": "agent-3",
                "session": {**OPEN, "ttl": 120, "phase": "planning"},
            },
            "other_responses": {
                "held": {"job_id": None, "queue": None, "kind": None, "session_id": "agent-3"},
                "empty": {"job_id": None, "kind": None, "all_done": False, "queue_status": SOME_LATER},
            },
        },
    ),
    command_route(
        "release_task",
        summary="Settle a session's task and close the session, in one step",
        description="Use the session's `lease_id`. Repeating the call returns the same response.",
        codes={409: ("lease_lost",)},
        example={
            "params": {"session_id": "agent-3"},
            "body": {"lease_id": "$LEASE", "job_id": "build-3f1c2aa", "outcome": "done"},
            "first": ["enqueue", "claim_task"],
            "response": {"job_id": "build-3f1c2aa", "outcome": "done", "status": "done"},
        },
    ),
    command_route(
        "close_session",
        prepare=_prepare_as_operator,
        respond=lambda _call, _reply: Response(None, 204),
        summary="Close a session, and release the claims bound to it",
        description=f"{NEEDS_LEASE} Operators need no lease.",
        responses={204: None},
        codes={404: ("not_found",), 410: ("lease_lost",)},
        translate=lost_session_as_gone,
        example={**SESSION, "body": LEASE},
    ),
]
