"""Random histories of all commands: the real system does what the model says, in every answer, read and event.

`tests/stores/test_promises.py` shows that all stores agree with each other. This shows that the rules they share are
those of the documents.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from octostore.core.model import Outcome
from tests.model.histories import SideBySide, leases_in
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
KEPT_CALLS = 12


class Histories(RuleBasedStateMachine):
    side_by_side: type[SideBySide] = SideBySide

    def __init__(self) -> None:
        super().__init__()
        self.both = self.side_by_side()
        self.given: list[tuple[str, str | None, str | None]] = []
        """All leases that anybody got, on which job or session, oldest first."""
        self.calls: list[AnyCommand] = []
        """What was asked last, with the leases that were used."""

    def run(self, *batch: AnyCommand) -> list[Any]:
        commands = [self.with_a_lease(command) for command in batch]
        answers = self.both.run(commands)
        self.calls = [*self.calls, *commands][-KEPT_CALLS:]
        for lease in [lease for answer in answers for lease in leases_in(answer)]:
            if lease not in self.given:
                self.given.append(lease)
        return answers

    def with_a_lease(self, command: AnyCommand) -> AnyCommand:
        """For `#n`, the n-th newest lease on a job or session, whichever the command is about: the live ones first."""
        lease_id = getattr(command, "lease_id", None)
        if lease_id is None or not lease_id.startswith("#"):
            return command
        of_session = getattr(command, "job_id", None) is None
        known = [lease for lease in reversed(self.given) if (lease[2] if of_session else lease[1]) is not None]
        known.sort(key=lambda lease: not self.is_live(*lease))
        number = int(lease_id[1:])
        if number >= len(known):
            return command
        secret, job_id, session_id = known[number]
        if isinstance(command, c.ReleaseTask):
            session_id = next((its for lease, _, its in self.given if lease == secret and its), command.session_id)
        names = {"session_id": session_id, "job_id": job_id}
        return msgspec.structs.replace(
            command, lease_id=secret, **{field: name for field, name in names.items() if name is not None}
        )

    def is_live(self, secret: str, job_id: str | None, session_id: str | None) -> bool:
        name = self.both.leases.name_of(secret)
        model = self.both.model
        if session_id is not None:
            return session_id in model.sessions and model.sessions[session_id].lease == name
        claim = model.job(job_id or "").claim
        return claim is not None and claim.lease == name

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
                    kind="build",
                    queue=queue,
                    priority=priority,
                    payload=b'{"for":1}',
                    max_attempts=max_attempts,
                )
                for job_id in jobs
            )
        )

    @rule(queue=QUEUES, ttl=TTLS, request_id=REQUESTS, checkpoint=st.booleans())
    def a_worker_takes_the_next_task(self, queue: str, ttl: float, request_id: str | None, checkpoint: bool) -> None:
        (claim,) = self.run(c.ClaimNext(owner="ann", queue=queue, ttl=ttl, request_id=request_id))
        if leases_in(claim) and checkpoint:
            progress = c.HeartbeatJob(job_id=claim.job_id, lease_id=claim.lease_id, note="half", percent=50)
            self.run(progress, c.CheckpointJob(job_id=claim.job_id, lease_id=claim.lease_id, data=b'{"step":5}'))

    @rule(number=NEWEST, outcome=OUTCOMES, error=NOTES, repeated=st.booleans())
    def a_claim_ends(self, number: int, outcome: Outcome, error: str | None, repeated: bool) -> None:
        release = c.ReleaseJob(job_id="a", lease_id=f"#{number}", outcome=outcome, error=error)
        self.run(release)
        if repeated:
            self.run(self.calls[-1])

    @rule(queue=QUEUES, limit=st.sampled_from([1, 2]), more=st.lists(any_command(), max_size=2), owner=OWNERS)
    def a_queue_is_limited_and_asked(self, queue: str, limit: int, more: list[AnyCommand], owner: str) -> None:
        ask = c.ClaimNext(owner=owner, queue=queue)
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
    )
    def a_session_is_handed_over(
        self, given: c.HandOverSession, taken: c.OpenSession | c.ClaimTask, between: AnyCommand | None
    ) -> None:
        """The giver says it twice, and what it opened the session with once more; then the other one comes."""
        self.run(given, *([between] if between else []))
        handed = self.calls[-1 - (between is not None)]
        assert isinstance(handed, c.HandOverSession)
        opened = [call for call in self.calls if isinstance(call, c.OpenSession | c.ClaimTask)]
        session = self.both.model.sessions.get(handed.session_id)
        principal = session.principal if session else "local"
        taken = msgspec.structs.replace(taken, session_id=handed.session_id, principal=principal)
        self.run(handed, *opened[-1:])
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

    @rule(session_id=SESSIONS, kinds=KINDS, queue=QUEUES, agent=OWNERS)
    def a_session_is_lost_and_resumed(self, session_id: str, kinds: str, queue: str, agent: str) -> None:
        """It goes on with what it lost, once that is due; but not where it does not look."""
        self.both.clock.advance(31)
        self.run(c.ClaimTask(session_id=session_id, owner=agent, queues=(queue,), kinds=(kinds,)))

    @rule(drawn=st.lists(locks() | st.just(c.ReleaseLock(job_id="a", lease_id="#0")), min_size=2, max_size=4))
    def locks_are_acquired(self, drawn: list[AnyCommand]) -> None:
        self.run(*drawn)

    @rule(drawn=st.lists(tokens(), min_size=1, max_size=6))
    def tokens_are_made(self, drawn: list[AnyCommand]) -> None:
        self.run(*drawn)

    # What is told

    @invariant()
    def reads_tell_what_the_model_says(self) -> None:
        self.both.compare_reads()

    @rule()
    def somebody_looks_at_everything(self) -> None:
        self.both.compare_lists()

    def teardown(self) -> None:
        self.both.compare_lists()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class UntidyHistories(Histories):
    """Where expiries are written down as late as they can be."""

    side_by_side = UntidySideBySide

    def the_clock_is_set_back(self) -> None:
        """What the time is then depends on when anything was last written down."""


TestUntidyHistories = UntidyHistories.TestCase
TestUntidyHistories.settings = settings(TestHistories.settings, max_examples=30)


class LongHistories(Histories):
    """The same, for as long as `make faults` has time."""


class LongUntidyHistories(UntidyHistories):
    pass


TestLongHistories = pytest.mark.timeout(1_800)(pytest.mark.slow(LongHistories.TestCase))
TestLongUntidyHistories = pytest.mark.timeout(1_800)(pytest.mark.slow(LongUntidyHistories.TestCase))
TestLongHistories.settings = TestLongUntidyHistories.settings = settings(TestHistories.settings, max_examples=1_000)
