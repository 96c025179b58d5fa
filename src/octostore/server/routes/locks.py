"""Locks: the same jobs, for existing OctoStore lock clients."""

import json
import re
import time
import uuid
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from octostore.core import commands as c
from octostore.core import questions as q
from octostore.core.errors import Conflict, InvalidInput, LeaseLost, LimitExceeded, OctoStoreError
from octostore.core.events import Event, public_event
from octostore.core.moments import Moment
from octostore.core.names import check_lock_name
from octostore.core.replies import ClaimReply, HeartbeatReply, JobView
from octostore.server.calls import Call, command_route, question_route
from octostore.server.examples import IN_A_MINUTE
from octostore.server.http import Response, StreamingResponse
from octostore.server.refusals import Refusal, refuse
from octostore.server.router import Route
from octostore.server.routes.events import may_continue, wait_for_any
from octostore.server.routes.sessions import lost_session_as_gone
from octostore.server.streams import KEEPALIVE, EventStream
from octostore.stores.loop_flag import LoopFlag
from octostore.wire import bodies
from octostore.wire import fields as f
from octostore.wire.responses import LockAcquired, LockDelayed, LockHeld, LockList, LockRenewed, LockState

TAG = "locks"
LOCK = {"params": {"job_id": "deploy-main"}}
ACQUIRED = {**LOCK, "first": ["acquire_lock"]}
METADATA = "host=runner-7 build=1842"
SOON = {"expires_at": IN_A_MINUTE, "renew_after_ms": 30_000}
HELD = {"name": "deploy-main", "status": "held", "expires_at": IN_A_MINUTE, "metadata": METADATA}
CODES = {"job_id": "invalid_lock_name", "ttl_seconds": "invalid_ttl"}
NAMES = {"job_id": "name"}
"""Fields under the names that lock clients know."""
BEATS_PER_TTL = 2
"""The heartbeats per TTL that lock clients have always sent; others send more (`core/beats.py`)."""
_USUAL_LEASE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def with_lock_codes(error: OctoStoreError) -> Exception:
    """Translate an error to the code that lock clients know."""
    if isinstance(error, InvalidInput) and error.field in CODES:
        code = CODES[error.field]
        error = error.about(NAMES.get(error.field, error.field))
        return refuse(code, str(error), field=error.field, limit=error.limit, size=error.size)
    if isinstance(error, LeaseLost):
        return _not_current(404)
    if isinstance(error, LimitExceeded):
        return refuse("lock_limit_exceeded", str(error), limit=error.limit)
    return error


def with_acquire_codes(error: OctoStoreError) -> Exception:
    return lost_session_as_gone(error) if isinstance(error, LeaseLost) else with_lock_codes(error)


def _not_current(status: int) -> Refusal:
    return refuse("lease_not_current", "this is not the lock's current lease", status=status)


def _prepare_acquire(call: Call) -> Any:
    body: bodies.AcquireBody = call.body
    if body.holder is None:
        body.holder = call.request.header(b"idempotency-key")
    return call.command(owner=call.principal.owner, host=call.host, max_claims=call.services.settings.max_locks)


def _respond_acquired(call: Call, reply: ClaimReply) -> Response:
    match reply.status:
        case "claimed":
            return Response(
                LockAcquired(
                    lease_id=reply.lease_id or "",
                    fencing_token=reply.fencing_token or 0,
                    expires_at=_require(reply.expires_at),
                    renew_after_ms=(reply.remaining_ms or 0) // BEATS_PER_TTL,
                    metadata=_text(reply.metadata),
                )
            )
        case "held":
            return Response(
                LockHeld(
                    holder_id=call.services.pseudonym("holder", reply.principal, reply.session_id),
                    expires_at=_require(reply.expires_at),
                    retry_after_ms=reply.retry_after_ms or 0,
                    metadata=_text(reply.metadata),
                )
            )
        case "delayed":
            available_at = _require(reply.available_at)
            ended = [attempt.ended_at for attempt in reply.previous if attempt.how != "undone"]
            delay = available_at - ended[0] if ended else None
            return Response(
                LockDelayed(
                    available_at=available_at,
                    lock_delay_seconds=round(delay.total_seconds()) if delay else 0,
                    retry_after_ms=reply.retry_after_ms or 0,
                ),
                409,
            )
        case _:
            problem = f"the job {reply.job_id!r} is {reply.status}; it cannot be locked until someone requeues it"
            raise Conflict(problem, status=reply.status)


def _prepare_get(call: Call) -> Any:
    question = call.question()
    check_lock_name("job_id", question.job_id)
    return question


def _prepare_renew(call: Call) -> Any:
    check_lock_name("job_id", call.params["job_id"])
    _check_lease(call.body.lease_id)
    c.check_lock_ttl("ttl_seconds", call.body.ttl_seconds)
    return call.command()


def _respond_renewed(call: Call, reply: HeartbeatReply) -> Response:
    return Response(
        LockRenewed(
            lease_id=call.body.lease_id,
            expires_at=reply.expires_at,
            renew_after_ms=reply.remaining_ms // BEATS_PER_TTL,
            stop_requested=reply.stop_requested,
        )
    )


def _prepare_release(call: Call) -> Any:
    _check_lease(call.body.lease_id)
    return call.command()


async def list_locks(call: Call) -> Response:
    query: bodies.LocksQuery = call.query
    prefix, ask = call.principal.restrict_prefix(query.prefix), call.services.store.ask
    page = await ask(q.ListJobs(prefix=prefix, status="claimed", limit=query.limit, cursor=query.cursor))
    total = len(page.jobs)
    if page.cursor or query.cursor:  # existing clients know `total`, but not that there are pages
        claimed = await ask(q.CountClaimed(prefix=prefix))
        total = max(claimed.number, total + bool(page.cursor))
    locks = [_state(call, job) for job in page.jobs]
    return Response(LockList(locks=locks, total=total, prefix=query.prefix, cursor=page.cursor))


def _state(call: Call, job: JobView) -> LockState:
    claim = job.claim
    if claim is None:
        token = job.previous[0].fencing_token if job.previous else 0
        return LockState(
            name=job.job_id, status="free", holder_id=None, fencing_token=token, expires_at=None, metadata=None
        )
    return LockState(
        name=job.job_id,
        status="held",
        holder_id=call.services.pseudonym("holder", claim.principal, claim.session_id),
        fencing_token=claim.fencing_token,
        expires_at=claim.expires_at,
        metadata=_text(claim.metadata),
    )


# Watching


Watched: TypeAlias = Literal["acquired", "renewed", "released", "expired"]


class WatchFrame(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Contains no lease id, holder or metadata."""

    event: Watched
    lock_name: str
    observed_at: Moment
    fencing_token: int | None = None
    expires_at: Moment | None = None


class LastClaim(NamedTuple):
    """The last claim a watcher knows of. `expires_at` is None once it has ended."""

    fencing_token: int
    expires_at: datetime | None


WATCHED: dict[str, Watched] = {
    "claimed": "acquired",
    "released": "released",
    "done": "released",
    "failed": "released",
    "deferred": "released",
    "force_released": "released",
    "cancelled": "released",
    "undone": "released",
    "expired": "expired",
}


async def watch_lock(call: Call) -> StreamingResponse:
    job_id = call.params["job_id"]
    call.principal.require_name(job_id)
    check_lock_name("job_id", job_id)  # before the stream begins, so that the error gets a status
    watching = _LockWatch(call, job_id)
    return EventStream(call.request, watching.frames(), call.services.streams.slot(call.principal.name))


class _LockWatch:
    """Transitions come from the log. Renewals are not logged; those made through this server wake the watcher."""

    def __init__(self, call: Call, name: str) -> None:
        self._call = call
        self._name = name
        self._known = LastClaim(0, None)
        self._seq = 0

    async def frames(self) -> AsyncGenerator[bytes, None]:
        feed = self._call.services.feed
        silence = self._call.services.settings.keepalive_seconds
        renewed = LoopFlag()
        check_at = time.monotonic() + silence  # a time, not a timeout, which each commit elsewhere would restart
        with self._call.services.store.local.listening([("renewal", self._name)], renewed.set):
            yield await self._current()
            while True:
                changed = feed.changed
                if not await may_continue(self._call):
                    return
                recent = feed.after(self._seq)
                if recent is None:  # too far behind
                    yield await self._current()
                for line in recent or ():
                    self._seq = line.entry.seq
                    if line.entry.job_id == self._name and self._is_news(event := public_event(line.entry)):
                        yield await self._transition(event)
                if renewed.event.is_set() or time.monotonic() >= check_at:
                    renewed.event.clear()
                    check_at = time.monotonic() + silence
                    yield await self._renewal() or KEEPALIVE
                elif recent == []:  # last, because the token may expire during the wait
                    await wait_for_any((changed, renewed.event), check_at - time.monotonic())

    async def _current(self) -> bytes:
        self._seq = self._call.services.feed.last_seq
        self._known = await self._read_claim()
        return self._frame("acquired" if self._known.expires_at else "released")

    def _is_news(self, event: Event) -> bool:
        """The store is ahead of the feed, so the feed may repeat what was read there."""
        if event.type not in WATCHED:
            return False
        if event.type == "claimed":
            return event.seq > self._known.fencing_token
        token: int = event.data.get("fencing_token", 0)  # absent if a job was cancelled without a claim
        return token >= self._known.fencing_token and self._known.expires_at is not None

    async def _transition(self, event: Event) -> bytes:
        if event.type == "claimed":
            current = await self._read_claim()
            expected = event.at + timedelta(milliseconds=event.data["ttl_ms"])
            is_current = current.fencing_token == event.seq and current.expires_at is not None
            self._known = current if is_current else LastClaim(event.seq, expected)
        else:
            self._known = self._known._replace(expires_at=None)
        return self._frame(WATCHED[event.type])

    async def _renewal(self) -> bytes | None:
        """A frame if the same claim now lasts longer. Also finds renewals by other processes, but later."""
        found = await self._read_claim()
        if found.expires_at is None or self._known.expires_at is None or found == self._known:
            return None
        if found.fencing_token != self._known.fencing_token:
            return None
        self._known = found
        return self._frame("renewed")

    async def _read_claim(self) -> LastClaim:
        job = await self._call.services.store.ask(q.GetJob(job_id=self._name))
        if job.claim is not None:
            return LastClaim(job.claim.fencing_token, job.claim.expires_at)
        return LastClaim(job.previous[0].fencing_token if job.previous else 0, None)

    def _frame(self, event: Watched) -> bytes:
        frame = WatchFrame(event=event, lock_name=self._name, observed_at=datetime.now(UTC))
        if self._known.expires_at is not None:
            frame.fencing_token, frame.expires_at = self._known
        return b"data: %s\n\n" % msgspec.json.encode(frame)


def _require(moment: datetime | None) -> datetime:
    if moment is None:
        raise AssertionError("a reply with this status always has this time")
    return moment


def _text(metadata: Any) -> str | None:
    if metadata is None or isinstance(metadata, str):
        return metadata
    return json.dumps(metadata, ensure_ascii=False)


def _check_lease(lease_id: str) -> None:
    if _USUAL_LEASE.fullmatch(lease_id):
        return
    try:
        uuid.UUID(lease_id)
    except ValueError:
        raise _not_current(400) from None


ROUTES = [
    command_route(
        "acquire_lock",
        prepare=_prepare_acquire,
        respond=_respond_acquired,
        summary="Acquire a lock",
        description=(
            "The status is `acquired`, or `held` by someone else. If the holder acquires its lock again, the lock is "
            "renewed with the same lease. A request comes from the holder if it has the same principal and the same "
            "`holder` (or `Idempotency-Key`). If neither request names a holder, the new one must send the same "
            "session and `metadata`, or none. An `ephemeral` lock always needs its own session. **Agents that share a"
            " token and send identical requests count as one, and all of them get the lock**: give each its own "
            "`holder` or metadata. During the lock delay after a lease ends, you get 409 with `delayed`."
        ),
        headers={"Idempotency-Key": f.HolderHeader},
        responses={200: LockAcquired | LockHeld, 409: LockDelayed},
        codes={
            400: ("invalid_lock_name", "invalid_ttl"),
            403: ("lock_limit_exceeded",),
            404: ("not_found",),
            409: ("conflict",),
            410: ("lease_lost",),
        },
        translate=with_acquire_codes,
        example={**LOCK, "body": {"ttl_seconds": 60, "metadata": METADATA}, "response": {**SOON, "metadata": METADATA}},
    ),
    command_route(
        "renew_lock",
        prepare=_prepare_renew,
        respond=_respond_renewed,
        summary="Renew a lock",
        responses={200: LockRenewed},
        codes={400: ("invalid_lock_name", "invalid_ttl", "lease_not_current"), 404: ("lease_not_current",)},
        translate=with_lock_codes,
        example={**ACQUIRED, "body": {"lease_id": "$LEASE", "ttl_seconds": 60}, "response": SOON},
    ),
    command_route(
        "release_lock",
        prepare=_prepare_release,
        respond=lambda _call, _reply: Response(None),
        summary="Release a lock",
        responses={200: None},
        codes={400: ("invalid_lock_name", "lease_not_current"), 404: ("lease_not_current",)},
        translate=with_lock_codes,
        example={**ACQUIRED, "body": {"lease_id": "$LEASE"}},
    ),
    question_route(
        "get_lock",
        prepare=_prepare_get,
        respond=lambda call, job: Response(_state(call, job)),
        summary="Get a lock",
        description="A name that was never used is free. The `fencing_token` of a free lock is its last one, or 0.",
        responses={200: LockState},
        codes={400: ("invalid_lock_name",)},
        translate=with_lock_codes,
        example={**ACQUIRED, "response": HELD},
    ),
    Route.for_operation(
        "list_locks",
        handler=list_locks,
        summary="List the held locks, page by page",
        description=(
            "`total` counts all of them; if there are more pages, `cursor` continues the list. Every claimed job is "
            "listed, including names that only jobs can have, like `acme/shop#12`."
        ),
        responses={200: LockList},
        example={
            "query": {"prefix": "deploy-"},
            "first": ["acquire_lock"],
            "response": {"locks": [HELD], "prefix": "deploy-"},
        },
    ),
    Route.for_operation(
        "watch_lock",
        handler=watch_lock,
        summary="Watch a lock",
        description=(
            "Sends the current state (`acquired` or `released`), then each change, which may also be `renewed` or "
            "`expired`."
        ),
        stream=WatchFrame,
        codes={400: ("invalid_lock_name",), 409: ("limit_exceeded",)},
        translate=with_lock_codes,
        example={**ACQUIRED, "event": {"event": "acquired", "fencing_token": 4711, "expires_at": IN_A_MINUTE}},
    ),
]
