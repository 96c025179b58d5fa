"""Random histories keep the promises of the mission, with the same replies and the same log in every store.

Commands come one at a time and in batches, owners crash, time passes and is set back, the store is restarted.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from octostore.core.errors import LeaseLost, NotFound, OctoStoreError
from octostore.core.events import Ended, decode_details
from octostore.core.model import Outcome, SessionStatus
from octostore.core.moments import to_moment
from octostore.core.questions import (
    FindToken,
    GetFigures,
    GetQueue,
    ListClaims,
    ListHeartbeats,
    ListJobs,
    ListQueues,
    ListSessions,
    ListTokens,
    Question,
)
from octostore.core.replies import (
    ClaimReply,
    ClosedReply,
    Figures,
    HandedOverReply,
    HeartbeatReply,
    Heartbeats,
    KeepaliveReply,
    RecoverReply,
    ReleaseReply,
    SessionReply,
    TokenView,
    UndoReply,
)
from octostore.core.session_keys import SessionKey, key_in, session_key
from octostore.stores.base import Backend
from octostore.stores.memory import MemoryBackend
from octostore.stores.rows import ended_request_from_row, job_from_row, session_from_row, token_from_row
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.sqlite.connection import connect
from octostore.stores.sqlite.database import SQL
from tests.support.commands import (
    ALL_DIGESTS,
    JOB_NAMES,
    JOBS,
    PREFIXES,
    PRINCIPALS,
    QUEUES,
    SESSIONS,
    TTLS,
    any_command,
    locks,
    tokens,
)
from tests.support.files import make_empty
from tests.support.replay import logged_job, logged_session, logged_token, replay
from tests.support.world import ManualClock, World

STATUSES: tuple[SessionStatus | None, ...] = ("open", "closed", "expired", None)
ABOUT_QUEUES: list[Question[Any]] = [
    GetQueue(queue="default"),
    GetQueue(queue="other", prefix="d"),
    ListQueues(),
    ListQueues(prefix="d"),
    ListJobs(queue="default", order="run", limit=2),
    ListJobs(queue="default", order="run", prefix="d"),
    ListJobs(queue="other", order="run", status="queued"),
]
ABOUT_CLAIMS: list[Question[Any]] = [
    ListClaims(),
    ListClaims(window=30, limit=2),
    ListClaims(lost=True, window=60, prefix="d"),
    ListClaims(owner="ann", queue="default"),
    ListClaims(status="queued", window=600_000),
]
LISTS_OF_SESSIONS = [
    ListSessions(status=status, principal=principal, limit=limit)
    for status in STATUSES
    for principal in ("local", None)
    for limit in (1, 2)
]
QUESTIONS_PER_STEP = 2
ABOUT_TOKENS = (c.CreateToken, c.RotateToken, c.RevokeToken)
ENDINGS = {"released", "done", "failed", "deferred", "expired", "force_released", "undone"}


class Histories(RuleBasedStateMachine):
    """The store under test beside two memory stores, one of which runs the commands of a batch one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.memory = World(MemoryBackend(), self.clock)
        self.one_by_one = World(MemoryBackend(), self.clock)
        self.store = self.new_store()
        self.questions = cycle(self.all_questions())
        # What owners believe, from their replies alone.
        self.leases: dict[str, tuple[str, str]] = {}
        self.session_leases: dict[str, str] = {}
        self.newest_lease: dict[SessionKey, str] = {}
        self.sure_until: dict[str, int] = {}
        self.session_sure_until: dict[str, int] = {}
        self.bound_to: dict[str, str | None] = {}
        self.last_token = 0
        # What the creators of tokens believe: the digest of each. And whether it must be checked again.
        self.digests: dict[str, bytes] = {}
        self.tokens_changed = True
        self.compared = 0  # number of events

    def new_store(self) -> World:
        raise NotImplementedError

    def reopened(self) -> Backend:
        raise NotImplementedError

    def all_questions(self) -> list[Question[Any]]:
        """Questions about everything. Each step asks two of them; the end of a history asks all."""
        return [
            GetFigures(),
            ListTokens(),
            ListHeartbeats(job_ids=JOB_NAMES),
            *LISTS_OF_SESSIONS,
            *ABOUT_QUEUES,
            *ABOUT_CLAIMS,
        ]

    def teardown(self) -> None:
        try:
            self.tokens_changed, self.compared = True, 0
            self.the_logs_are_the_same_and_have_no_gap()
            self.a_secret_belongs_to_the_last_token_that_got_it_and_to_no_other()
            self.assert_replies_agree(self.all_questions())
        finally:
            self.store.backend.close()

    # What happens

    @rule(drawn=st.lists(any_command(), min_size=1, max_size=4))
    def commands_arrive(self, drawn: list[AnyCommand]) -> None:
        self.run([self.with_a_lease(command) for command in drawn])

    # Random commands rarely lead a task through its whole life.

    @rule(job_id=JOBS, queue=QUEUES)
    def a_task_is_enqueued(self, job_id: str, queue: str) -> None:
        self.run([c.Enqueue(job_id=job_id, kind="build", queue=queue, payload=b'{"for":1}')])

    @rule(job_id=JOBS, ttl=TTLS, principal=PRINCIPALS, is_lock=st.booleans())
    def several_want_the_same_job(self, job_id: str, ttl: float, principal: str, is_lock: bool) -> None:
        first = c.ClaimJob(job_id=job_id, owner="ann", ttl=ttl)
        second = c.AcquireLock if is_lock and "#" not in job_id else c.ClaimJob  # a lock name has no "#"
        self.run([first, second(job_id=job_id, owner="bob", ttl=ttl, principal=principal)])

    @rule(number=st.integers(0, 2), seconds=st.sampled_from([0, 0, 4, 10]), is_lock=st.booleans())
    def a_rival_wants_a_claimed_job(self, number: int, seconds: float, is_lock: bool) -> None:
        if number < len(self.leases):
            job_id, _ = list(self.leases.values())[-1 - number]
            self.clock.advance(seconds)
            if is_lock and "#" not in job_id:
                self.run([c.AcquireLock(job_id=job_id, owner="eve", principal="guest")])
            else:
                self.run([c.ClaimJob(job_id=job_id, owner="eve")])

    @rule(queue=QUEUES, ttl=TTLS, prefix=PREFIXES)
    def a_worker_takes_the_next_task_and_leaves_a_checkpoint(self, queue: str, ttl: float, prefix: str) -> None:
        (claim,) = self.run([c.ClaimNext(owner="ann", queue=queue, ttl=ttl, prefix=prefix)])
        if claim.status == "claimed":
            self.run([c.CheckpointJob(job_id=claim.job_id, lease_id=claim.lease_id, data=b'{"step":5}')])

    @rule(queue=QUEUES, drawn=any_command(), prefix=PREFIXES)
    def a_worker_takes_the_next_task_as_another_ends(self, queue: str, drawn: AnyCommand, prefix: str) -> None:
        self.run([self.with_a_lease(drawn), c.ClaimNext(owner="bob", queue=queue, prefix=prefix)])

    @rule(session_id=SESSIONS, principal=PRINCIPALS, ttl=TTLS)
    def a_session_is_opened(self, session_id: str, principal: str, ttl: float) -> None:
        self.run([c.OpenSession(session_id=session_id, agent="ann", principal=principal, ttl=ttl)])

    @rule(session_id=SESSIONS, ttl=TTLS, agent=st.sampled_from(["ann", "bob"]))
    def a_session_takes_its_next_task(self, session_id: str, ttl: float, agent: str) -> None:
        self.run([c.ClaimTask(session_id=session_id, owner=agent, ttl=ttl, queues=("default", "other"))])

    @rule(number=st.integers(0, 2), outcome=st.sampled_from(["released", "done", "failed", "deferred"]))
    def a_session_is_done_with_its_task(self, number: int, outcome: Outcome) -> None:
        tasks = [lease for lease in self.leases if lease in self.session_leases]
        if number < len(tasks):
            lease = tasks[-1 - number]
            job_id, session_id = self.leases[lease][0], self.session_leases[lease]
            self.run([c.ReleaseTask(session_id=session_id, job_id=job_id, lease_id=lease, outcome=outcome)])

    @rule(number=st.integers(0, 2), to_agent=st.sampled_from(["ann", "bob"]), drawn=any_command())
    def a_session_is_handed_over_and_opened(self, number: int, to_agent: str, drawn: AnyCommand) -> None:
        if number < len(self.session_leases):
            lease, session_id = list(self.session_leases.items())[-1 - number]
            handed_over = c.HandOverSession(session_id=session_id, lease_id=lease, to_agent=to_agent, note="yours")
            opened = c.OpenSession(session_id=session_id, agent=to_agent)
            self.run([handed_over, self.with_a_lease(drawn), opened])

    @rule(drawn=st.lists(locks() | st.just(c.ReleaseLock(job_id="a", lease_id="#0")), min_size=2, max_size=4))
    def locks_are_acquired(self, drawn: list[AnyCommand]) -> None:
        self.run([self.with_a_lease(command) for command in drawn])

    @rule(drawn=st.lists(tokens(), min_size=1, max_size=6))
    def tokens_are_made(self, drawn: list[AnyCommand]) -> None:
        self.run(drawn)

    def run(self, batch: list[AnyCommand]) -> list[Any]:
        replies = self.memory.batch(batch)
        assert list(map(comparable, replies)) == list(map(comparable, self.store.batch(batch)))
        alone = [self.one_by_one.batch([command])[0] for command in batch]
        assert list(map(without_hints, replies)) == list(map(without_hints, alone))
        self.tokens_changed |= any(isinstance(command, ABOUT_TOKENS) for command in batch)
        for command, reply in zip(batch, replies, strict=True):
            self.believe(command, reply)
        return replies

    @rule(seconds=st.sampled_from([0.001, 0.5, 1, 4, 10, 31, 100]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([1, 50]))
    def the_clock_is_set_back(self, seconds: float) -> None:
        self.clock.advance(-seconds)

    @rule(owner=st.sampled_from(["ann", "bob"]))
    def an_owner_crashes(self, owner: str) -> None:
        """Its leases are never used again; only time can free its jobs."""
        self.leases = {lease: (job, who) for lease, (job, who) in self.leases.items() if who != owner}

    @rule()
    def the_store_is_restarted(self) -> None:
        self.store.backend.close()
        self.store.backend = self.reopened()
        self.tokens_changed = True

    # What owners believe

    def with_a_lease(self, command: AnyCommand) -> AnyCommand:
        """The command with an owner's lease, for the job or session of that lease; unchanged if there is no lease."""
        lease_id = getattr(command, "lease_id", None)
        if lease_id is None:
            return command
        number = int(lease_id[1:])
        field, known = "job_id", [(lease, job) for lease, (job, _) in self.leases.items()]
        if getattr(command, "session_id", None) is not None:
            field, known = "session_id", list(self.session_leases.items())
        if isinstance(command, c.ReleaseLock):
            known = [(lease, job) for lease, job in known if "#" not in job]  # a lock name has no "#"
        if number >= len(known):
            return command
        lease, its = known[-1 - number]
        return msgspec.structs.replace(command, **{"lease_id": lease, field: its})

    def believe(self, command: AnyCommand, reply: Any) -> None:  # noqa: C901, PLR0912  # one case for each command
        match command, reply:
            case ((c.ClaimJob() | c.ClaimNext() | c.AcquireLock()), ClaimReply(status="claimed")):
                self.believe_claim(reply)
            case c.HeartbeatJob(), HeartbeatReply():
                self.sure_until[command.job_id] = moment(reply.expires_at)
            case c.CloseSession(), ClosedReply():
                self.forget_session(key_in(command))
            case c.ReleaseTask(), ReleaseReply():
                if self.newest_lease.get(key_in(command)) == command.lease_id:  # else it repeats an older one
                    self.forget_session(key_in(command))
            case ((c.ReleaseJob() | c.ReleaseLock() | c.ForceReleaseJob() | c.CancelJob()), reply) if not isinstance(
                reply, OctoStoreError
            ):
                if self.leases.get(getattr(command, "lease_id", ""), (None,))[0] in {None, command.job_id}:
                    self.sure_until.pop(command.job_id, None)
            case c.Undo(job_id=str(job_id)), UndoReply(undone=True):
                self.sure_until.pop(job_id, None)
            case c.Undo(session_id=str()), UndoReply(undone=True):
                self.forget_session(key_in(command))
            case c.ClaimTask(), ClaimReply(status="claimed"):
                if reply.session is not None:  # else the session was already open and is unchanged
                    self.believe_session(reply.session, key_in(command))
                self.believe_claim(reply)
            case c.OpenSession(), SessionReply():
                self.believe_session(reply, key_in(command))
            case c.HandOverSession(), HandedOverReply():
                for job_id in reply.jobs:
                    self.sure_until.pop(job_id, None)
            case c.KeepSessionAlive(), KeepaliveReply():
                self.session_sure_until[key_in(command)] = moment(reply.expires_at)
            case ((c.CreateToken() | c.RotateToken()), TokenView()):
                self.digests[command.token_id] = command.digest

    def believe_session(self, session: SessionReply, key: SessionKey) -> None:
        self.session_leases[session.lease_id] = session.session_id
        self.newest_lease[key] = session.lease_id
        self.session_sure_until[key] = moment(session.expires_at)

    def forget_session(self, key: SessionKey) -> None:
        """Forget an ended session and the claims bound to it."""
        self.session_sure_until.pop(key, None)
        for job_id in [job_id for job_id, bound in self.bound_to.items() if bound == key]:
            self.sure_until.pop(job_id, None)

    def believe_claim(self, claim: ClaimReply) -> None:
        assert claim.job_id is not None
        assert claim.lease_id is not None
        assert claim.fencing_token is not None
        if not claim.replayed and not self.was_handed_over(claim.fencing_token):
            self.nobody_else_is_sure(claim)
            assert claim.fencing_token > self.last_token, "fencing tokens strictly increase"
            self.last_token = claim.fencing_token
        self.leases[claim.lease_id] = (claim.job_id, claim.owner or "")
        bound = claim.session_id is not None
        self.bound_to[claim.job_id] = session_key(claim.principal or "", claim.session_id or "") if bound else None
        self.sure_until[claim.job_id] = moment(claim.expires_at)

    def was_handed_over(self, fencing_token: int) -> bool:
        """Whether a hand-over made the claim before its owner asked for it."""
        entry = self.memory.log()[fencing_token - 1]
        assert entry.type == "claimed"
        return b"handed_over_by" in entry.details

    def nobody_else_is_sure(self, claim: ClaimReply) -> None:
        """At most one live claim, and no lease ends early."""
        job_id = claim.job_id or ""
        until = self.sure_until.get(job_id, 0)
        session_id = self.bound_to.get(job_id)
        if session_id is not None:
            until = min(until, self.session_sure_until.get(session_id, 0))
        assert until <= moment(claim.claimed_at)

    # What always holds

    @invariant()
    def the_logs_are_the_same_and_have_no_gap(self) -> None:
        log = self.memory.log()
        assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
        assert [entry.at for entry in log] == sorted(entry.at for entry in log), "time never runs backwards"
        assert log[self.compared :] == self.store.log(self.compared) == self.one_by_one.log(self.compared)
        self.compared = len(log)

    @invariant()
    def every_claim_ends_once_and_before_the_next(self) -> None:
        claimed: set[str] = set()
        for entry in self.memory.log():
            if entry.type == "claimed":
                assert entry.job_id not in claimed
                claimed.add(entry.job_id or "")
            elif entry.type in ENDINGS or (entry.type == "cancelled" and isinstance(decode_details(entry), Ended)):
                claimed.remove(entry.job_id or "")

    @invariant()
    def replaying_the_log_reproduces_the_stored_state(self) -> None:
        replayed = replay(self.memory.log())
        expected_jobs = {job_id: logged_job(job) for job_id, job in replayed.jobs.items() if job is not None}
        expected_sessions = {s.session_id: logged_session(s) for s in replayed.sessions.values() if s is not None}
        expected_tokens = {t.token_id: logged_token(t) for t in replayed.tokens.values() if t is not None}
        assert isinstance(self.memory.backend, MemoryBackend)
        rows = self.memory.backend.rows
        assert {job_id: logged_job(job) for job_id, job in rows.jobs.items()} == expected_jobs
        assert {s.session_id: logged_session(s) for s in rows.sessions.values()} == expected_sessions
        assert {t.token_id: logged_token(t) for t in rows.tokens.values()} == expected_tokens
        assert +rows.queued == +Counter(replayed.queued_changes)
        set_to = {name: (queue.max_claimed, queue.pause) for name, queue in rows.queues.items()}
        queues = {name: queue for name, queue in replayed.queues.items() if queue is not None}
        assert set_to == {name: (queue.max_claimed, queue.pause) for name, queue in queues.items()}

    @invariant()
    def a_secret_belongs_to_the_last_token_that_got_it_and_to_no_other(self) -> None:
        if not self.tokens_changed:
            return
        self.tokens_changed = False
        assert len(set(self.digests.values())) == len(self.digests)
        for world in (self.memory, self.one_by_one, self.store):
            for token_id, digest in self.digests.items():
                assert world.ask(FindToken(digest=digest)).token_id == token_id
            for digest in set(ALL_DIGESTS) - set(self.digests.values()):
                with pytest.raises(NotFound):
                    world.ask(FindToken(digest=digest))

    @invariant()
    def stores_agree_on_some_questions(self) -> None:
        self.assert_replies_agree(islice(self.questions, QUESTIONS_PER_STEP))

    def assert_replies_agree(self, questions: Iterable[Question[Any]]) -> None:
        for question in questions:
            reply = timeless(self.memory.ask(question))
            assert reply == timeless(self.one_by_one.ask(question)) == timeless(self.store.ask(question))


class Promises(Histories):
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        make_empty(self.folder / "store.db")
        super().__init__()

    def new_store(self) -> World:
        return World(self.reopened(), self.clock)

    def reopened(self) -> Backend:
        return SqliteBackend(self.folder / "store.db")

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)

    @invariant()
    def both_stores_hold_the_same_rows(self) -> None:
        assert isinstance(self.memory.backend, MemoryBackend)
        rows = self.memory.backend.rows
        connection = connect(self.folder / "store.db")
        try:
            jobs = [job_from_row(row) for row in connection.execute(f"SELECT {SQL['job_columns']} FROM jobs")]
            sessions = connection.execute(f"SELECT {SQL['session_columns']} FROM sessions").fetchall()
            made = [token_from_row(row) for row in connection.execute(f"SELECT {SQL['token_columns']} FROM tokens")]
            documents = pairs(connection, "SELECT seq, body FROM documents")
            checkpoints = pairs(connection, "SELECT job_id, data FROM checkpoints")
            contexts = pairs(connection, "SELECT session_id, data FROM contexts")
            ended = connection.execute(
                f"SELECT {SQL['request_columns']} FROM ended_requests ORDER BY principal, number"
            ).fetchall()
        finally:
            connection.close()
        assert {job.job_id: job for job in jobs} == rows.jobs
        assert {row[0]: session_from_row(row) for row in sessions} == rows.sessions
        assert {token.token_id: token for token in made} == rows.tokens
        assert (documents, checkpoints, contexts) == (rows.documents, rows.checkpoints, rows.contexts)
        assert list(map(ended_request_from_row, ended)) == [
            one for _, each in sorted(rows.ended.items()) for one in each
        ]


def pairs(connection: apsw.Connection, query: str) -> dict[Any, Any]:
    rows: Any = connection.execute(query)
    return dict(rows)


def moment(time: datetime | None) -> int:
    assert time is not None
    return to_moment("time", time)


def comparable(reply: Any) -> Any:
    if isinstance(reply, OctoStoreError):
        return type(reply), str(reply), vars(reply)
    return reply


def timeless(reply: Any) -> Any:
    """The reply without the moment of the read and the store's id.

    After a clock was set back, each store has its own latest moment.
    """
    if isinstance(reply, Heartbeats):
        return reply.claims
    return msgspec.structs.replace(reply, at=None, store_id="") if isinstance(reply, Figures) else reply


def without_hints(reply: Any) -> Any:
    """The reply without what neighbours in a batch may change: when to retry, and which transaction recorded an expiry.

    Also without the owner of an ended request's job, which is included only if a neighbour has loaded that job.
    """
    if isinstance(reply, LeaseLost):
        return type(reply), reply.job_id
    if isinstance(reply, RecoverReply) or (isinstance(reply, ClaimReply) and reply.status == "empty"):
        return type(reply)
    return comparable(reply)


TestPromises = Promises.TestCase
TestPromises.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class LongPromises(Promises):
    """The same, with more examples, for `make faults`."""


TestLongPromises = pytest.mark.timeout(1_800)(pytest.mark.slow(LongPromises.TestCase))
TestLongPromises.settings = settings(TestPromises.settings, max_examples=400)
