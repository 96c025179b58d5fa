"""What each call of the library takes, means, and asks of the store: once, for sync and async.

Defaults are filled in, JSON is encoded, and each is safe to send twice.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate

from octostore.client.batching import ClaimOrLease, lease_of, run_batch, run_batch_async
from octostore.client.claiming import ClaimCall, HoldCall, claim, claim_async
from octostore.client.executing import command_method
from octostore.client.methods import Building, Method, P, Steps, as_tuple, steps_method
from octostore.client.operating import OperatorCalls
from octostore.client.owner import HOST, default_owner
from octostore.core import commands as c
from octostore.core.checks import OUTCOMES, check_word
from octostore.core.commands import Batch, R_co
from octostore.core.encoding import encode_any, encode_json
from octostore.core.errors import InvalidInput
from octostore.core.limits import MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT, TTL_DEFAULT_SECONDS
from octostore.core.model import Outcome, Phase, Scope
from octostore.core.moments import to_moment
from octostore.core.replies import ClaimReply, RecoverReply, Recovery, SessionReply
from octostore.stores.ids import new_job_id, new_request_id, new_session_id, new_token_id

if TYPE_CHECKING:
    from octostore.wire.responses import NewToken

_OF_ENQUEUE = {"kind", "payload", "job_id", "queue", "priority", "run_at", "max_attempts", "traceparent"}


def claim_method(make: Callable[Concatenate[Any, P], ClaimCall[R_co]]) -> Method[P, ClaimCall[R_co], R_co]:
    return Method(make, lambda port, call: claim(port, *call), lambda port, call: claim_async(port, *call))


def batch_method(make: Callable[Concatenate[Any, P], Batch]) -> Method[P, Batch, list[Any]]:
    return Method(make, run_batch, run_batch_async)


class Calls(OperatorCalls):
    """What `OctoStore` and `AsyncOctoStore` can do."""

    # Jobs

    @claim_method
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
        pid: int | None = None,
        lock_delay: float = 0,
        max_silence: float | None = None,
        traceparent: str | None = None,
    ) -> ClaimCall[ClaimReply]:
        """Become the one owner of a job, for `ttl` seconds after each heartbeat.

        The reply's `status` says whether it worked: `claimed`, or `held`, `done`, `delayed`, `dead`, each with what
        there is to know (see `ClaimReply`). With `wait`, a `held` or `delayed` job is waited for that many seconds.

        The claim belongs to this call, not to `owner`, which is for people to read (by default `OCTOSTORE_OWNER`, or
        host and process id). Only the same `request_id` gets a live claim again, as `replayed`; once that claim has
        ended, it gets `LeaseLost`, which says how: a call that arrives late must not claim for nobody. `again` claims a
        job although it is done. `session_id` binds the claim to a session: it lives as long as that does, and needs no
        heartbeat of its own. `lock_delay` (0 to 30 s) keeps the job unclaimable for that long after this claim ends,
        for work that may still be in flight. An owner that heartbeats but reports no progress (no note, percentage or
        checkpoint) for `max_silence` seconds is shown as `stuck`, counted by `health` and noted in the log. `pid` is
        the process that will hold the claim, if it is not this one. `traceparent` is the W3C trace context of this
        attempt; the next owner finds it in `previous`.
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
            host=HOST,
            pid=os.getpid() if pid is None else pid,
            max_silence=max_silence,
            traceparent=traceparent,
        )
        return ClaimCall(command, wait, request_id is None)

    @command_method
    def heartbeat_job(
        self,
        job_id: str,
        lease_id: str,
        *,
        ttl: float | None = None,
        progress: str | None = None,
        percent: float | None = None,
        fencing_token: int | None = None,
    ) -> c.HeartbeatJob:
        """Prove you are alive: the claim now ends `ttl` seconds from now (by default what it was claimed with).

        `progress` and `percent` are shown to whoever asks. Raises `LeaseLost`, telling who has the job now, if this
        lease has ended. With its `fencing_token`, here and below, a store that was put back from an older copy raises
        `Unreachable` instead: it cannot know.
        """
        return c.HeartbeatJob(
            job_id=job_id, lease_id=lease_id, fencing_token=fencing_token, ttl=ttl, note=progress, percent=percent
        )

    @command_method
    def checkpoint_job(
        self, job_id: str, lease_id: str, data: Any, *, fencing_token: int | None = None
    ) -> c.CheckpointJob:
        """Leave what a successor needs to go on from here: JSON of up to 64 KiB. Raises `LeaseLost`."""
        encoded = encode_any("checkpoint", data)
        return c.CheckpointJob(job_id=job_id, lease_id=lease_id, fencing_token=fencing_token, data=encoded)

    @command_method
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
        fencing_token: int | None = None,
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
            fencing_token=fencing_token,
            outcome=outcome,
            result=encode_json("result", result),
            error=error,
            note=note,
            retry_after=retry_after,
        )

    # Queues

    @command_method
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
        traceparent: str | None = None,
    ) -> c.Enqueue:
        """Put a job in a queue. Lower `priority` runs first, then earlier `run_at`, then older.

        With the `job_id` of a job that was enqueued before, nothing changes: `created` is False. A job that somebody
        holds without its having been enqueued is enqueued under that claim. `traceparent` is the W3C trace context that
        it is enqueued in, which comes with every claim on it.
        """
        return c.Enqueue(
            job_id=new_job_id() if job_id is None else job_id,
            kind=kind,
            payload=encode_json("payload", payload),
            queue=queue,
            priority=priority,
            run_at=None if run_at is None else to_moment("run_at", run_at),
            max_attempts=max_attempts,
            traceparent=traceparent,
        )

    @claim_method
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
        max_silence: float | None = None,
        until_done: bool = False,
        pid: int | None = None,
        traceparent: str | None = None,
    ) -> ClaimCall[ClaimReply]:
        """Claim the job that is first in line. `empty` if there is none, after `wait` seconds of waiting for one.

        `empty` comes with `all_done`, whether every job in the queue is settled, and `queue_status`: what else is in
        it, up to 100 of each. With `kinds`, both are about what could be claimed of these kinds. With `until_done`, the
        wait also ends when all is done, instead of going on for jobs that nobody has enqueued yet.
        """
        command = c.ClaimNext(
            queue=queue,
            until_done=until_done,
            kinds=None if kinds is None else as_tuple("kinds", kinds),
            owner=default_owner() if owner is None else owner,
            metadata=encode_json("metadata", metadata),
            ttl=ttl,
            session_id=session_id,
            request_id=new_request_id() if request_id is None else request_id,
            host=HOST,
            pid=os.getpid() if pid is None else pid,
            max_silence=max_silence,
            traceparent=traceparent,
        )
        return ClaimCall(command, wait, request_id is None)

    @claim_method
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
        max_silence: float | None = None,
        lease_id: str | None = None,
        traceparent: str | None = None,
    ) -> ClaimCall[ClaimReply]:
        """Acquire a session and claim its next task, in one step: that of the first queue that has one.

        `claimed`, with `session` (its context, phase and what was in flight) and one `lease_id` for both; `held` if
        somebody else has the session; `empty` if there is no task, and then the session is left as it is. A session
        runs one task at a time, and `release_task` frees it. One that was handed over to `agent` comes with its task.

        With the `lease_id` of a session that you have open, the task is claimed within it: `session` is None, `ttl` has
        no effect, and `held` names the task (`job_id`) that the session already has. `release_job` ends that task and
        leaves the session open.
        """
        command = c.ClaimTask(
            session_id=session_id,
            lease_id=lease_id,
            owner=default_owner() if agent is None else agent,
            queues=as_tuple("queues", queues),
            kinds=None if kinds is None else as_tuple("kinds", kinds),
            metadata=encode_json("metadata", metadata),
            ttl=ttl,
            request_id=new_request_id() if request_id is None else request_id,
            host=HOST,
            pid=os.getpid(),
            max_silence=max_silence,
            traceparent=traceparent,
        )
        return ClaimCall(command, wait, request_id is None)

    @command_method
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
        fencing_token: int | None = None,
    ) -> c.ReleaseTask:
        """Settle a session's task as `release_job` does, and free the session, in one step."""
        return c.ReleaseTask(
            session_id=session_id,
            job_id=job_id,
            lease_id=lease_id,
            fencing_token=fencing_token,
            outcome=outcome,
            result=encode_json("result", result),
            error=error,
            note=note,
            retry_after=retry_after,
        )

    # Several at once

    @batch_method
    def batch(self, commands: Iterable[Mapping[str, Any]], *, atomic: bool = True) -> Batch:
        """Carry out up to 1,000 commands of any kind, in their order: in one transaction (`atomic`), or in several.

        Each is a document as `POST /batch` takes it: `{"command": "claim_job", "job_id": "build-7", "owner": "me"}`.
        The answers are those of the single calls, in the same order; what a single call would raise stands in its
        place, has changed nothing, and keeps no other from being carried out.
        """
        from octostore.client.documents import parse_commands  # noqa: PLC0415  # the table of endpoints takes long to import

        return Batch(parse_commands(commands), atomic)

    @batch_method
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
        max_silence: float | None = None,
    ) -> Batch:
        """`claim_job` for any number of jobs, in as few calls as possible. The answers are as in `batch`."""
        terms: dict[str, Any] = {
            "owner": default_owner() if owner is None else owner,
            "metadata": encode_json("metadata", metadata),
            "ttl": ttl,
            "session_id": session_id,
            "again": again,
            "lock_delay": lock_delay,
            "host": HOST,
            "pid": os.getpid(),
            "max_silence": max_silence,
        }
        return Batch([c.ClaimJob(job_id=job_id, **terms) for job_id in as_tuple("job_ids", job_ids)], atomic=False)

    @batch_method
    def release_many(
        self,
        claims: Iterable[ClaimOrLease],
        outcome: Outcome = "released",
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> Batch:
        """`release_job` for any number of claims: answers of `claim_many`, or pairs of job and lease."""
        ending: dict[str, Any] = {"result": result, "error": error, "note": note, "retry_after": retry_after}
        return Batch([build.release_job(*lease_of(claim), outcome, **ending) for claim in claims], atomic=False)

    @batch_method
    def enqueue_many(self, /, jobs: Iterable[Mapping[str, Any]], **usual: Any) -> Batch:
        """`enqueue` for any number of jobs, each with its arguments: `[{"kind": "build", "payload": {...}}, ...]`.

        `usual` is what holds for those that do not say, such as `kind="build"` or `queue="ci"`.
        """
        jobs = [{**usual, **job} for job in jobs]
        for job in jobs:
            unknown = sorted(job.keys() - _OF_ENQUEUE)
            if unknown or "kind" not in job:
                raise InvalidInput(
                    unknown[0] if unknown else "kind", "is not a field of a job" if unknown else "is required"
                )
        return Batch([build.enqueue(**job) for job in jobs], atomic=False)

    # Sessions and tokens

    @command_method
    def hand_over(
        self, session_id: str, to_agent: str, note: str | None = None, *, lease_id: str | None = None
    ) -> c.HandOverSession:
        """Pass a live session on to another agent, with its context and the claims bound to it, in one step.

        The old holder's lease is dead from then on, and those of its claims; each claim has a new fencing token.
        `to_agent` opens the session within its TTL and goes on. Only operators may do it without `lease_id`; to them,
        `ci/main` is the session `main` of the principal `ci`.
        """
        return c.HandOverSession(session_id=session_id, lease_id=lease_id, to_agent=to_agent, note=note)

    @command_method
    def close_session(self, session_id: str, *, lease_id: str | None = None) -> c.CloseSession:
        """End a session and release its claims, as `Session.close` does; without its lease, for operators only."""
        return c.CloseSession(session_id=session_id, lease_id=lease_id)

    @command_method
    def keep_session_alive(self, session_id: str, lease_id: str) -> c.KeepSessionAlive:
        """One heartbeat for a session and all its claims, for those who do not use `open_session`."""
        return c.KeepSessionAlive(session_id=session_id, lease_id=lease_id)

    @command_method
    def save_session(
        self, session_id: str, lease_id: str, context: Any, *, phase: Phase | None = None
    ) -> c.SaveSession:
        """Keep a session's context, and say what it is doing; see `Session.save`."""
        data = encode_any("context", context)
        return c.SaveSession(session_id=session_id, lease_id=lease_id, context=data, phase=phase)

    @steps_method
    def create_token(
        self,
        name: str,
        *,
        scopes: Sequence[Scope] = ("read", "claim"),
        prefix: str = "",
        expires_in: float | None = None,
    ) -> Steps["NewToken"]:
        """Let somebody use the store through a server, as `name`. For operators.

        The reply's `token` is the secret, and this is the only time it is returned. `scopes` are `read`, `claim` (which
        includes enqueueing) and `admin` (everything); `prefix` limits it to names that begin with it.
        """
        from octostore.wire.responses import NewToken, extend_view  # noqa: PLC0415  # few processes make one
        from octostore.wire.tokens import new_token, token_digest  # noqa: PLC0415

        token = new_token()
        command = c.CreateToken(
            token_id=new_token_id(),
            name=name,
            digest=token_digest(token),
            scopes=as_tuple("scopes", scopes),
            prefix=prefix,
            expires_in=expires_in,
        )
        return extend_view(NewToken, (yield lambda port: port.execute(command)), token=token)

    @command_method
    def revoke_token(self, token_id: str) -> c.RevokeToken:
        """End a token for good, and the streams that it has open. Raises `NotFound`. For operators."""
        return c.RevokeToken(token_id=token_id)

    @command_method
    def probe(self) -> c.Probe:
        """Write to the store, durably, and tell its time. Raises `Unreachable` with what is wrong with it."""
        return c.Probe()

    @steps_method
    def recover(self) -> Steps[list[Recovery]]:
        """Write down every expiry now, and tell what was taken back, with the evidence.

        Nobody has to call this: an expired lease has no effect anyway, and every write cleans up some of them.
        """
        recovered: list[Recovery] = []
        is_complete = False
        while not is_complete:
            step: RecoverReply = yield lambda port: port.execute(c.Recover())
            recovered += step.recovered
            is_complete = step.is_complete
        return recovered


class Blocks:
    """What is used as a block, which each of the stores has in its own form."""

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
        max_silence: float | None = None,
        outcome: Outcome = "released",
        on_lost: Callable[[], None] | None = None,
    ) -> HoldCall:
        """Own a job for the length of a block: claimed on entry, kept alive from a thread, released at the end.

        Raises `Held`, `AlreadyDone` or (delayed, dead) `Conflict` if it cannot be claimed. When the block ends, the job
        gets `outcome`, or what `claim.end_as()` chose; when it raises, the error is noted and the job `failed`, which
        retries an enqueued job and frees any other. If the lease could not be kept, `claim.lost` is set and `on_lost()`
        called, from another thread, before anybody else can get the job; the end of the block then raises `LeaseLost`.
        """
        check_word("outcome", outcome, OUTCOMES)  # before anything is claimed
        claim = build.claim_job(
            job_id,
            owner,
            metadata,
            ttl,
            wait=wait,
            session_id=session_id,
            request_id=request_id,
            again=again,
            lock_delay=lock_delay,
            max_silence=max_silence,
        )
        return HoldCall(claim, ttl, outcome, on_lost)

    def open_session(
        self,
        agent: str | None = None,
        *,
        ttl: float = TTL_DEFAULT_SECONDS,
        session_id: str | None = None,
        request_id: str | None = None,
    ) -> ClaimCall[SessionReply]:
        """Begin a session, or resume the ended one of that id: with its context, what was in flight, and `since()`.

        One that was handed over to `agent` is taken, with the claims bound to it. Raises `Held`, telling who has it, if
        it is alive elsewhere. The same `request_id` and `session_id` again get the session that the first call opened;
        once that has ended, `LeaseLost`.
        """
        command = c.OpenSession(
            session_id=new_session_id() if session_id is None else session_id,
            agent=default_owner() if agent is None else agent,
            ttl=ttl,
            request_id=new_request_id() if request_id is None else request_id,
        )
        return ClaimCall(command, 0, request_id is None)


class _Commands(Building, Calls):
    pass


build = _Commands()
"""What each call asks, without asking it."""
