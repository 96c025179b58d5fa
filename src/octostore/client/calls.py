"""What each call of the library takes, means, and asks of the store: once, for sync and async.

Defaults are filled in, JSON is encoded, and each is safe to send twice.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from octostore.client.batching import Released, lease_of
from octostore.client.claiming import ClaimCall, HoldCall
from octostore.client.methods import claimed, claimed_async, executed, executed_async, together, together_async
from octostore.client.owner import default_owner
from octostore.core import commands as c
from octostore.core.commands import Batch
from octostore.core.encoding import encode_any, encode_json
from octostore.core.errors import InvalidInput
from octostore.core.limits import MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT, TTL_DEFAULT_SECONDS
from octostore.core.model import Outcome, Phase, Scope
from octostore.core.moments import to_moment
from octostore.core.replies import ClaimReply, SessionReply
from octostore.stores.ids import new_job_id, new_request_id, new_session_id, new_token_id

_OF_ENQUEUE = {"kind", "payload", "job_id", "queue", "priority", "run_at", "max_attempts"}


class Calls:
    """Each method is one of `OctoStore` and `AsyncOctoStore`, which execute what it gives."""

    # Jobs

    def claim_job(
        self,
        job_id: str,
        owner: str | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        *,
        wait: float = 0,
        session_id: str | None = None,
        request_id: str | None = None,
        again: bool = False,
        lock_delay: float = 0,
    ) -> ClaimCall[ClaimReply]:
        """Become the one owner of a job, for `ttl` seconds after each heartbeat.

        The reply's `status` says whether it worked: `claimed`, or `held`, `done`, `delayed`, `dead`, each with what
        there is to know (see `ClaimReply`). With `wait`, a `held` or `delayed` job is waited for that many seconds.

        The claim belongs to this call, not to `owner`, which is for people to read (by default `OCTOSTORE_OWNER`, or
        host and process id). Only the same `request_id` gets a live claim again, as `replayed`; once that claim has
        ended, it gets `LeaseLost`, which says how: a call that arrives late must not claim for nobody. `again` claims a
        job although it is done. `session_id` binds the claim to a session: it lives as long as that does, and needs no
        heartbeat of its own. `lock_delay` (0 to 30 s) keeps the job unclaimable for that long after this claim ends,
        for work that may still be in flight.
        """
        command = c.ClaimJob(
            job_id=job_id,
            owner=default_owner() if owner is None else owner,
            metadata=encode_json("metadata", metadata),
            ttl=ttl,
            session_id=session_id,
            request_id=new_request_id() if request_id is None else request_id,
            again=again,
            lock_delay=lock_delay,
        )
        return ClaimCall(command, wait, request_id is None)

    def hold(
        self,
        job_id: str,
        *,
        owner: str | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        wait: float = 0,
        session_id: str | None = None,
        request_id: str | None = None,
        again: bool = False,
        lock_delay: float = 0,
        outcome: Outcome = "released",
        on_lost: Callable[[], None] | None = None,
    ) -> HoldCall:
        """Own a job for the length of a block: claimed on entry, kept alive from a thread, released at the end.

        Raises `Held`, `AlreadyDone` or (delayed, dead) `Conflict` if it cannot be claimed. When the block ends, the job
        gets `outcome`, or what `claim.end_as()` chose; when it raises, the error is noted and the job `failed`, which
        retries an enqueued job and frees any other. If the lease could not be kept, `claim.lost` is set and `on_lost()`
        called, from another thread, before anybody else can get the job; the end of the block then raises `LeaseLost`.
        """
        c.check_outcome(outcome)  # before anything is claimed
        claim = calls.claim_job(
            job_id,
            owner,
            metadata,
            ttl,
            wait=wait,
            session_id=session_id,
            request_id=request_id,
            again=again,
            lock_delay=lock_delay,
        )
        return HoldCall(claim, outcome, on_lost)

    def heartbeat_job(
        self,
        job_id: str,
        lease_id: str,
        *,
        ttl: float | None = None,
        progress: str | None = None,
        percent: float | None = None,
    ) -> c.HeartbeatJob:
        """Prove you are alive: the claim now ends `ttl` seconds from now (by default what it was claimed with).

        `progress` and `percent` are shown to whoever asks. Raises `LeaseLost`, telling who has the job now, if this
        lease has ended.
        """
        return c.HeartbeatJob(job_id=job_id, lease_id=lease_id, ttl=ttl, note=progress, percent=percent)

    def checkpoint_job(self, job_id: str, lease_id: str, data: Any) -> c.CheckpointJob:
        """Leave what a successor needs to go on from here: JSON of up to 64 KiB. Raises `LeaseLost`."""
        return c.CheckpointJob(job_id=job_id, lease_id=lease_id, data=encode_any("checkpoint", data))

    def release_job(
        self,
        job_id: str,
        lease_id: str,
        outcome: Outcome = "released",
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> c.ReleaseJob:
        """End the claim.

        - `released`: free again (an enqueued job goes back to its place in the line); no attempt is used up, and one
          that nobody enqueued starts counting anew.
        - `done`: finished, with `result`; later claims answer `done`.
        - `failed`: an enqueued job is retried with backoff, or `dead` after its last attempt; another one is free.
        - `deferred`: not now, but in `retry_after` seconds (60 by default); no attempt is used up.

        The same call again by the same lease gets the same answer. Any other lease gets `LeaseLost`, telling how it
        ended and who has the job now.
        """
        return c.ReleaseJob(
            job_id=job_id,
            lease_id=lease_id,
            outcome=outcome,
            result=encode_json("result", result),
            error=error,
            note=note,
            retry_after=retry_after,
        )

    # Queues

    def enqueue(
        self,
        kind: str,
        payload: Any = None,
        *,
        job_id: str | None = None,
        queue: str = "default",
        priority: int = PRIORITY_DEFAULT,
        run_at: datetime | None = None,
        max_attempts: int = MAX_ATTEMPTS_DEFAULT,
    ) -> c.Enqueue:
        """Put a job in a queue. Lower `priority` runs first, then earlier `run_at`, then older.

        With the `job_id` of a job that was enqueued before, nothing changes: `created` is False. A job that somebody
        holds without its having been enqueued is enqueued under that claim.
        """
        return c.Enqueue(
            job_id=new_job_id() if job_id is None else job_id,
            kind=kind,
            payload=encode_json("payload", payload),
            queue=queue,
            priority=priority,
            run_at=None if run_at is None else to_moment("run_at", run_at),
            max_attempts=max_attempts,
        )

    def claim_next(
        self,
        queue: str = "default",
        *,
        kinds: Sequence[str] | None = None,
        owner: str | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        wait: float = 0,
        session_id: str | None = None,
        request_id: str | None = None,
    ) -> ClaimCall[ClaimReply]:
        """Claim the job that is first in line. `empty` if there is none, after `wait` seconds of waiting for one."""
        command = c.ClaimNext(
            queue=queue,
            kinds=None if kinds is None else _listed("kinds", kinds),
            owner=default_owner() if owner is None else owner,
            metadata=encode_json("metadata", metadata),
            ttl=ttl,
            session_id=session_id,
            request_id=new_request_id() if request_id is None else request_id,
        )
        return ClaimCall(command, wait, request_id is None)

    def claim_task(
        self,
        session_id: str,
        agent: str | None = None,
        *,
        queues: Sequence[str] = ("default",),
        kinds: Sequence[str] | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        wait: float = 0,
        request_id: str | None = None,
    ) -> ClaimCall[ClaimReply]:
        """Acquire a session and claim its next task, in one step: that of the first queue that has one.

        `claimed`, with `session` (its context, phase and what was in flight) and one `lease_id` for both; `held` if
        somebody else has the session; `empty` if there is no task, and then the session is left as it is. A session
        runs one task at a time, and `release_task` frees it. One that was handed over to `agent` comes with its task.
        """
        command = c.ClaimTask(
            session_id=session_id,
            owner=default_owner() if agent is None else agent,
            queues=_listed("queues", queues),
            kinds=None if kinds is None else _listed("kinds", kinds),
            metadata=encode_json("metadata", metadata),
            ttl=ttl,
            request_id=new_request_id() if request_id is None else request_id,
        )
        return ClaimCall(command, wait, request_id is None)

    def release_task(
        self,
        session_id: str,
        job_id: str,
        lease_id: str,
        outcome: Outcome = "done",
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> c.ReleaseTask:
        """Settle a session's task as `release_job` does, and free the session, in one step."""
        return c.ReleaseTask(
            session_id=session_id,
            job_id=job_id,
            lease_id=lease_id,
            outcome=outcome,
            result=encode_json("result", result),
            error=error,
            note=note,
            retry_after=retry_after,
        )

    def requeue(self, job_id: str, *, reason: str | None = None, keep_attempts: bool = False) -> c.RequeueJob:
        """Let a dead or done job run again, or one that waits for a retry run now.

        A dead one gets all its attempts back; with `keep_attempts` it gets one more. Raises `NotFound`, or `Conflict`
        where it is claimed.
        """
        return c.RequeueJob(job_id=job_id, reason=reason, keep_attempts=keep_attempts)

    def discard(self, job_id: str, *, reason: str | None = None) -> c.DiscardJob:
        """Give a dead job up for good: its name is free then. Raises `NotFound`, or `Conflict` if it is not dead."""
        return c.DiscardJob(job_id=job_id, reason=reason)

    def cancel(self, job_id: str, *, reason: str | None = None) -> c.CancelJob:
        """Take a queued job out of its queue; it is dead then. Raises `NotFound`, or `Conflict` if it is not queued."""
        return c.CancelJob(job_id=job_id, reason=reason)

    def force_release(self, job_id: str, *, reason: str | None = None) -> c.ForceReleaseJob:
        """Take a job away from its owner, whose next write is told. For operators; no attempt is used up."""
        return c.ForceReleaseJob(job_id=job_id, reason=reason)

    def limit_queue(self, queue: str, max_claimed: int | None) -> c.LimitQueue:
        """Let at most `max_claimed` jobs of a queue be claimed at once; 1 makes it serial, None lifts the limit."""
        return c.LimitQueue(queue=queue, max_claimed=max_claimed)

    # Several at once

    def batch(self, commands: Iterable[Mapping[str, Any]], *, atomic: bool = True) -> Batch:
        """Carry out up to 1,000 commands of any kind, in their order: in one transaction (`atomic`), or in several.

        Each is a document as `POST /batch` takes it: `{"command": "claim_job", "job_id": "build-7", "owner": "me"}`.
        The answers are those of the single calls, in the same order; what a single call would raise stands in its
        place, has changed nothing, and keeps no other from being carried out.
        """
        from octostore.client.documents import commands_of  # noqa: PLC0415  # the table of endpoints takes long to import

        return Batch(commands_of(commands), atomic)

    def claim_many(
        self,
        job_ids: Iterable[str],
        owner: str | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        *,
        session_id: str | None = None,
        again: bool = False,
        lock_delay: float = 0,
    ) -> Batch:
        """`claim_job` for any number of jobs, 1,000 in a transaction. The answers are as in `batch`."""
        terms: dict[str, Any] = {
            "owner": default_owner() if owner is None else owner,
            "metadata": encode_json("metadata", metadata),
            "ttl": ttl,
            "session_id": session_id,
            "again": again,
            "lock_delay": lock_delay,
        }
        return Batch([c.ClaimJob(job_id=job_id, **terms) for job_id in job_ids])

    def release_many(
        self,
        claims: Iterable[Released],
        outcome: Outcome = "released",
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> Batch:
        """`release_job` for any number of claims: answers of `claim_many`, or pairs of job and lease."""
        ending: dict[str, Any] = {"result": result, "error": error, "note": note, "retry_after": retry_after}
        return Batch([calls.release_job(*lease_of(claim), outcome, **ending) for claim in claims])

    def enqueue_many(self, /, jobs: Iterable[Mapping[str, Any]], **usual: Any) -> Batch:
        """`enqueue` for any number of jobs, each with its arguments: `[{"kind": "build", "payload": {...}}, ...]`.

        `usual` is what holds for those that do not say, such as `kind="build"` or `queue="ci"`.
        """
        jobs = [{**usual, **job} for job in jobs]
        for job in jobs:
            unknown = sorted(job.keys() - _OF_ENQUEUE)
            if unknown or "kind" not in job:
                raise InvalidInput(
                    unknown[0] if unknown else "kind", "is nothing that a job has" if unknown else "is required"
                )
        return Batch([calls.enqueue(**job) for job in jobs])

    # Sessions and tokens

    def open_session(
        self, agent: str | None, ttl: float, session_id: str | None, request_id: str | None
    ) -> ClaimCall[SessionReply]:
        command = c.OpenSession(
            session_id=new_session_id() if session_id is None else session_id,
            agent=default_owner() if agent is None else agent,
            ttl=ttl,
            request_id=new_request_id() if request_id is None else request_id,
        )
        return ClaimCall(command, 0, request_id is None)

    def hand_over(
        self, session_id: str, to_agent: str, note: str | None = None, *, lease_id: str | None = None
    ) -> c.HandOverSession:
        """Pass a live session on to another agent, with its context and the claims bound to it, in one step.

        The old holder's lease is dead from then on, and those of its claims; each claim has a new fencing token.
        `to_agent` opens the session within its TTL and goes on. Without `lease_id` it is done on behalf of whoever
        opened the session, which only the same principal may do.
        """
        return c.HandOverSession(session_id=session_id, lease_id=lease_id, to_agent=to_agent, note=note)

    def keep_session_alive(self, session_id: str, lease_id: str) -> c.KeepSessionAlive:
        """One heartbeat for a session and all its claims, for those who do not use `open_session`."""
        return c.KeepSessionAlive(session_id=session_id, lease_id=lease_id)

    def save_session(
        self, session_id: str, lease_id: str, context: Any, *, phase: Phase | None = None
    ) -> c.SaveSession:
        """Keep a session's context, and say what it is doing; see `Session.save`."""
        data = encode_any("context", context)
        return c.SaveSession(session_id=session_id, lease_id=lease_id, context=data, phase=phase)

    def create_token(
        self, token: str, name: str, scopes: Sequence[Scope], prefix: str, expires_in: float | None
    ) -> c.CreateToken:
        from octostore.wire.tokens import digest_of  # noqa: PLC0415  # few processes make one

        if isinstance(scopes, str):
            raise InvalidInput("scopes", f"must be a list of scopes, such as [{scopes!r}]")
        return c.CreateToken(
            token_id=new_token_id(),
            name=name,
            digest=digest_of(token),
            scopes=tuple(scopes),
            prefix=prefix,
            expires_in=expires_in,
        )

    def revoke_token(self, token_id: str) -> c.RevokeToken:
        """End a token for good, and the streams that it has open. Raises `NotFound`. For operators."""
        return c.RevokeToken(token_id=token_id)

    def probe(self) -> c.Probe:
        """Write to the store, durably, and tell its time. Raises `Unreachable` with what is wrong with it."""
        return c.Probe()


calls = Calls()


class SyncCalls:
    """The calls, executed."""

    claim_job = claimed(Calls.claim_job)
    heartbeat_job = executed(Calls.heartbeat_job)
    checkpoint_job = executed(Calls.checkpoint_job)
    release_job = executed(Calls.release_job)
    enqueue = executed(Calls.enqueue)
    claim_next = claimed(Calls.claim_next)
    claim_task = claimed(Calls.claim_task)
    release_task = executed(Calls.release_task)
    requeue = executed(Calls.requeue)
    discard = executed(Calls.discard)
    cancel = executed(Calls.cancel)
    force_release = executed(Calls.force_release)
    limit_queue = executed(Calls.limit_queue)
    batch = together(Calls.batch)
    claim_many = together(Calls.claim_many)
    release_many = together(Calls.release_many)
    enqueue_many = together(Calls.enqueue_many)
    hand_over = executed(Calls.hand_over)
    keep_session_alive = executed(Calls.keep_session_alive)
    save_session = executed(Calls.save_session)
    revoke_token = executed(Calls.revoke_token)
    probe = executed(Calls.probe)


class AsyncCalls:
    """The calls, awaited."""

    claim_job = claimed_async(Calls.claim_job)
    heartbeat_job = executed_async(Calls.heartbeat_job)
    checkpoint_job = executed_async(Calls.checkpoint_job)
    release_job = executed_async(Calls.release_job)
    enqueue = executed_async(Calls.enqueue)
    claim_next = claimed_async(Calls.claim_next)
    claim_task = claimed_async(Calls.claim_task)
    release_task = executed_async(Calls.release_task)
    requeue = executed_async(Calls.requeue)
    discard = executed_async(Calls.discard)
    cancel = executed_async(Calls.cancel)
    force_release = executed_async(Calls.force_release)
    limit_queue = executed_async(Calls.limit_queue)
    batch = together_async(Calls.batch)
    claim_many = together_async(Calls.claim_many)
    release_many = together_async(Calls.release_many)
    enqueue_many = together_async(Calls.enqueue_many)
    hand_over = executed_async(Calls.hand_over)
    keep_session_alive = executed_async(Calls.keep_session_alive)
    save_session = executed_async(Calls.save_session)
    revoke_token = executed_async(Calls.revoke_token)
    probe = executed_async(Calls.probe)


def _listed(field: str, words: Sequence[str]) -> tuple[str, ...]:
    if isinstance(words, str):
        # It would pass for a list of one-letter words, and the worker would wait for ever.
        raise InvalidInput(field, f"must be a list of {field}, such as [{words!r}]")
    return tuple(words)
