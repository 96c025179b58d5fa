"""The log: a page, or a stream that goes on."""

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
NEEDS_STREAM = "come on a stream: send `Accept: text/event-stream`, or use `GET /heartbeats` for how they stand now"


def _prepare_events(call: Call) -> ListEvents:
    query: bodies.EventsQuery = call.query
    try:
        question = ListEvents(**query.values())
    except InvalidInput as error:
        raise bodies.with_wire_name(error, bodies.EventsQuery) from None
    return msgspec.structs.replace(question, **_what_may_be_told(call, query))


async def events(call: Call) -> Response | StreamingResponse:
    question: ListEvents = call.route.prepare(call)
    question = msgspec.structs.replace(question, after=_resume_from(call, question.after))
    beating = _beating(call)
    if b"text/event-stream" not in call.request.headers.get(b"accept", b"").lower():
        if beating:
            raise InvalidInput("heartbeats", NEEDS_STREAM)
        return Response(await call.services.store.ask(question))
    slot = call.services.streams.slot(call.principal.name)
    return EventStream(call.request, _frames(call, question, beating), slot)


def _beating(call: Call) -> tuple[str, ...]:
    """The jobs whose heartbeats are wanted, too, if the token may see them."""
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


def _what_may_be_told(call: Call, query: bodies.EventsQuery) -> dict[str, Any]:
    """Jobs by their names, and sessions to their principals; to operators everything."""
    principal = call.principal
    told: dict[str, Any] = {"principal": None if principal.sees_all else principal.name}
    if query.session is not None:
        told["session_id"] = principal.session(query.session)
    if query.job is not None:
        principal.require_name(query.job)
        told["prefix"] = None  # one job is as narrow as it gets
    elif query.session is None:
        told["prefix"] = principal.restrict_prefix(query.prefix) or None
    return told


def _resume_from(call: Call, after: int) -> int:
    last = call.request.header(b"last-event-id")
    if last is None:
        return after
    digits = len(str(SEQ_MAX))
    if not last.isascii() or not last.isdecimal() or len(last) > digits or int(last) > SEQ_MAX:
        raise InvalidInput("Last-Event-ID", "must be the id of an event: a whole number")
    return int(last)


async def _frames(call: Call, question: ListEvents, beating: Sequence[str]) -> AsyncGenerator[bytes, None]:
    feed = call.services.feed
    silence = call.services.settings.keepalive_seconds * 2 / 3  # a tick later it would be the whole of it
    sent_at = time.monotonic()
    with call.services.pulse.watching(beating) as watcher:
        while await may_go_on(call):
            content, after = await feed.part(question)
            content += watcher.news()
            if after == question.after and not content:
                await watcher.next_change()
                content = KEEPALIVE if time.monotonic() - sent_at >= silence else b""
            question = msgspec.structs.replace(question, after=after)
            if content:
                sent_at = time.monotonic()
                yield content


async def may_go_on(call: Call) -> bool:
    return not call.services.is_stopping and await call.services.auth.is_current(call.request, call.principal)


async def is_one_set_within(events: Sequence[asyncio.Event], seconds: float) -> bool:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
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
        summary="The log, a page or a stream",
        description=(
            "Oldest first; all that is given must hold. With a `prefix` or `types`, a page may have fewer events than "
            "the `limit`, or none: go on from `after` until it stands still. With `Accept: text/event-stream` it goes "
            "on with what happens next: `id` is the event's `seq`, and `Last-Event-ID` resumes after it. A reader "
            "that is too slow is disconnected, and nothing is skipped. A principal may have 100 streams open "
            "(`--max-streams`). Only a session's principal and operators see what happens to the session itself. "
            "With `heartbeats`, the stream also sends `heartbeat` frames: how the live claims on these jobs stand, at "
            "once and whenever one has changed, at most every two seconds. Their `data` is one of the `claims` of "
            "`GET /heartbeats`, and they have no `id`. When a claim ends, its event says so; a heartbeat read just "
            "before may come just after, so compare `fencing_token`."
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
