"""Sessions: one heartbeat for many claims, and a context that outlives its worker."""

from typing import cast

import msgspec

from octostore.core import commands as c
from octostore.core import questions as q
from octostore.core.errors import LeaseLost, OctoStoreError
from octostore.core.limits import PAGE_DEFAULT
from octostore.core.model import SessionStatus
from octostore.core.replies import SavedReply, SessionView
from octostore.server.calls import Call
from octostore.server.examples import IN_A_MINUTE
from octostore.server.http import Answer
from octostore.server.refusals import Refusal
from octostore.server.router import Route
from octostore.stores.ids import new_session_id
from octostore.wire import bodies
from octostore.wire import fields as f
from octostore.wire.answers import KeptSession, OpenedSession, SessionList, SessionState
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
    reply = await call.services.store.execute(command)
    fields = {name: getattr(reply, name) for name in reply.__struct_fields__}
    return Answer(OpenedSession(**fields, keepalive_interval_secs=max(1, int(reply.ttl // 3))), 201)


async def keepalive(call: Call) -> Answer:
    body: bodies.SessionLeaseBody = call.body
    reply = await call.services.store.execute(
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
    )


async def save_context(call: Call) -> Answer:
    body: bodies.SaveSessionBody = call.body
    command = body.command(_session_id(call), call.principal.name)
    return Answer(await call.services.store.execute(command))


async def close_session(call: Call) -> Answer:
    body: bodies.SessionLeaseBody = call.body
    await call.services.store.execute(
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
        codes={403: ("not_allowed",), 409: ("held",)},
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
        codes={404: ("not_found",), 410: ("lease_lost",)},
        translate=tell_gone,
        example={
            **SESSION,
            "body": {"context": {"phase": "planning", "turn": 4}},
            "answer": {"session_id": "agent-3", "context_seq": 4712},
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
