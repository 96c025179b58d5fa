"""The log: page by page, or as a stream."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from octostore.core.errors import InvalidInput
from octostore.core.events import Event
from octostore.core.limits import SEQ_MAX
from octostore.core.questions import ListEvents, ListHeartbeats
from octostore.server.calls import Call, respond_with_reply
from octostore.server.http import Response, StreamingResponse
from octostore.server.router import Route
from octostore.server.streams import KEEPALIVE, EventStream
from octostore.wire import bodies
from octostore.wire import fields as f

TAG = "events"
NEEDS_STREAM = "needs a stream: send `Accept: text/event-stream`, or use `GET /heartbeats` for the current state"


def _prepare_events(call: Call) -> ListEvents:
    query: bodies.EventsQuery = call.query
    try:
        question = ListEvents(**query.values())
    except InvalidInput as error:
        raise bodies.with_wire_name(error, bodies.EventsQuery) from None
    return msgspec.structs.replace(question, **_visible_part(call, query))


async def events(call: Call) -> Response | StreamingResponse:
    question: ListEvents = call.route.prepare(call)
    question = msgspec.structs.replace(question, after=_resume_from(call, question.after))
    heartbeat_jobs = _heartbeat_jobs(call)
    if b"text/event-stream" not in call.request.headers.get(b"accept", b"").lower():
        if heartbeat_jobs:
            raise InvalidInput("heartbeats", NEEDS_STREAM)
        return Response(await call.services.store.ask(question))
    slot = call.services.streams.slot(call.principal.name)
    return EventStream(call.request, _frames(call, question, heartbeat_jobs), slot)


def _heartbeat_jobs(call: Call) -> tuple[str, ...]:
    """The jobs whose heartbeats the stream includes. Refuses jobs that the token may not see."""
    query: bodies.EventsQuery = call.query
    if query.heartbeats is None:
        return ()
    try:
        job_ids = ListHeartbeats(job_ids=tuple(query.heartbeats)).job_ids
    except InvalidInput as error:
        raise error.about("heartbeats") from None
    for job_id in job_ids:
        call.principal.require_name(job_id)
    return job_ids


def _visible_part(call: Call, query: bodies.EventsQuery) -> dict[str, Any]:
    """Limit the question to what the token may see: names with its prefix, and sessions of its principal."""
    principal = call.principal
    visible: dict[str, Any] = {"principal": None if principal.sees_all else principal.name}
    if query.session is not None:
        visible["session_id"] = principal.session(query.session)
    if query.job is not None:
        principal.require_name(query.job)
    elif query.session is None:
        visible["prefix"] = principal.restrict_prefix(query.prefix) or None
    return visible


def _resume_from(call: Call, after: int) -> int:
    last = call.request.header(b"last-event-id")
    if last is None:
        return after
    digits = len(str(SEQ_MAX))
    if not last.isascii() or not last.isdecimal() or len(last) > digits or int(last) > SEQ_MAX:
        raise InvalidInput("Last-Event-ID", "must be the id of an event: a whole number")
    return int(last)


async def _frames(call: Call, question: ListEvents, heartbeat_jobs: Sequence[str]) -> AsyncGenerator[bytes, None]:
    feed = call.services.feed
    silence = call.services.settings.keepalive_seconds * 2 / 3  # readers wake every third of it
    sent_at: float | None = None
    with call.services.heartbeats.watching(heartbeat_jobs) as watcher:
        while await may_continue(call):
            content, after = await feed.part(question)
            content += watcher.news()
            if after == question.after and not content and sent_at is not None:
                await watcher.next_change()
            question = msgspec.structs.replace(question, after=after)
            # Not only after a wait: a search through a long log for events that match can take minutes.
            if not content and sent_at is not None and time.monotonic() - sent_at >= silence:
                content = KEEPALIVE
            if content or sent_at is None:
                sent_at = time.monotonic()
                yield content


async def may_continue(call: Call) -> bool:
    return not call.services.is_stopping and await call.services.auth.is_current(call.request, call.principal)


async def wait_for_any(events: Sequence[asyncio.Event], seconds: float) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


CLAIMED = {
    "seq": 4711,
    "type": "claimed",
    "actor": "admin",
    "data": {
        "owner": "agent-3",
        "attempt": 1,
        "ttl_ms": 120_000,
        "expires_at": "2026-07-01T10:02:00Z",
        "metadata": {"branch": "fix-1842"},
        "host": "127.0.0.1",
    },
}
ROUTES = [
    Route.for_operation(
        "events",
        handler=events,
        prepare=_prepare_events,
        respond=respond_with_reply,
        summary="Read the log, page by page or as a stream",
        description=(
            "Oldest first; all conditions must hold. With `prefix` or `types`, a page may have fewer events than "
            "`limit`, or none: continue from `after` until it no longer changes. With `Accept: text/event-stream`, the "
            "response is a stream that continues with new events: `id` is the event's `seq`, and `Last-Event-ID` "
            "resumes after it. A reader that is too slow is disconnected; it can resume without missing an event. A "
            "principal may have 100 streams open (`--max-streams`). Only a session's principal and operators see the "
            "session's own events. With `heartbeats`, the stream also sends `heartbeat` frames: the live claims on "
            "the jobs named there, first as they are, then after each change, at most once every two seconds. The "
            "`data` of a frame is one of the `claims` of `GET /heartbeats`; a frame has no `id`. The end of a claim is "
            "an event, and an older `heartbeat` frame may arrive after it, so compare `fencing_token`."
        ),
        headers={"Last-Event-ID": f.EventSeq},
        codes={409: ("limit_exceeded",)},
        stream=Event,
        example={
            "query": {"since": "2026-07-01T10:00:00Z", "types": "claimed", "job": "github-issue-1842"},
            "first": ["claim_job"],
            "event": CLAIMED,
            "response": {"events": [CLAIMED], "after": 4711},
        },
    ),
]
