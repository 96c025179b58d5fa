"""Two promises about time, in random histories: no lease ends early, and time never runs backwards.

Owners heartbeat or stop, clocks are set, machines and processes restart, any process sweeps. Only the test knows how
much time really passes.
"""

import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from octostore.core.commands import (
    AnyCommand,
    CheckpointJob,
    ClaimJob,
    HeartbeatJob,
    KeepSessionAlive,
    OpenSession,
    Probe,
    Recover,
)
from octostore.core.errors import OctoStoreError
from octostore.core.moments import to_moment
from octostore.core.questions import GetFigures, GetJob, ListEvents, ListJobs
from octostore.stores.base import Backend
from octostore.stores.batch import run_batch
from octostore.stores.clock import Clock, SystemClock, as_stored
from octostore.stores.memory import MemoryBackend
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.connection import parse_address
from octostore.stores.reading import ask
from octostore.stores.sqlite import SqliteBackend
from tests.support.files import make_empty
from tests.support.postgres import empty_store, put_back
from tests.support.world import START_MS, repeatable_sources

JOBS = st.sampled_from(["a", "b", "c"])
TTLS = st.sampled_from([1, 5, 30])
PROCESSES = st.integers(0, 1)
WHOLE_LOG = ListEvents(limit=1_000)


class Histories(RuleBasedStateMachine):
    """On the memory store, which two processes share."""

    def __init__(self) -> None:
        super().__init__()
        self.true_ms = 0
        """The time that really passed."""
        self.wall_ms = START_MS
        self.counted_ms = 5_000
        self.boot = 1
        self.sources = repeatable_sources()
        self.leases: dict[str, str] = {}
        self.sure_until: dict[str, int] = {}
        """Job -> when its owner's lease expires according to the replies, in true time."""
        self.bound: set[str] = set()
        self.session_sure_until = 0
        self.written_at = 0
        """The latest moment of a write that the store has reported."""
        self.processes: list[Backend] = []

    @initialize()
    def begins(self) -> None:
        self.processes = self.open_all()

    def open_all(self) -> list[Backend]:
        one = MemoryBackend()
        return [one, one]

    def clock(self) -> Clock:
        return SystemClock(lambda: self.wall_ms, lambda: self.counted_ms, f"boot-{self.boot}")

    def do(self, process: int, command: AnyCommand) -> Any:
        committed = run_batch(self.processes[process], [command], self.clock(), self.sources)
        for entry in committed.entries:
            assert entry.at >= self.written_at, "time runs backwards"
            self.written_at = entry.at
        (reply,) = committed.replies
        return reply

    def check_moment(self, moment: datetime | int | None) -> None:
        """A moment at which something was just written."""
        assert moment is not None
        at = moment if isinstance(moment, int) else to_moment("at", moment)
        assert at >= self.written_at, "time runs backwards"
        self.written_at = at

    # What owners do

    @rule(process=PROCESSES, job_id=JOBS, ttl=TTLS, is_bound=st.booleans())
    def somebody_claims(self, process: int, job_id: str, ttl: float, is_bound: bool) -> None:
        session_id = "s" if is_bound else None
        reply = self.do(process, ClaimJob(job_id=job_id, owner=f"p{process}", ttl=ttl, session_id=session_id))
        if isinstance(reply, OctoStoreError):
            assert is_bound, reply
            return
        if reply.status == "claimed":
            assert self.end_of(job_id) <= self.true_ms, "it was ended early"
            self.check_moment(reply.claimed_at)
            self.leases[job_id] = reply.lease_id
            (self.bound.add if is_bound else self.bound.discard)(job_id)
            self.sure_until[job_id] = self.true_ms + reply.remaining_ms

    @rule(process=PROCESSES, job_id=JOBS, ttl=st.none() | TTLS)
    def its_owner_heartbeats(self, process: int, job_id: str, ttl: float | None) -> None:
        if job_id in self.leases:
            reply = self.do(process, HeartbeatJob(job_id=job_id, lease_id=self.leases[job_id], ttl=ttl))
            if isinstance(reply, OctoStoreError):
                assert self.end_of(job_id) <= self.true_ms, "it was ended early"
                return
            self.check_moment(to_moment("expires_at", reply.expires_at) - reply.remaining_ms)
            until = self.true_ms + reply.remaining_ms
            # Bound to a session, it lasts at least as long as before; otherwise as long as the last reply said.
            self.sure_until[job_id] = max(until, self.sure_until[job_id]) if job_id in self.bound else until

    @rule(process=PROCESSES, job_id=JOBS)
    def its_owner_leaves_a_checkpoint(self, process: int, job_id: str) -> None:
        if job_id in self.leases:
            reply = self.do(process, CheckpointJob(job_id=job_id, lease_id=self.leases[job_id], data=b"1"))
            if isinstance(reply, OctoStoreError):
                assert self.end_of(job_id) <= self.true_ms, "it was ended early"
                return
            self.check_moment(reply.saved_at)

    @rule(process=PROCESSES, ttl=TTLS)
    def a_session_is_opened(self, process: int, ttl: float) -> None:
        reply = self.do(process, OpenSession(session_id="s", agent="ann", ttl=ttl, without_lease=True))
        if isinstance(reply, OctoStoreError):
            return
        assert self.session_sure_until <= self.true_ms, "it was ended early"
        self.check_moment(to_moment("expires_at", reply.expires_at) - reply.remaining_ms)
        self.session_sure_until = self.true_ms + reply.remaining_ms

    @rule(process=PROCESSES)
    def a_session_is_kept_alive(self, process: int) -> None:
        reply = self.do(process, KeepSessionAlive(session_id="s", lease_id=None))
        if isinstance(reply, OctoStoreError):
            assert self.session_sure_until <= self.true_ms, "it was ended early"
            return
        self.check_moment(to_moment("expires_at", reply.expires_at) - reply.remaining_ms)
        self.session_sure_until = self.true_ms + reply.remaining_ms
        for job_id in self.bound:
            if self.end_of(job_id) > self.true_ms:
                self.sure_until[job_id] = self.session_sure_until

    # Random steps rarely lead a lease to the moment before it expires.

    @rule(
        process=PROCESSES,
        other=PROCESSES,
        job_id=JOBS,
        ttl=TTLS,
        is_bound=st.booleans(),
        share=st.sampled_from([0.1, 0.5, 0.9]),
        disturbances=st.lists(st.sampled_from(["back", "start", "boot", "sweep"]), max_size=2),
    )
    def a_lease_is_renewed_and_lasts_to_its_last_millisecond(
        self,
        *,
        process: int,
        other: int,
        job_id: str,
        ttl: float,
        is_bound: bool,
        share: float,
        disturbances: list[str],
    ) -> None:
        if is_bound:
            self.a_session_is_opened(other, ttl)
        self.somebody_claims(process, job_id, ttl, is_bound)
        self.time_passes(round(share * ttl * 1_000))
        for disturbance in disturbances:
            self.disturb(disturbance, other)
        self.its_owner_heartbeats(process, job_id, None)
        if is_bound:
            self.a_session_is_kept_alive(process)
        left_ms = self.end_of(job_id) - self.true_ms
        if left_ms > 0:
            self.time_passes(left_ms - 1)
            self.no_lease_has_ended_early()
            rival = self.do(other, ClaimJob(job_id=job_id, owner="rival"))
            assert rival.status == "held", "it was ended early"
            self.somebody_sweeps(other)
            self.time_passes(1)

    def disturb(self, how: str, process: int) -> None:
        if how == "back":
            self.the_clock_is_set_back(20_000)
        elif how == "start":
            self.a_process_restarts(process)
        elif how == "boot":
            self.the_machine_restarts(20_000)
        else:
            self.somebody_sweeps(process)

    # What happens to them

    @rule(process=PROCESSES)
    def somebody_sweeps(self, process: int) -> None:
        recovered = self.do(process, Recover())
        for one in recovered.recovered:
            assert self.end_of(one.job_id) <= self.true_ms, "it was ended early"

    @rule(process=PROCESSES)
    def somebody_probes(self, process: int) -> None:
        self.check_moment(self.do(process, Probe()).at)

    @rule(ms=st.sampled_from([1, 300, 999, 1_000, 4_000, 10_000, 31_000]))
    def time_passes(self, ms: int) -> None:
        self.true_ms += ms
        self.wall_ms += ms
        self.counted_ms += ms

    @rule(ms=st.sampled_from([1, 1_000, 20_000, 3_600_000]))
    def the_clock_is_set_back(self, ms: int) -> None:
        self.wall_ms -= ms

    @rule(ms=st.sampled_from([1_000, 20_000]))
    def the_clock_is_set_forward(self, ms: int) -> None:
        """Leases may end early by this much, and no more."""
        self.wall_ms += ms
        self.sure_until = {job_id: until - ms for job_id, until in self.sure_until.items()}
        self.session_sure_until -= ms

    @rule(back_ms=st.sampled_from([0, 0, 20_000]))
    def the_machine_restarts(self, back_ms: int) -> None:
        self.counted_ms = 0
        self.boot += 1
        self.wall_ms -= back_ms
        for process in range(len(self.processes)):
            self.a_process_restarts(process)

    @rule(process=PROCESSES)
    def a_process_restarts(self, process: int) -> None:
        """The memory store does not survive a restart, so nothing happens here."""

    # What always holds

    def end_of(self, job_id: str) -> int:
        return self.sure_until.get(job_id, 0)

    @invariant()
    def no_lease_has_ended_early(self) -> None:
        for job_id, lease_until in self.sure_until.items():
            if lease_until <= self.true_ms:
                continue
            for process in self.processes:
                view = ask(process, GetJob(job_id=job_id), self.clock(), self.sources.retry)
                assert view.status == "claimed", "it was ended early"
                assert view.claim is not None
                listed = ask(process, ListJobs(status="claimed"), self.clock(), self.sources.retry).jobs
                assert job_id in {job.job_id for job in listed}

    @invariant()
    def no_read_reports_an_earlier_moment_than_the_last_write(self) -> None:
        for process in self.processes:
            figures = ask(process, GetFigures(), self.clock(), self.sources.retry)
            assert to_moment("at", figures.at) >= self.written_at, "time runs backwards"

    @invariant()
    def the_moments_of_the_log_never_fall(self) -> None:
        if self.processes:
            with self.processes[0].reading() as reading:
                entries, _ = reading.list_events(WHOLE_LOG)
            moments = [entry.at for entry in entries]
            assert moments == sorted(moments), "time runs backwards"
            assert moments[-1:] <= [self.written_at]

    def teardown(self) -> None:
        for process in self.processes:
            process.close()


class SqliteHistories(Histories):
    """Two processes share a file; each can restart on its own."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        make_empty(self.folder / "store.db")

    def open_all(self) -> list[Backend]:
        return [self.open_one(), self.open_one()]

    def open_one(self) -> Backend:
        backend = SqliteBackend(self.folder / "store.db")
        backend.create()
        return backend

    @rule(process=PROCESSES)
    def a_process_restarts(self, process: int) -> None:
        self.processes[process].close()
        self.processes[process] = self.open_one()

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)


class PostgresHistories(SqliteHistories):
    """The database's clock counts, and it can be set like any other."""

    def __init__(self) -> None:
        super().__init__()
        self.url = empty_store()

    def clock(self) -> Clock:
        return as_stored

    def open_one(self) -> Backend:
        return PostgresBackend(parse_address(self.url), lambda: self.wall_ms)

    def teardown(self) -> None:
        super().teardown()
        put_back(self.url)


@pytest.mark.parametrize("histories", [Histories, SqliteHistories, PostgresHistories])
def test_leases_and_time_survive_every_kind_of_disturbance(histories: type[Histories]) -> None:
    """One history with every combination, for those that random histories miss."""
    history = histories()
    history.begins()
    try:
        for number, disturbances in enumerate([[], ["back"], ["start"], ["boot"], ["back", "boot"], ["sweep", "back"]]):
            for is_bound in (False, True):
                history.a_lease_is_renewed_and_lasts_to_its_last_millisecond(
                    process=number % 2,
                    other=(number + 1) % 2,
                    job_id="abc"[number % 3],
                    ttl=30,
                    is_bound=is_bound,
                    share=0.5,
                    disturbances=disturbances,
                )
                history.somebody_probes(number % 2)
                history.no_read_reports_an_earlier_moment_than_the_last_write()
                history.the_moments_of_the_log_never_fall()
    finally:
        history.teardown()


def run(histories: type[Histories], max_examples: int, steps: int = 30) -> Any:
    case = histories.TestCase
    case.settings = settings(
        max_examples=max_examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    return case


TestMemoryTime = run(Histories, 60)
TestSqliteTime = run(SqliteHistories, 30)
TestPostgresTime = run(PostgresHistories, 6, steps=20)


class LongHistories(SqliteHistories):
    """The same, with more examples, for `make faults`."""


TestLongTime = pytest.mark.timeout(1_800)(pytest.mark.slow(run(LongHistories, 300)))
