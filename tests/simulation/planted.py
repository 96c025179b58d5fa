"""Faults planted in the real code, to check that the simulator finds them, and how soon."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import deepcopy
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple
from unittest import mock

import msgspec

import octostore.client.embedded
import octostore.client.http.async_port
import octostore.core.decide.claim
import octostore.core.decide.expiry
import octostore.core.decide.lease
import octostore.core.decide.release
import octostore.core.decide.sessions
import octostore.core.decide.tasks
import octostore.server.waiting_claims
import octostore.stores.batch
import octostore.stores.engine
import octostore.stores.loop_store
from octostore.client.authority import Authority
from octostore.core import views
from octostore.core.commands import CheckpointJob, CloseSession, HeartbeatJob, ReleaseJob, ReleaseTask
from octostore.core.decide.expiry import sweep
from octostore.core.decide.rules import RULES, needs_of
from octostore.core.errors import LeaseLost, Unreachable
from octostore.core.model import LOCAL
from octostore.core.moments import to_datetime
from octostore.core.questions import GetJob, GetSession
from octostore.core.replies import CheckpointReply, ClaimReply, HeartbeatReply, SessionReply
from octostore.core.working_set import WorkingSet
from octostore.stores.batch import Committed, run_batch
from octostore.stores.clock import Mark, SystemClock
from octostore.stores.memory import MemoryBackend
from octostore.stores.reading import ask
from octostore.stores.wakeups import Wakeups
from tests.simulation.primitives import Here
from tests.simulation.world import Plan, Result, run

HOURS, PACE = 0.2, 5.0
"""The length and pace of the runs that look for a planted fault."""


class Planted(NamedTuple):
    name: str
    breaks: str
    within: int
    """The number of seeds that must be enough to find it."""
    plant: Callable[[], AbstractContextManager[object]]
    first: int = 1
    """The first seed. A rare fault would take many runs from seed 1, at a second each."""


def find(planted: Planted) -> Result | None:
    """Return the first run that finds it."""
    for seed in range(planted.first, planted.first + planted.within):
        with planted.plant():
            result = run(Plan(seed, HOURS, pace=PACE))
        if result.broken is not None:
            return result
    return None


def _patch(target: Any, **changes: Any) -> Callable[[], AbstractContextManager[object]]:
    return lambda: mock.patch.multiple(target, **changes)


def _all_of(*plants: Callable[[], AbstractContextManager[object]]) -> Callable[[], AbstractContextManager[object]]:
    @contextmanager
    def plant() -> Iterator[None]:
        with ExitStack() as stack:
            for one in plants:
                stack.enter_context(one())
            yield

    return plant


# The transaction


def _reply_before_commit(backend: Any, commands: Sequence[Any], clock: Any, given: Any, **how: Any) -> Committed:
    try:
        return run_batch(backend, commands, clock, given, **how)
    except Unreachable:
        needs = needs_of(commands)
        with backend.inner.writing(needs) as writing:
            counters = writing.counters()
            ws = WorkingSet(now=clock(counters.mark).now, seq=counters.seq)
            writing.load(ws, needs)
            sweep(ws, given)
            replies = [octostore.stores.batch._reply_to(ws, command, given, 0.0) for command in commands]
        return Committed(replies, [], [], [])


def _reply_in_another_order(backend: Any, commands: Sequence[Any], clock: Any, given: Any, **how: Any) -> Committed:
    committed = run_batch(backend, commands, clock, given, **how)
    return committed._replace(replies=committed.replies[::-1])


def _leave_gaps() -> AbstractContextManager[object]:
    def working_set(now: int, seq: int) -> WorkingSet:
        return WorkingSet(now, seq + (seq % 40 == 39))

    return mock.patch.object(octostore.stores.batch, "WorkingSet", working_set)


def _lose_every_eighth_checkpoint() -> AbstractContextManager[object]:
    numbers, real = count(1), WorkingSet.set_checkpoint

    def set_checkpoint(ws: WorkingSet, job_id: str, data: bytes | None) -> None:
        if data is None or next(numbers) % 8:
            real(ws, job_id, data)

    return mock.patch.object(WorkingSet, "set_checkpoint", set_checkpoint)


# Time


_expiry_of = views.expiry_of


def _early(ws: WorkingSet, claim: Any) -> int:
    return _expiry_of(ws, claim) - 1_000


def _never(ws: WorkingSet, claim: Any) -> int:
    return _expiry_of(ws, claim) + (86_400_000 if claim.fencing_token % 4 == 0 else 0)


def _wall_clock(clock: SystemClock, _last: Mark) -> Mark:
    return Mark(clock._wall_ms(), clock._boot_id, clock._counted_ms())


def _from_the_reply() -> AbstractContextManager[object]:
    real = Authority.renew

    def renew(authority: Authority, _asked_at: float, remaining_ms: int) -> None:
        real(authority, authority.now(), remaining_ms)

    return mock.patch.object(Authority, "renew", renew)


# Leases


def _rule(command: type[Any], rule: Callable[..., Any]) -> Callable[[], AbstractContextManager[object]]:
    return lambda: mock.patch.dict(RULES, {command: RULES[command]._replace(decide=rule)})


def _revive(ws: WorkingSet, command: HeartbeatJob, given: Any) -> HeartbeatReply:
    try:
        return octostore.core.decide.lease.heartbeat_job(ws, command, given)
    except LeaseLost as lost:
        if lost.ended is None or lost.ended.how != "expired":
            raise
        expires_at = to_datetime(ws.now) + timedelta(seconds=30)
        return HeartbeatReply(job_id=command.job_id, expires_at=expires_at, remaining_ms=30_000, renew_after_ms=10_000)


def _checkpoint_without_lease(ws: WorkingSet, command: CheckpointJob, _given: Any) -> CheckpointReply:
    ws.set_checkpoint(command.job_id, command.data)
    return CheckpointReply(job_id=command.job_id, saved_at=to_datetime(ws.now))


def _replay_unnoticed(ws: WorkingSet, job: Any, claim: Any) -> ClaimReply:
    return views.claimed_reply(ws, job, claim, replayed=True)


def _tokens_per_process(ws: WorkingSet, job: Any, claim: Any, **options: Any) -> ClaimReply:
    """Counted from 1 in each process, and again after a restart."""
    tokens = Here.scheduler.process.own.setdefault("tokens", {})
    token = tokens.setdefault(claim.lease_id, len(tokens) + 1)
    return msgspec.structs.replace(views.claimed_reply(ws, job, claim, **options), fencing_token=token)


# Earlier behaviour


def _release_instead_of_undo(reply: object, principal: str = LOCAL) -> object:
    """`undo_of` before the store decided: the receiver of the reply did."""
    if isinstance(reply, SessionReply) and not reply.replayed:
        return CloseSession(session_id=reply.session_id, lease_id=reply.lease_id, principal=principal)
    if not isinstance(reply, ClaimReply) or reply.status != "claimed" or reply.replayed:
        return None
    job_id, lease_id = reply.job_id or "", reply.lease_id or ""
    if reply.session is None:
        return ReleaseJob(job_id=job_id, lease_id=lease_id, principal=principal)
    return ReleaseTask(session_id=reply.session.session_id, job_id=job_id, lease_id=lease_id, principal=principal)


_UNDOING = (
    octostore.server.waiting_claims,
    octostore.client.embedded,
    octostore.client.http.async_port,
    octostore.stores.loop_store,
)
_ALL_ARE_NEW = {"check_not_ended": lambda _ws, _command: None}
_NONE_IS_LATE = {"comes_late": lambda _number, _newest: False}


# Reading and waking


def _ask_an_old_copy(backend: Any, question: Any, clock: Any, retry: Any) -> Any:
    """Like a server that reads from a replica that was cut off."""
    process = Here.scheduler.process
    if not isinstance(question, GetJob | GetSession) or not process.name.startswith("server"):
        return ask(backend, question, clock, retry)
    if "copy" not in process.own:
        rows = backend.inner.rows
        copied = type(rows)()
        vars(copied).update({name: deepcopy(value) for name, value in vars(rows).items() if name != "log"})
        process.own["copy"] = MemoryBackend(copied)
    return ask(process.own["copy"], question, clock, retry)


def _join_at_the_front(line: Any, waiter: Any) -> None:
    line.waiters.insert(0, waiter)
    line._bell.event.set()


CLAIM, LEASE = octostore.core.decide.claim, octostore.core.decide.lease
SESSIONS, TASKS = octostore.core.decide.sessions, octostore.core.decide.tasks
ENGINE = octostore.stores.engine

PLANTED = (
    Planted(
        "reply before commit",
        "callers get a reply although their transaction then fails",
        5,
        _patch(ENGINE, run_batch=_reply_before_commit),
    ),
    Planted(
        "replies in another order",
        "the callers of a batch get each other's replies",
        10,
        _patch(ENGINE, run_batch=_reply_in_another_order),
    ),
    Planted("gap in the log", "sometimes a number is skipped", 2, _leave_gaps),
    Planted("lost checkpoint", "a checkpoint is acknowledged but not saved", 2, _lose_every_eighth_checkpoint),
    Planted(
        "expiry a second early",
        "a lease ends before the `expires_at` that its owner received",
        12,
        _patch(octostore.core.decide.expiry, expiry_of=_early),
        first=3,
    ),
    Planted(
        "expiry forgotten",
        "some claims of dead owners never expire",
        5,
        _all_of(_patch(octostore.core.decide.expiry, expiry_of=_never), _patch(views, expiry_of=_never)),
    ),
    Planted(
        "pause forgotten",
        "a paused queue hands out jobs",
        5,
        _patch(octostore.core.decide.claim, hands_out=lambda _ws, _queue: True),
    ),
    Planted(
        "clock runs backwards",
        "the store uses the machine's clock as it is",
        10,
        _patch(SystemClock, __call__=_wall_clock),
        first=3,
    ),
    Planted("authority from the reply", "an owner counts from when the reply arrived", 12, _from_the_reply, first=2),
    Planted(
        "heartbeat revives",
        "a heartbeat with an expired lease succeeds",
        12,
        _rule(HeartbeatJob, _revive),
        first=5,
    ),
    Planted(
        "stale release accepted",
        "an ended lease can release the next owner's claim",
        6,
        _patch(octostore.core.decide.release, same_lease=lambda _one, _other: True),
    ),
    Planted(
        "stale checkpoint accepted",
        "an ended lease can still write",
        12,
        _rule(CheckpointJob, _checkpoint_without_lease),
    ),
    Planted(
        "fencing tokens per process",
        "fencing tokens start over when a server restarts",
        2,
        _patch(CLAIM, views=mock.Mock(wraps=views, claimed_reply=_tokens_per_process)),
    ),
    Planted(
        "forgotten replay check",
        "the same request id does not find its own claim",
        5,
        _patch(CLAIM, is_repeat=lambda _claim, _command: False),
    ),
    Planted(
        "undo without a check",
        "a claim is undone although it was returned to a caller meanwhile",
        25,
        _all_of(_patch(CLAIM, replay_claim=_replay_unnoticed), _patch(TASKS, replay_claim=_replay_unnoticed)),
        first=3,
    ),
    Planted(
        "locks per principal",
        "a lock goes to anyone with the same token as its holder",
        5,
        _patch(CLAIM, _is_holder=lambda claim, command, _holder: claim.principal == command.principal),
    ),
    Planted("stale read", "a server reads from an old copy", 5, _patch(ENGINE, ask=_ask_an_old_copy)),
    Planted(
        "lost wake-up",
        "waiting callers are not woken by commits",
        5,
        _patch(Wakeups, publish=lambda _wakeups, _topics: None),
    ),
    Planted(
        "last come, first served",
        "the last to wait is served first",
        12,
        _patch(octostore.server.waiting_claims._WaitLine, join=_join_at_the_front),
    ),
    Planted(
        "undo decided outside the store",
        "the first real bug: a server or client releases a claim that a caller may have received",
        25,
        _all_of(*(_patch(module, undo_of=_release_instead_of_undo) for module in _UNDOING)),
        first=3,
    ),
    Planted(
        "late duplicate claims again",
        "the second real bug: a request whose claim has ended gets another one, for nobody",
        5,
        _all_of(*(_patch(module, **_ALL_ARE_NEW) for module in (CLAIM, SESSIONS, TASKS))),
    ),
    Planted(
        "late duplicate checkpoint overwrites",
        "the third real bug: an older write that arrives later overwrites a newer one",
        15,
        _patch(LEASE, **_NONE_IS_LATE),
        first=4,
    ),
    Planted(
        "late duplicate context overwrites",
        "the third real bug, for a session's context",
        20,
        _patch(SESSIONS, **_NONE_IS_LATE),
        first=14,
    ),
)
