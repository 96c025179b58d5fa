"""Sessions: one heartbeat for many claims, and a context that outlives its worker."""

from typing import cast

import msgspec

from octostore.core import commands as c
from octostore.core import questions as q
from octostore.core.errors import LeaseLost, OctoStoreError
from octostore.core.limits import PAGE_DEFAULT
from octostore.core.model import SessionStatus
from octostore.core.replies import HandedOverReply, ReleaseReply, SavedReply, SessionView
from octostore.server.calls import Call
from octostore.server.examples import IN_A_MINUTE
from octostore.server.http import Answer
from octostore.server.refusals import Refusal
from octostore.server.router import Route
from octostore.server.routes.jobs import claim
from octostore.stores.ids import new_session_id
from octostore.wire import bodies
from octostore.wire import fields as f
from octostore.wire.answers import KeptSession, OpenedSession, SessionList, SessionState, TaskAnswer, task_answer
from octostore.wire.failures import failure_of

TAG = "sessions"
GONE = 410
OPEN = {"session_id": "agent-3", "expires_at": IN_A_MINUTE, "remaining_ms": 60_000, "renew_after_ms": 30_000}
SESSION = {"params": {"session_id": "agent-3"}, "first": ["open_session"], "answer": OPEN}


def tell_gone(error: OctoStoreError) -> Exception:
    """A session that has ended is gone, as opposed to one that never was."""
    return Refusal(GONE, failure_of(error)) if isinstance(error, LeaseLost) else error


async def open_session(call: Call) -> Answer:
    body: bodies.OpenSessionBody = call.body
    command = body.command(new_session_id() if body.session_id is None else body.session_id, call.principal.name)
    reply = await call.execute(command)
    fields = {name: getattr(reply, name) for name in reply.__struct_fields__}
    return Answer(OpenedSession(**fields, keepalive_interval_secs=max(1, int(reply.ttl // 2))), 201)


async def keepalive(call: Call) -> Answer:
    body: bodies.SessionLeaseBody = call.body
    reply = await call.execute(
        c.KeepSessionAlive(session_id=_session_id(call), lease_id=body.lease_id, principal=call.principal.name)
    )
    return Answer(
        KeptSession(
            session_id=reply.session_id,
            expires_at=reply.expires_at,
            remaining_ms=reply.remaining_ms,
            renew_after_ms=reply.renew_after_ms,
        )
    )


async def get_session(call: Call) -> Answer:
    view = await call.services.store.ask(q.GetSession(session_id=_session_id(call), principal=_whose(call)))
    return Answer(_state(call, view))


class SessionsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    status: f.SessionStatusWord | None = None
    limit: f.PageLimit = PAGE_DEFAULT
    cursor: f.SessionCursor | None = None


async def list_sessions(call: Call) -> Answer:
    query: SessionsQuery = call.query
    question = q.ListSessions(
        status=cast("SessionStatus | None", query.status),  # which the question checks
        limit=query.limit,
        cursor=query.cursor,
        principal=_whose(call),
    )
    page = await call.services.store.ask(question)
    return Answer(SessionList(sessions=[_state(call, view) for view in page.sessions], cursor=page.cursor))


def _whose(call: Call) -> str | None:
    """Whose sessions are shown: to operators everybody's (None), to others their own."""
    principal = call.principal
    return None if principal.may("admin") and not principal.prefix else principal.name


def _state(call: Call, view: SessionView) -> SessionState:
    return SessionState(
        session_id=view.session_id,
        user_id=call.services.pseudonym("user", view.principal),
        principal=view.principal,
        agent=view.agent,
        status=view.status,
        active=view.status == "open",
        opened_at=view.opened_at,
        heartbeat_at=view.heartbeat_at,
        expires_at=view.expires_at,
        lock_count=len(view.jobs),
        jobs=view.jobs,
        context=view.context,
        context_seq=view.context_seq,
        phase=view.phase,
        offered=view.offered,
        note=view.note,
        in_flight=view.in_flight,
    )


async def save_context(call: Call) -> Answer:
    body: bodies.SaveSessionBody = call.body
    command = body.command(_session_id(call), call.principal.name)
    return Answer(await call.execute(command))


async def hand_over(call: Call) -> Answer:
    body: bodies.HandOverBody = call.body
    return Answer(await call.execute(body.command(_session_id(call), call.principal.name)))


async def claim_task(call: Call) -> Answer:
    body: bodies.ClaimTaskBody = call.body
    principal = call.principal
    limit = call.services.settings.max_claims
    command = body.command(_session_id(call), principal.name, principal.prefix, limit)
    return Answer(task_answer(await claim(call, command, body.wait_seconds)))


async def release_task(call: Call) -> Answer:
    body: bodies.ReleaseTaskBody = call.body
    call.principal.require_name(body.job_id)
    reply = await call.execute(body.task_command(_session_id(call), call.principal.name))
    call.services.metrics.count("releases", reply.outcome)
    return Answer(reply)


async def close_session(call: Call) -> Answer:
    body: bodies.SessionLeaseBody = call.body
    await call.execute(
        c.CloseSession(session_id=_session_id(call), lease_id=body.lease_id, principal=call.principal.name)
    )
    return Answer(None, 204)


def _session_id(call: Call) -> str:
    return call.request.params["session_id"]


ROUTES = [
    Route(
        method="POST",
        path="/sessions",
        handler=open_session,
        tag=TAG,
        scope="claim",
        summary="Begin a session, or resume one that has ended",
        description=("The session of that id comes back with its context; if it is alive elsewhere, it is refused."),
        body=bodies.OpenSessionBody,
        answers={201: OpenedSession},
        codes={403: ("not_allowed",), 409: ("held", "lease_lost")},
        example={
            "body": {"agent": "agent-3", "ttl_seconds": 60, "session_id": "agent-3"},
            "answer": {**OPEN, "ttl": 60},
        },
    ),
    Route(
        method="POST",
        path="/sessions/{session_id}/keepalive",
        handler=keepalive,
        tag=TAG,
        scope="claim",
        summary="Keep a session and everything bound to it alive",
        body=bodies.SessionLeaseBody,
        answers={200: KeptSession},
        codes={404: ("not_found",), 410: ("lease_lost",)},
        translate=tell_gone,
        example=SESSION,
    ),
    Route(
        method="GET",
        path="/sessions/{session_id}",
        handler=get_session,
        tag=TAG,
        summary="How a session stands",
        description="Those of others are not told from those that never were, except to operators.",
        answers={200: SessionState},
        codes={404: ("not_found",)},
        example={**SESSION, "answer": {**OPEN, "status": "open", "jobs": []}},
    ),
    Route(
        method="GET",
        path="/sessions",
        handler=list_sessions,
        tag=TAG,
        summary="Sessions by id, a page at a time",
        description="Without their contexts. Those of others are listed for operators only.",
        query=SessionsQuery,
        answers={200: SessionList},
        example={
            "query": {"status": "open"},
            "first": ["open_session"],
            "answer": {"sessions": [{**OPEN, "status": "open", "jobs": []}]},
        },
    ),
    Route(
        method="PUT",
        path="/sessions/{session_id}/context",
        handler=save_context,
        tag=TAG,
        scope="claim",
        summary="Keep a session's context, for whoever resumes it",
        body=bodies.SaveSessionBody,
        answers={200: SavedReply},
        codes={404: ("not_found",), 409: ("conflict",), 410: ("lease_lost",)},
        translate=tell_gone,
        example={
            **SESSION,
            "body": {"context": {"turn": 4, "next_action": "run the tests"}, "phase": "planning"},
            "answer": {"session_id": "agent-3", "context_seq": 4712, "phase": "planning"},
        },
    ),
    Route(
        method="POST",
        path="/sessions/{session_id}/hand-over",
        handler=hand_over,
        tag=TAG,
        scope="claim",
        summary="Pass a live session on to another agent, with its context and its claims",
        description=(
            "The lease that does it is dead from then on. `to_agent` opens the session, with a token of the same name, "
            "and goes on: the lease it gets is that of the claims, too."
        ),
        body=bodies.HandOverBody,
        answers={200: HandedOverReply},
        codes={404: ("not_found",), 410: ("lease_lost",)},
        translate=tell_gone,
        example={
            **SESSION,
            "body": {"to_agent": "agent-4", "note": "the tests still fail on Windows"},
            "answer": {"session_id": "agent-3", "agent": "agent-4", "expires_at": IN_A_MINUTE, "jobs": []},
        },
    ),
    Route(
        method="POST",
        path="/sessions/{session_id}/claim",
        handler=claim_task,
        tag=TAG,
        scope="claim",
        summary="Acquire a session and claim its next task, in one step",
        description="`held` if somebody else has the session; `empty`, and nothing has changed, if there is no task.",
        body=bodies.ClaimTaskBody,
        answers={200: TaskAnswer},
        codes={403: ("not_allowed",), 409: ("limit_exceeded", "lease_lost")},
        example={
            "params": {"session_id": "agent-3"},
            "body": {"agent": "agent-3", "queues": ["default"]},
            "first": ["enqueue"],
            "answer": {
                "job_id": "build-3f1c2aa",
                "queue": "default",
                "kind": "build",
                "metadata": None,
                "session_id": "agent-3",
                "payload": {"commit": "3f1c2aa"},
                "session": {**OPEN, "ttl": 120, "phase": "planning"},
            },
            "others": {
                "held": {"job_id": None, "queue": None, "kind": None, "session_id": "agent-3"},
                "empty": {"job_id": None, "kind": None},
            },
        },
    ),
    Route(
        method="POST",
        path="/sessions/{session_id}/release",
        handler=release_task,
        tag=TAG,
        scope="claim",
        summary="Settle a session's task, and free the session, in one step",
        description="The `lease_id` is the session's. The same call again gets the same answer.",
        body=bodies.ReleaseTaskBody,
        answers={200: ReleaseReply},
        codes={409: ("lease_lost",)},
        example={
            "params": {"session_id": "agent-3"},
            "body": {"lease_id": "$LEASE", "job_id": "build-3f1c2aa", "outcome": "done"},
            "first": ["enqueue", "claim_task"],
            "answer": {"job_id": "build-3f1c2aa", "outcome": "done", "status": "done"},
        },
    ),
    Route(
        method="DELETE",
        path="/sessions/{session_id}",
        handler=close_session,
        tag=TAG,
        scope="claim",
        summary="End a session, and release what is bound to it",
        body=bodies.SessionLeaseBody,
        answers={204: None},
        codes={404: ("not_found",), 410: ("lease_lost",)},
        translate=tell_gone,
        example=SESSION,
    ),
]
