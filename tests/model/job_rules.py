"""What happens to jobs: sequences that random commands would seldom produce."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import rule

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from octostore.core.model import Outcome
from tests.model.histories import leases_in
from tests.model.machine import Machine
from tests.support.commands import (
    DIGESTS,
    JOBS,
    LOCKS,
    NOTES,
    OWNERS,
    PRINCIPALS,
    QUEUES,
    REQUESTS,
    SESSIONS,
    TOKENS,
    TRACES,
    TTLS,
    any_command,
    claims,
    locks,
    releases,
    task_claims,
)

OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(["released", "done", "failed", "deferred"])
NEWEST = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5])
"""Which lease, or which earlier call, counted from the newest."""

OPERATIONS: list[list[Any]] = [
    [c.ForceReleaseJob],
    [c.ForceReleaseJob, c.CancelJob],
    [c.ForceReleaseJob, c.RequeueJob],
    [c.ForceReleaseJob, c.CancelJob, c.RequeueJob],
    [c.ForceReleaseJob, c.CancelJob, c.DiscardJob],
    [c.ForceReleaseJob, c.CancelJob, c.CancelJob, c.DiscardJob, c.DiscardJob],
    [c.ForceReleaseJob, c.DiscardJob, c.RequeueJob],
    [c.CancelJob],
    [c.CancelJob, c.CancelJob, c.RequeueJob],
    [c.CancelJob, c.DiscardJob],
]
ALL = c.RequeueMatching(reason="all of them", limit=2), c.DiscardMatching(reason="all of them", limit=2)


class JobRules(Machine):
    @rule(
        jobs=st.lists(JOBS, min_size=1, max_size=4, unique=True),
        queue=QUEUES,
        priority=st.sampled_from([1, 5]),
        max_attempts=st.sampled_from([1, 2, 5]),
        trace=TRACES,
    )
    def tasks_are_enqueued(
        self, jobs: list[str], queue: str, priority: int, max_attempts: int, trace: str | None
    ) -> None:
        self.run(
            *(
                c.Enqueue(
                    job_id=job_id,
                    kind="test" if job_id == "b" else "build",
                    queue=queue,
                    priority=priority,
                    payload=b'{"for":1}',
                    max_attempts=max_attempts,
                    traceparent=trace,
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
            traceparent=TRACES,
            prefix=st.sampled_from(["", "", "", "a", "d/", "e"]),
        ),
        checkpoint=st.booleans(),
        times=st.sampled_from([1, 1, 2]),
    )
    def a_worker_takes_the_next_task(self, ask: c.ClaimNext, checkpoint: bool, times: int) -> None:
        if times > 1:
            # The same new call twice in one transaction, with enough jobs for both.
            self.run(*(c.Enqueue(job_id=job_id, kind="build", queue=ask.queue) for job_id in ("a", "c", "d/e")))
            ask = msgspec.structs.replace(ask, request_id=f"request {len(self.sources)}", kinds=None, prefix="")
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
            self.run(c.CheckpointJob(job_id=job_id, lease_id=claim.lease_id, data=b'"half"'))
            if way == "expires":
                self.both.clock.advance(5)
            self.run(msgspec.structs.replace(release, job_id=job_id, lease_id=claim.lease_id))
            self.run(c.ClaimJob(job_id=job_id, owner="bob", again=True))

    @rule(job_id=JOBS, times=st.integers(1, 5), is_queued=st.booleans(), last=releases())
    def a_job_fails_again_and_again(self, job_id: str, times: int, is_queued: bool, last: c.ReleaseJob) -> None:
        if is_queued:
            self.run(c.Enqueue(job_id=job_id, kind="build"))
        failed = c.ReleaseJob(job_id=job_id, lease_id="#0", outcome="failed", error="broken", note="why")
        for release in [*[failed] * times, last]:
            *_, claim = self.run(c.RequeueJob(job_id=job_id), c.ClaimJob(job_id=job_id, owner="ann"))
            if leases_in(claim):
                self.run(msgspec.structs.replace(release, job_id=job_id, lease_id=claim.lease_id))

    @rule(
        jobs=st.lists(JOBS, min_size=2, unique=True),
        one=st.none() | JOBS,
        command=st.sampled_from(ALL),
        queue=st.none() | QUEUES,
        in_one=st.booleans(),
    )
    def operators_act_on_all_dead_jobs(
        self, jobs: list[str], one: str | None, command: c.MatchingCommand, queue: str | None, in_one: bool
    ) -> None:
        """Two jobs at a time. Changes to one of them in the same transaction count."""
        self.run(*(c.Enqueue(job_id=job_id, kind="build", queue=queue or "other") for job_id in jobs))
        self.run(*(c.CancelJob(job_id=job_id) for job_id in jobs))
        between = [] if one is None else [c.RequeueJob(job_id=one), c.CancelJob(job_id=one), c.DiscardJob(job_id=one)]
        after: str | None = ""
        while after is not None:
            batch = msgspec.structs.replace(command, queue=queue, after=after or None)
            next_one = c.ClaimNext(owner="bob", queue=queue or "other")
            *_, changed, _ = self.run(*between[:1], batch, batch, next_one) if in_one else self.run(batch, next_one)
            after, between = changed.after, between[1:]

    @rule(
        job_id=JOBS,
        reason=NOTES,
        steps=st.sampled_from(OPERATIONS),
        is_queued=st.booleans(),
    )
    def operators_act_on_a_job(self, job_id: str, reason: str | None, steps: list[Any], is_queued: bool) -> None:
        """The next claim shows what is left of the job."""
        if is_queued:
            self.run(c.Enqueue(job_id=job_id, kind="build", payload=b"8"))
        claim = c.ClaimJob(job_id=job_id, owner="ann", ttl=5, again=True)
        (claimed,) = self.run(claim)
        if leases_in(claimed):
            self.run(c.CheckpointJob(job_id=job_id, lease_id=claimed.lease_id, data=b'"half"'))
        for step in steps:
            self.run(step(job_id=job_id, reason=reason))
        self.run(claim)

    @rule(
        job_id=JOBS,
        drains=st.lists(st.booleans(), min_size=1, max_size=2),
        is_bound=st.booleans(),
        hears_it=st.booleans(),
        last=releases() | st.builds(c.HandOverSession, session_id=st.just("s"), to_agent=OWNERS) | st.none(),
    )
    def an_owner_is_asked_to_stop(
        self, job_id: str, drains: list[bool], is_bound: bool, hears_it: bool, last: AnyCommand | None
    ) -> None:
        """It learns of it by its own or its session's heartbeat, or not at all, and may do anything."""
        (opened,) = self.run(c.OpenSession(session_id="s", agent="ann"))
        session_id = "s" if is_bound and leases_in(opened) else None
        (claim,) = self.run(c.ClaimJob(job_id=job_id, owner="ann", ttl=5, again=True, session_id=session_id))
        for drain in drains:
            asked: AnyCommand = c.RequestStop(job_id=job_id, reason="not now", principal="root")
            self.run(c.CancelJob(job_id=job_id, drain=True) if drain else asked)
            if hears_it and leases_in(claim):
                heartbeat = c.HeartbeatJob(job_id=job_id, lease_id=claim.lease_id)
                self.run(c.KeepSessionAlive(session_id="s") if session_id else heartbeat)
        if isinstance(last, c.ReleaseJob) and leases_in(claim):
            last = msgspec.structs.replace(last, job_id=job_id, lease_id=claim.lease_id)
        if last is None:
            self.both.clock.advance(5)
        self.run(*([last, last] if last else []), c.KeepSessionAlive(session_id="s"))
        self.run(c.ClaimJob(job_id=job_id, owner="bob"))

    @rule(queue=QUEUES, prefix=st.sampled_from(["e", "e", "d/", "a"]), kinds=st.sampled_from([None, None, ("test",)]))
    def a_worker_is_limited_to_a_prefix_or_kinds(self, queue: str, prefix: str, kinds: tuple[str, ...] | None) -> None:
        jobs = [("d/e", "build"), ("a", "test"), ("b", "build")]
        enqueued = [c.Enqueue(job_id=name, kind=kind, queue=queue) for name, kind in jobs]
        self.run(*enqueued, c.ClaimNext(owner="bob", queue=queue, prefix=prefix, kinds=kinds))

    @rule(number=NEWEST, notes=st.tuples(NOTES, NOTES), numbers=st.sampled_from([(1, 2), (2, 1), (1, 1), (0, 0)]))
    def an_owner_reports_progress(self, number: int, notes: tuple[str | None, ...], numbers: tuple[int, int]) -> None:
        lease_id = f"#{number}"
        for note, count in zip(notes, numbers, strict=True):
            self.both.clock.advance(0.5)
            heartbeat = c.HeartbeatJob(job_id="a", lease_id=lease_id, note=note, percent=50, number=count or None)
            self.run(heartbeat, c.CheckpointJob(job_id="a", lease_id=lease_id, data=b"7", number=count or None))
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
    def a_queue_is_limited(self, queue: str, limit: int, more: list[AnyCommand], owner: str) -> None:
        ask = c.ClaimNext(owner=owner, queue=queue)
        self.run(*(c.Enqueue(job_id=job_id, kind="build", queue=queue) for job_id in ("a", "b", "c")))
        self.run(c.SetQueue(queue=queue, max_claimed=limit), ask, *more, ask)

    @rule(queue=QUEUES, more=st.lists(any_command(), max_size=2), in_one=st.booleans(), reason=NOTES)
    def a_queue_is_paused_and_resumed(
        self, queue: str, more: list[AnyCommand], in_one: bool, reason: str | None
    ) -> None:
        """An owner keeps its job; nobody can claim another one, from the queue, by name or as a task."""
        pause = c.SetQueue(queue=queue, paused=True, reason=reason, principal="root")
        asked: list[AnyCommand] = [
            c.ClaimNext(owner="bob", queue=queue),
            c.ClaimJob(job_id="b", owner="bob"),
            c.ClaimTask(session_id="t", owner="bob", queues=(queue,)),
        ]
        self.run(*(c.Enqueue(job_id=job_id, kind="build", queue=queue) for job_id in ("a", "b", "c")))
        (claim,) = self.run(c.ClaimNext(owner="ann", queue=queue))
        self.run_in_turn(in_one, pause, *asked)
        if leases_in(claim):
            self.run(c.HeartbeatJob(job_id=claim.job_id, lease_id=claim.lease_id, note="half"))
        self.run(*more)
        self.run_in_turn(in_one, c.SetQueue(queue=queue, paused=False), *asked)

    def run_in_turn(self, in_one: bool, *commands: AnyCommand) -> None:
        """Run the commands in one transaction, or each in its own."""
        for batch in [commands] if in_one else [[command] for command in commands]:
            self.run(*batch)

    @rule(jobs=st.permutations(["a", "b", "c"]), queue=QUEUES, limit=st.sampled_from([1, 2]), is_limited=st.booleans())
    def a_limit_counts_what_is_enqueued_under_a_claim(
        self, jobs: list[str], queue: str, limit: int, is_limited: bool
    ) -> None:
        limits = c.SetQueue(queue=queue, max_claimed=limit)
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
    def a_claim_is_undone(self, claim: AnyCommand, between: AnyCommand | None, is_repeated: bool, as_job: bool) -> None:
        """The caller has gone: unless the call was repeated, its claim is undone, and can be made again."""
        if getattr(claim, "request_id", None) is not None:
            claim = msgspec.structs.replace(claim, request_id=f"request {len(self.sources)}")
        (reply,) = self.run(claim)
        given = leases_in(reply)
        if given:
            lease_id, job_id, session_id = given[0 if as_job else -1]
            self.run(*([between] if between else []), *([claim] if is_repeated else []))
            self.run(c.Undo(lease_id=lease_id, job_id=job_id, session_id=session_id))
            self.run(claim)

    @rule(job_id=JOBS, is_done=st.booleans(), is_known=st.booleans(), session_id=SESSIONS)
    def a_claim_and_a_session_are_undone(self, job_id: str, is_done: bool, is_known: bool, session_id: str) -> None:
        """An undone claim of a done job leaves it done; a session with a claim in use is not undone."""
        claim = c.ClaimJob(job_id=job_id, owner="ann", again=True, lock_delay=3)
        self.run(claim)
        if is_done:
            self.run(c.ReleaseJob(job_id=job_id, lease_id="#0", outcome="done", result=b"9"))
            self.both.clock.advance(3)
        (again,) = self.run(claim)
        if leases_in(again):
            self.run(c.Undo(job_id=job_id, lease_id=again.lease_id))
        opening = c.OpenSession(session_id=session_id, agent="ann", request_id=f"request {len(self.sources)}")
        (opened,) = self.run(opening)
        if leases_in(opened):
            bound = c.ClaimJob(job_id=job_id, owner="ann", session_id=session_id)
            between: list[AnyCommand] = [opening if is_done else bound] if is_known else []
            self.run(*between, c.Undo(session_id=session_id, lease_id=opened.lease_id))

    @rule(jobs=st.permutations(["a", "b", "c", "d/e"]), principal=PRINCIPALS, in_one=st.booleans())
    def a_principal_reaches_its_claim_limit(self, jobs: list[str], principal: str, in_one: bool) -> None:
        """Locks and other claims have separate limits."""
        kinds: list[Any] = [c.AcquireLock, c.ClaimJob, c.AcquireLock, c.ClaimJob]
        asked = zip(kinds, jobs, strict=True)
        batch = [kind(job_id=name, owner="ann", principal=principal, max_claims=1) for kind, name in asked]
        for commands in [batch] if in_one else [[command] for command in batch]:
            self.run(*commands)

    @rule(
        jobs=st.permutations(["a", "b", "c", "d/e"]),
        principal=PRINCIPALS,
        claimed=st.integers(0, 3),
        in_one=st.booleans(),
    )
    def a_principal_reaches_its_queue_limit(self, jobs: list[str], principal: str, claimed: int, in_one: bool) -> None:
        batch: list[AnyCommand] = [
            c.Enqueue(job_id=name, kind="build", principal=principal, max_queued=2) for name in jobs
        ]
        batch.insert(claimed, c.ClaimNext(owner="bob", ttl=5))
        for commands in [batch] if in_one else [[command] for command in batch]:
            self.run(*commands)

    @rule(principal=PRINCIPALS, is_task=st.booleans(), in_one=st.booleans())
    def a_principal_reaches_its_session_limit(self, principal: str, is_task: bool, in_one: bool) -> None:
        opening = c.OpenSession(session_id="s", agent="ann", principal=principal, ttl=5, max_sessions=1)
        other: AnyCommand = msgspec.structs.replace(opening, session_id="t")
        if is_task:
            other = c.ClaimTask(session_id="t", owner="ann", principal=principal, queues=("default",), max_sessions=1)
        batch = [opening, other]
        for commands in [batch] if in_one else [[command] for command in batch]:
            self.run(*commands)

    @rule(job_id=LOCKS, asked=st.lists(locks(), min_size=2, max_size=3), principal=PRINCIPALS)
    def agents_share_a_token(self, job_id: str, asked: list[AnyCommand], principal: str) -> None:
        """They differ by their `holder`, or else by session and metadata."""
        self.run(*(c.OpenSession(session_id=name, agent="ann", principal=principal) for name in ("s", "t")))
        for lock in asked:
            self.run(msgspec.structs.replace(lock, job_id=job_id, principal=principal, max_claims=None))

    @rule(token_id=TOKENS, digest=DIGESTS, is_early=st.booleans())
    def a_token_expires(self, token_id: str, digest: bytes, is_early: bool) -> None:
        token = c.CreateToken(token_id=token_id, name="ann", digest=digest, expires_in=5)
        self.run(token, msgspec.structs.replace(token, scopes=("admin",)), token)
        self.both.clock.advance(4.999 if is_early else 5)
        self.run(c.RotateToken(token_id=token_id, digest=b"9" * 32), c.RotateToken(token_id=token_id, digest=digest))
