"""Random histories of all commands: the real system does what the model says, in every answer, read and event.

`tests/stores/test_promises.py` shows that all stores agree with each other. This shows that the rules they share are
those of the documents.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from octostore.core.model import Outcome
from tests.model.histories import leases_in
from tests.model.machine import Machine
from tests.model.untidy import UntidySideBySide
from tests.support.commands import (
    JOBS,
    KINDS,
    NOTES,
    OWNERS,
    PRINCIPALS,
    QUEUES,
    REQUESTS,
    SESSIONS,
    TTLS,
    any_command,
    claims,
    locks,
    releases,
    task_claims,
    tokens,
)

OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(["released", "done", "failed", "deferred"])
NEWEST = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5])
"""Which of the leases, or of the calls before, counted from the newest."""


class Histories(Machine):
    # What happens

    @rule(drawn=st.lists(any_command(), min_size=1, max_size=4))
    def commands_arrive(self, drawn: list[AnyCommand]) -> None:
        self.run(*drawn)

    @rule(drawn=any_command() | releases() | task_claims(st.none()))
    def a_command_arrives(self, drawn: AnyCommand) -> None:
        self.run(drawn)

    @rule(number=NEWEST, principal=st.sampled_from([None, None, "local", "guest"]), drawn=st.none() | any_command())
    def a_call_is_repeated(self, number: int, principal: str | None, drawn: AnyCommand | None) -> None:
        if number < len(self.calls):
            call = self.calls[-1 - number]
            if principal is not None:
                call = msgspec.structs.replace(call, principal=principal)
            self.run(*([drawn] if drawn else []), call)

    @rule(drawn=any_command())
    def a_call_arrives_twice_at_once(self, drawn: AnyCommand) -> None:
        self.run(drawn, drawn)

    @rule(seconds=st.sampled_from([0.001, 0.999, 1, 2, 3, 4, 5, 7, 31, 61]))
    def time_passes(self, seconds: float) -> None:
        self.both.clock.advance(seconds)

    @rule(number=st.integers(0, 2), is_early=st.booleans(), job_id=JOBS)
    def time_passes_until_something_is_due(self, number: int, is_early: bool, job_id: str) -> None:
        """Or until the last millisecond before."""
        model = self.both.model
        moments = [job.available_at for job in model.jobs.values()]
        moments += [model.expiry(claim) for claim in model.live_claims()]
        moments += [session.expires_at for session in model.sessions.values()]
        future = sorted(moment for moment in set(moments) if moment > self.both.clock.now_ms + 1)
        if number < len(future):
            self.both.clock.now_ms = future[number] - is_early
            self.run(c.ClaimJob(job_id=job_id, owner="bob"))

    @rule(seconds=st.sampled_from([1, 50]))
    def the_clock_is_set_back(self, seconds: float) -> None:
        self.both.clock.advance(-seconds)

    # Chance alone seldom leads a task through its whole life.

    @rule(
        jobs=st.lists(JOBS, min_size=1, max_size=4, unique=True),
        queue=QUEUES,
        priority=st.sampled_from([1, 5]),
        max_attempts=st.sampled_from([1, 2, 5]),
    )
    def tasks_are_enqueued(self, jobs: list[str], queue: str, priority: int, max_attempts: int) -> None:
        self.run(
            *(
                c.Enqueue(
                    job_id=job_id,
                    kind="test" if job_id == "b" else "build",
                    queue=queue,
                    priority=priority,
                    payload=b'{"for":1}',
                    max_attempts=max_attempts,
                )
                for job_id in jobs
            )
        )

    @rule(
        ask=st.builds(
            c.ClaimNext,
            owner=OWNERS,
            queue=QUEUES,
            ttl=TTLS,
            request_id=REQUESTS,
            kinds=st.sampled_from([None, None, ("test",), ("build",)]),
            prefix=st.sampled_from(["", "", "", "a", "d/", "e"]),
        ),
        checkpoint=st.booleans(),
        times=st.sampled_from([1, 1, 2]),
    )
    def a_worker_takes_the_next_task(self, ask: c.ClaimNext, checkpoint: bool, times: int) -> None:
        claim, *_ = self.run(*[ask] * times)
        if leases_in(claim) and checkpoint:
            progress = c.HeartbeatJob(job_id=claim.job_id, lease_id=claim.lease_id, note="half", percent=50)
            self.run(progress, c.CheckpointJob(job_id=claim.job_id, lease_id=claim.lease_id, data=b'{"step":5}'))

    @rule(number=NEWEST, release=releases(), is_repeated=st.booleans())
    def a_claim_ends(self, number: int, release: c.ReleaseJob, is_repeated: bool) -> None:
        self.run(msgspec.structs.replace(release, lease_id=f"#{number}"))
        if is_repeated:
            self.run(self.calls[-1])

    @rule(job_id=JOBS, delay=st.sampled_from([0, 3]), release=releases(), way=st.sampled_from(["ends", "expires"]))
    def somebody_has_a_job(self, job_id: str, delay: float, release: c.ReleaseJob, way: str) -> None:
        (claim,) = self.run(c.ClaimJob(job_id=job_id, owner="ann", ttl=5, lock_delay=delay))
        if leases_in(claim):
            self.run(c.HeartbeatJob(job_id=job_id, lease_id=claim.lease_id, note="half"))
            if way == "expires":
                self.both.clock.advance(5)
            self.run(msgspec.structs.replace(release, job_id=job_id, lease_id=claim.lease_id))

    @rule(job_id=JOBS, times=st.integers(1, 5), queue=QUEUES)
    def a_task_fails_again_and_again(self, job_id: str, times: int, queue: str) -> None:
        self.run(c.Enqueue(job_id=job_id, kind="build", queue=queue))
        for _ in range(times):
            _, claim = self.run(c.RequeueJob(job_id=job_id), c.ClaimJob(job_id=job_id, owner="ann"))
            if leases_in(claim):
                self.run(c.ReleaseJob(job_id=job_id, lease_id=claim.lease_id, outcome="failed", error="broken"))

    @rule(number=NEWEST, notes=st.tuples(NOTES, NOTES), numbers=st.sampled_from([(1, 2), (2, 1), (0, 0)]))
    def an_owner_tells_what_it_does(self, number: int, notes: tuple[str | None, ...], numbers: tuple[int, int]) -> None:
        lease_id = f"#{number}"
        for note, count in zip(notes, numbers, strict=True):
            self.both.clock.advance(0.5)
            beat = c.HeartbeatJob(job_id="a", lease_id=lease_id, note=note, percent=50, number=count or None)
            self.run(beat, c.CheckpointJob(job_id="a", lease_id=lease_id, data=b"7", number=count or None))
            self.run(c.KeepSessionAlive(session_id="s", lease_id=lease_id))

    @rule(lease_id=st.sampled_from(["~0", "~1", "~2", "~3"]), outcome=OUTCOMES, which=st.integers(0, 9))
    def somebody_writes_late(self, lease_id: str, outcome: Outcome, which: int) -> None:
        writes: list[AnyCommand] = [
            c.HeartbeatJob(job_id="a", lease_id=lease_id, note="late", ttl=30),
            c.CheckpointJob(job_id="a", lease_id=lease_id, data=b'"late"'),
            c.ReleaseJob(job_id="a", lease_id=lease_id, outcome=outcome),
            c.ReleaseLock(job_id="a", lease_id=lease_id),
            c.Undo(job_id="a", lease_id=lease_id),
            c.KeepSessionAlive(session_id="s", lease_id=lease_id),
            c.SaveSession(session_id="s", lease_id=lease_id, context=b'"late"'),
            c.HandOverSession(session_id="s", lease_id=lease_id, to_agent="bob"),
            c.CloseSession(session_id="s", lease_id=lease_id),
            c.ReleaseTask(session_id="s", job_id="a", lease_id=lease_id, outcome=outcome),
        ]
        self.run(writes[which])

    @rule(queue=QUEUES, limit=st.sampled_from([1, 2]), more=st.lists(any_command(), max_size=2), owner=OWNERS)
    def a_queue_is_limited_and_asked(self, queue: str, limit: int, more: list[AnyCommand], owner: str) -> None:
        ask = c.ClaimNext(owner=owner, queue=queue)
        self.run(*(c.Enqueue(job_id=job_id, kind="build", queue=queue) for job_id in ("a", "b", "c")))
        self.run(c.LimitQueue(queue=queue, max_claimed=limit), ask, *more, ask)

    @rule(jobs=st.permutations(["a", "b", "c"]), queue=QUEUES, limit=st.sampled_from([1, 2]), is_limited=st.booleans())
    def a_limit_counts_what_is_enqueued_under_a_claim(
        self, jobs: list[str], queue: str, limit: int, is_limited: bool
    ) -> None:
        limits = c.LimitQueue(queue=queue, max_claimed=limit)
        enqueued = [c.Enqueue(job_id=job_id, kind="build", queue=queue) for job_id in jobs]
        if is_limited:
            self.run(limits)
        self.run(c.ClaimJob(job_id=jobs[0], owner="ann"))
        self.run(*enqueued, *([] if is_limited else [limits]), c.ClaimNext(owner="bob", queue=queue))

    @rule(job_id=JOBS, queue=QUEUES, terms=st.fixed_dictionaries(claims({})), in_one=st.booleans())
    def a_claimed_job_is_enqueued(self, job_id: str, queue: str, terms: dict[str, Any], in_one: bool) -> None:
        claim = c.ClaimJob(job_id=job_id, **terms)
        enqueued = c.Enqueue(job_id=job_id, kind="build", queue=queue, max_attempts=2)
        ask = c.ClaimNext(owner="bob", queue=queue, principal=claim.principal, request_id=claim.request_id)
        if in_one:
            self.run(claim, enqueued, ask)
        else:
            self.run(claim)
            self.run(enqueued, ask)

    @rule(
        claim=st.builds(c.ClaimJob, **claims({"job_id": JOBS, "again": st.booleans()}))
        | st.builds(c.ClaimNext, **claims({"queue": QUEUES}))
        | task_claims(st.none())
        | st.builds(c.OpenSession, session_id=SESSIONS, agent=OWNERS, ttl=TTLS, request_id=REQUESTS),
        between=st.none() | any_command(),
        is_repeated=st.booleans(),
        as_job=st.booleans(),
    )
    def an_answer_is_undone(
        self, claim: AnyCommand, between: AnyCommand | None, is_repeated: bool, as_job: bool
    ) -> None:
        """Whoever asked has gone; unless it was asked again, what it got is taken back, and can be asked for again."""
        (answer,) = self.run(claim)
        given = leases_in(answer)
        if given:
            lease_id, job_id, session_id = given[0 if as_job else -1]
            self.run(*([between] if between else []), *([claim] if is_repeated else []))
            self.run(c.Undo(lease_id=lease_id, job_id=job_id, session_id=session_id))
            self.run(claim)

    # Sessions

    @rule(session_id=SESSIONS, principal=PRINCIPALS, ttl=TTLS, request_id=REQUESTS)
    def a_session_is_opened(self, session_id: str, principal: str, ttl: float, request_id: str | None) -> None:
        self.run(c.OpenSession(session_id=session_id, agent="ann", principal=principal, ttl=ttl, request_id=request_id))

    @rule(session_id=SESSIONS, ttl=TTLS, agent=OWNERS, request_id=REQUESTS)
    def a_session_takes_its_next_task(self, session_id: str, ttl: float, agent: str, request_id: str | None) -> None:
        queues = ("default", "other")
        self.run(c.ClaimTask(session_id=session_id, owner=agent, ttl=ttl, queues=queues, request_id=request_id))

    @rule(session_id=SESSIONS, terms=st.fixed_dictionaries(claims({"session_id": st.none()})), job_id=JOBS)
    def a_claim_is_bound(self, session_id: str, terms: dict[str, Any], job_id: str) -> None:
        self.run(c.ClaimJob(**{**terms, "session_id": session_id, "job_id": job_id, "max_claims": None}))

    @rule(session_id=SESSIONS, which=st.integers(0, 5), with_lease=st.booleans())
    def the_holder_of_a_session_comes_back_late(self, session_id: str, which: int, with_lease: bool) -> None:
        self.both.clock.advance(30)
        session = self.both.model.sessions.get(session_id)
        if session is None:
            return
        lease_id = self.both.leases.secret_of(session.lease) if with_lease else None
        names: dict[str, Any] = {"session_id": session_id, "principal": session.principal}
        writes: list[AnyCommand] = [
            c.KeepSessionAlive(**names, lease_id=lease_id),
            c.SaveSession(**names, lease_id=lease_id, context=b'"late"'),
            c.HandOverSession(**names, lease_id=lease_id, to_agent="bob"),
            c.CloseSession(**names, lease_id=lease_id),
            c.ClaimJob(**names, job_id="a", owner="ann"),
            c.AcquireLock(**names, job_id="b", owner="ann", ephemeral=True),
        ]
        self.run(writes[which])

    @rule(number=NEWEST, outcome=OUTCOMES)
    def a_session_is_done_with_its_task(self, number: int, outcome: Outcome) -> None:
        self.run(c.ReleaseTask(session_id="s", job_id="a", lease_id=f"#{number}", outcome=outcome))

    @rule(session_id=SESSIONS, principal=PRINCIPALS, request_id=REQUESTS, jobs=st.lists(JOBS, max_size=3, unique=True))
    def a_session_has_work(self, session_id: str, principal: str, request_id: str | None, jobs: list[str]) -> None:
        """A task, if there is one, and claims of its own, one of them a lock."""
        terms: dict[str, Any] = {"session_id": session_id, "owner": "ann", "principal": principal}
        self.run(
            c.ClaimTask(**terms, queues=("default", "other"), request_id=request_id),
            c.OpenSession(session_id=session_id, agent="ann", principal=principal, request_id=request_id),
        )
        for number, job_id in enumerate(jobs):
            bound = c.AcquireLock(**terms, job_id=job_id, ephemeral=True)
            self.run(bound if number == 0 else c.ClaimJob(**terms, job_id=job_id, request_id=request_id))

    @rule(
        given=st.builds(
            c.HandOverSession,
            session_id=SESSIONS,
            lease_id=st.sampled_from(["#0", "#0", "#1", "#2", None]),
            principal=PRINCIPALS,
            to_agent=OWNERS,
            note=NOTES,
        ),
        taken=st.builds(c.OpenSession, session_id=SESSIONS, agent=OWNERS, ttl=TTLS, request_id=REQUESTS)
        | task_claims(st.none()),
        between=st.none() | any_command(),
        anybody=PRINCIPALS,
    )
    def a_session_is_handed_over(
        self, given: c.HandOverSession, taken: c.OpenSession | c.ClaimTask, between: AnyCommand | None, anybody: str
    ) -> None:
        """The giver repeats all that it has said, and anybody the hand-over; then the other one comes."""
        self.run(given, *([between] if between else []))
        handed = next(call for call in reversed(self.calls) if isinstance(call, c.HandOverSession))
        openings = [call for call in self.calls if isinstance(call, c.OpenSession | c.ClaimTask)]
        opened = [call for call in openings if call.session_id == handed.session_id and call.request_id is not None]
        session = self.both.model.sessions.get(handed.session_id)
        principal = session.principal if session else "local"
        taken = msgspec.structs.replace(taken, session_id=handed.session_id, principal=principal)
        self.run(handed, *opened[-1:])
        self.run(msgspec.structs.replace(handed, lease_id=None, principal=anybody))
        self.run(taken)
        self.run(handed)

    @rule(number=NEWEST, agent=OWNERS, is_closed=st.booleans(), principal=PRINCIPALS)
    def a_taken_session_begins_anew(self, number: int, agent: str, is_closed: bool, principal: str) -> None:
        """Whoever handed it over has no say in it any more."""
        given = [call for call in self.calls if isinstance(call, c.HandOverSession)]
        if number < len(given):
            handed = given[-1 - number]
            session = self.both.model.sessions.get(handed.session_id)
            principal = session.principal if session else principal
            if is_closed:
                self.run(c.CloseSession(session_id=handed.session_id, lease_id=None, principal=principal))
            else:
                self.both.clock.advance(31)
            self.run(c.OpenSession(session_id=handed.session_id, agent=agent, principal=principal))
            self.run(handed)

    @rule(session_id=SESSIONS, kinds=KINDS, queue=QUEUES, is_closed=st.booleans())
    def a_session_is_lost_and_resumed(self, session_id: str, kinds: str, queue: str, is_closed: bool) -> None:
        """It goes on with what it lost, once that is due; but not where it does not look."""
        self.both.clock.advance(31)
        (claim,) = self.run(c.ClaimTask(session_id=session_id, owner="bob", queues=(queue,), kinds=(kinds,)))
        if is_closed and not leases_in(claim):
            self.run(c.OpenSession(session_id=session_id, agent="bob"))
            self.run(c.CloseSession(session_id=session_id, lease_id=None))

    @rule(drawn=st.lists(locks() | st.just(c.ReleaseLock(job_id="a", lease_id="#0")), min_size=2, max_size=4))
    def locks_are_acquired(self, drawn: list[AnyCommand]) -> None:
        self.run(*drawn)

    @rule(drawn=st.lists(tokens(), min_size=1, max_size=6))
    def tokens_are_made(self, drawn: list[AnyCommand]) -> None:
        self.run(*drawn)


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class UntidyHistories(Histories):
    """Where expiries are written down as late as they can be."""

    side_by_side = UntidySideBySide

    def the_clock_is_set_back(self) -> None:
        """What the time is then depends on when anything was last written down."""

    def run(self, *batch: AnyCommand) -> list[Any]:
        """Without limits of queues, against which claims count until it is written down that they have run out."""
        return super().run(*(command for command in batch if not isinstance(command, c.LimitQueue)))


TestUntidyHistories = UntidyHistories.TestCase
TestUntidyHistories.settings = settings(TestHistories.settings, max_examples=30)


class LongHistories(Histories):
    """The same, for as long as `make faults` has time."""


class LongUntidyHistories(UntidyHistories):
    pass


TestLongHistories = pytest.mark.timeout(1_800)(pytest.mark.slow(LongHistories.TestCase))
TestLongUntidyHistories = pytest.mark.timeout(1_800)(pytest.mark.slow(LongUntidyHistories.TestCase))
TestLongHistories.settings = TestLongUntidyHistories.settings = settings(TestHistories.settings, max_examples=1_000)
