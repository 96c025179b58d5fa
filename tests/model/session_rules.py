"""What happens to sessions: tasks, hand-overs, and agents that expire and come back late."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import rule

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from octostore.core.model import Outcome, Phase
from tests.model.histories import leases_in
from tests.model.job_rules import NEWEST, OUTCOMES, JobRules
from tests.model.state import session_key
from tests.support.commands import (
    JOBS,
    KINDS,
    LOCKS,
    NOTES,
    OWNERS,
    PHASES,
    PRINCIPALS,
    QUEUES,
    REQUESTS,
    SESSIONS,
    TTLS,
    any_command,
    claims,
    task_claims,
)


class SessionRules(JobRules):
    @rule(session_id=SESSIONS, principal=PRINCIPALS, ttl=TTLS, request_id=REQUESTS, of_lock_client=st.booleans())
    def a_session_is_opened(
        self, session_id: str, principal: str, ttl: float, request_id: str | None, of_lock_client: bool
    ) -> None:
        terms: dict[str, Any] = {"session_id": session_id, "principal": principal, "ttl": ttl, "request_id": request_id}
        self.run(c.OpenSession(**terms, agent="ann", without_lease=of_lock_client))

    @rule(whose=PRINCIPALS, principal=PRINCIPALS, of_lock_client=st.booleans(), as_operator=st.booleans())
    def somebody_without_a_lease_writes(
        self, whose: str, principal: str, of_lock_client: bool, as_operator: bool
    ) -> None:
        """The session's principal or another one, by the plain id or by `principal/id`."""
        self.run(c.OpenSession(session_id="s", agent="ann", principal=whose, without_lease=of_lock_client))
        for name in ("s", f"{whose}/s"):
            terms: dict[str, Any] = {"session_id": name, "principal": principal}
            self.run(c.KeepSessionAlive(**terms), c.SaveSession(**terms, context=b"1"))
            self.run(c.HandOverSession(**terms, to_agent="bob", as_operator=as_operator))
            self.run(c.CloseSession(**terms, as_operator=as_operator))

    @rule(
        task=st.builds(
            c.ClaimTask,
            session_id=SESSIONS,
            owner=OWNERS,
            ttl=TTLS,
            request_id=REQUESTS,
            queues=st.sampled_from([("default", "other"), ("default",), ("other",)]),
        ),
        elsewhere=st.none() | QUEUES,
    )
    def a_session_takes_its_next_task(self, task: c.ClaimTask, elsewhere: str | None) -> None:
        self.run(task)
        if elsewhere is not None:
            self.run(c.Enqueue(job_id="c", kind="build", queue=elsewhere))
            self.run(msgspec.structs.replace(task, queues=(elsewhere,)))

    @rule(session_id=SESSIONS, request_id=REQUESTS, queues=st.lists(QUEUES, min_size=1, max_size=4), way=OUTCOMES)
    def the_holder_of_a_session_takes_its_tasks(
        self, session_id: str, request_id: str | None, queues: list[str], way: Outcome
    ) -> None:
        """It releases every second one, then closes the session and asks again."""
        (opened,) = self.run(c.OpenSession(session_id=session_id, agent="ann", ttl=5, request_id=request_id))
        lease_id = opened.lease_id if leases_in(opened) else "#0"
        for number, queue in enumerate(queues):
            asked = request_id if number % 2 else None
            terms: dict[str, Any] = {"session_id": session_id, "lease_id": lease_id, "request_id": asked}
            (claim,) = self.run(c.ClaimTask(**terms, owner="ann", queues=(queue,)))
            if number % 2 and leases_in(claim):
                self.run(c.ReleaseJob(job_id=claim.job_id, lease_id=claim.lease_id, outcome=way))
        self.run(c.CloseSession(session_id=session_id, lease_id=lease_id))
        self.run(c.ClaimTask(session_id=session_id, lease_id=lease_id, owner="ann", queues=("default",)))

    @rule(session_id=SESSIONS, terms=st.fixed_dictionaries(claims({"session_id": st.none()})), job_id=JOBS)
    def a_claim_is_bound(self, session_id: str, terms: dict[str, Any], job_id: str) -> None:
        self.run(c.ClaimJob(**{**terms, "session_id": session_id, "job_id": job_id, "max_claims": None}))

    @rule(session_id=SESSIONS, which=st.integers(0, 5), with_lease=st.booleans())
    def the_holder_of_a_session_comes_back_late(self, session_id: str, which: int, with_lease: bool) -> None:
        self.run(c.OpenSession(session_id=session_id, agent="ann", ttl=5))
        self.both.clock.advance(30)
        session = self.both.model.sessions.get(f"local/{session_id}")
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

    @rule(session_id=SESSIONS, principal=PRINCIPALS, request_id=REQUESTS, jobs=st.lists(LOCKS, max_size=3, unique=True))
    def a_session_has_work(self, session_id: str, principal: str, request_id: str | None, jobs: list[str]) -> None:
        """A task, if any, and bound claims, one of them a lock."""
        terms: dict[str, Any] = {"session_id": session_id, "owner": "ann", "principal": principal}
        self.run(
            c.ClaimTask(**terms, queues=("default", "other"), request_id=request_id),
            c.OpenSession(session_id=session_id, agent="ann", principal=principal, request_id=request_id),
        )
        for number, job_id in enumerate(jobs):
            bound = c.AcquireLock(**terms, job_id=job_id, ephemeral=True)
            self.run(bound if number == 0 else c.ClaimJob(**terms, job_id=job_id, request_id=request_id))
            self.run(c.HeartbeatJob(job_id=job_id, lease_id="#0", note="half", percent=50))

    @rule(
        session_id=SESSIONS,
        phases=st.lists(PHASES, min_size=1, max_size=3),
        outcome=st.none() | OUTCOMES,
        max_attempts=st.sampled_from([1, 5]),
        numbers=st.sampled_from([(None, None, None), (2, 1, 3), (1, 1, 2)]),
    )
    def an_agent_works(
        self,
        session_id: str,
        phases: list[Phase | None],
        outcome: Outcome | None,
        max_attempts: int,
        numbers: tuple[int | None, ...],
    ) -> None:
        """It saves its phase, then settles its task, or expires with it and is resumed when the task is due."""
        self.run(c.Enqueue(job_id="b", kind="build", max_attempts=max_attempts), c.RequeueJob(job_id="b"))
        task = c.ClaimTask(session_id=session_id, owner="ann", queues=("default",), ttl=5)
        (claim,) = self.run(task)
        lease_id = claim.lease_id if leases_in(claim) else None
        for turn, (phase, number) in enumerate(zip(phases, numbers, strict=False)):
            saved: dict[str, Any] = {"context": str(turn).encode(), "phase": phase, "number": number}
            self.run(c.SaveSession(session_id=session_id, lease_id=lease_id, **saved))
        if lease_id is not None and outcome is not None:
            names = {"session_id": session_id, "job_id": claim.job_id, "lease_id": lease_id}
            self.run(c.ReleaseTask(**names, outcome=outcome))
        else:
            self.both.clock.advance(20)
        self.run(task)

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
        """The giver repeats its calls, anyone repeats the hand-over, and the other agent opens the session."""
        self.run(given, *([between] if between else []))
        handed = next(call for call in reversed(self.calls) if isinstance(call, c.HandOverSession))
        openings = [call for call in self.calls if isinstance(call, c.OpenSession | c.ClaimTask)]
        opened = [call for call in openings if session_key(call) == session_key(handed) and call.request_id is not None]
        principal, session_id = session_key(handed).split("/")
        taken = msgspec.structs.replace(taken, session_id=session_id, principal=principal)
        self.run(handed, *opened[-1:])
        self.run(msgspec.structs.replace(handed, lease_id=None, principal=anybody))
        self.run(taken)
        self.run(handed)

    @rule(number=NEWEST, agent=OWNERS, is_closed=st.booleans(), principal=PRINCIPALS)
    def a_session_starts_over_after_a_hand_over(self, number: int, agent: str, is_closed: bool, principal: str) -> None:
        """The agent that handed it over can no longer change it."""
        given = [call for call in self.calls if isinstance(call, c.HandOverSession)]
        if number < len(given):
            handed = given[-1 - number]
            whose, session_id = session_key(handed).split("/")
            if is_closed:
                self.run(c.CloseSession(session_id=session_key(handed), lease_id=None, principal=principal))
            else:
                self.both.clock.advance(31)
            self.run(c.OpenSession(session_id=session_id, agent=agent, principal=whose))
            self.run(handed)

    @rule(session_id=SESSIONS, kinds=KINDS, queue=QUEUES, is_closed=st.booleans())
    def a_session_is_lost_and_resumed(self, session_id: str, kinds: str, queue: str, is_closed: bool) -> None:
        """It continues with what it lost once that is due, but only in the queues and kinds it asks for."""
        self.both.clock.advance(31)
        (claim,) = self.run(c.ClaimTask(session_id=session_id, owner="bob", queues=(queue,), kinds=(kinds,)))
        if is_closed and not leases_in(claim):
            self.run(c.OpenSession(session_id=session_id, agent="bob"))
            self.run(c.CloseSession(session_id=session_id, lease_id=None))
