"""`OctoStore`: the library's interface."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from octostore.client import requests
from octostore.client.batching import (
    Document,
    Released,
    carry_out,
    carry_out_all,
    commands_of,
    lease_of,
)
from octostore.client.claiming import claim
from octostore.client.hold import LONG_AGO, HeldClaim, ask_for, granted, refreshed
from octostore.client.port import Port
from octostore.client.reader import Reader
from octostore.client.session import Session
from octostore.client.verification import OnEvent, verify
from octostore.client.work import AnyClaim, Handler, WorkLoop
from octostore.core import commands as c
from octostore.core.errors import InvalidInput
from octostore.core.limits import (
    MAX_ATTEMPTS_DEFAULT,
    PRIORITY_DEFAULT,
    TTL_DEFAULT_SECONDS,
    check_whole,
)
from octostore.core.model import Outcome, Phase, Scope
from octostore.core.replies import (
    CheckpointReply,
    ClaimReply,
    EnqueueReply,
    HandedOverReply,
    HeartbeatReply,
    JobView,
    KeepaliveReply,
    ProbeReply,
    QueueView,
    Recovery,
    ReleaseReply,
    SavedReply,
    TokenView,
)
from octostore.core.verify import Verification
from octostore.stores.clock import boottime

if TYPE_CHECKING:
    from octostore.wire.answers import NewToken

CONCURRENCY_MAX = 1_000


class OctoStore(Reader):
    """One owner per job, ownership that anyone can see, and recovery when an owner disappears.

    Made by `octostore.connect()`. Safe to use from many threads, and after `fork()`. Every method can be repeated: a
    second call with the same `request_id`, lease or name finds what the first one did (so give an `enqueue` or a
    session that is to be repeated its id). All raise `InvalidInput` for arguments out of bounds (nothing has changed
    then) and `Unreachable` where the store cannot answer.
    """

    _port: Port

    def __init__(self, port: Port) -> None:
        super().__init__(port)

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
    ) -> ClaimReply:
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
        command = requests.claim_job(
            job_id,
            owner,
            metadata,
            ttl,
            session_id=session_id,
            request_id=request_id,
            again=again,
            lock_delay=lock_delay,
        )
        return claim(self._port, command, wait, is_generated=request_id is None)

    def heartbeat_job(
        self,
        job_id: str,
        lease_id: str,
        *,
        ttl: float | None = None,
        progress: str | None = None,
        percent: float | None = None,
    ) -> HeartbeatReply:
        """Prove you are alive: the claim now ends `ttl` seconds from now (by default what it was claimed with).

        `progress` and `percent` are shown to whoever asks. Raises `LeaseLost`, telling who has the job now, if this
        lease has ended.
        """
        return self._port.execute(
            c.HeartbeatJob(job_id=job_id, lease_id=lease_id, ttl=ttl, note=progress, percent=percent)
        )

    def checkpoint_job(self, job_id: str, lease_id: str, data: Any) -> CheckpointReply:
        """Leave what a successor needs to go on from here: JSON of up to 64 KiB. Raises `LeaseLost`."""
        return self._port.execute(requests.checkpoint_job(job_id, lease_id, data))

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
    ) -> ReleaseReply:
        """End the claim.

        - `released`: free again (an enqueued job goes back to its place in the line); no attempt is used up, and one
          that nobody enqueued starts counting anew.
        - `done`: finished, with `result`; later claims answer `done`.
        - `failed`: an enqueued job is retried with backoff, or `dead` after its last attempt; another one is free.
        - `deferred`: not now, but in `retry_after` seconds (60 by default); no attempt is used up.

        The same call again by the same lease gets the same answer. Any other lease gets `LeaseLost`, telling how it
        ended and who has the job now.
        """
        return self._port.execute(
            requests.release_job(
                job_id, lease_id, outcome, result=result, error=error, note=note, retry_after=retry_after
            )
        )

    @contextmanager
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
    ) -> Iterator[HeldClaim]:
        """Own a job for the length of a block: claimed on entry, kept alive from a thread, released at the end.

        Raises `Held`, `AlreadyDone` or (delayed, dead) `Conflict` if it cannot be claimed. When the block ends, the job
        gets `outcome`, or what `claim.end_as()` chose; when it raises, the error is noted and the job `failed`, which
        retries an enqueued job and frees any other. If the lease could not be kept, `claim.lost` is set and `on_lost()`
        called, from another thread, before anybody else can get the job; the end of the block then raises `LeaseLost`.
        """
        c.check_outcome(outcome)  # before anything is claimed
        command = requests.claim_job(
            job_id,
            owner,
            metadata,
            ttl,
            session_id=session_id,
            request_id=request_id,
            again=again,
            lock_delay=lock_delay,
        )
        claim = HeldClaim(
            self._port, ask_for(self._port, command, wait, is_generated=request_id is None), on_lost=on_lost
        )
        claim.end_as(outcome)
        with claim:
            yield claim

    @contextmanager
    def keep(
        self, reply: ClaimReply, *, asked_at: float = LONG_AGO, on_lost: Callable[[], None] | None = None
    ) -> Iterator[HeldClaim]:
        """`hold()` for a claim that is made already, by `claim_job` or `claim_next`.

        It begins with a heartbeat, because how long a claim lasts is counted from when it was asked for. Whoever knows
        that does without: `asked_at` is what `time.clock_gettime(time.CLOCK_BOOTTIME)` gave just before. Raises
        `LeaseLost` if the claim is over, and what `hold` raises if `reply` is none.
        """
        with HeldClaim(self._port, refreshed(self._port, granted(reply, asked_at)), on_lost=on_lost) as claim:
            yield claim

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
    ) -> EnqueueReply:
        """Put a job in a queue. Lower `priority` runs first, then earlier `run_at`, then older.

        With the `job_id` of a job that was enqueued before, nothing changes: `created` is False. A job that somebody
        holds without its having been enqueued is enqueued under that claim.
        """
        return self._port.execute(
            requests.enqueue(
                kind,
                payload,
                job_id=job_id,
                queue=queue,
                priority=priority,
                run_at=run_at,
                max_attempts=max_attempts,
            )
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
    ) -> ClaimReply:
        """Claim the job that is first in line. `empty` if there is none, after `wait` seconds of waiting for one."""
        command = requests.claim_next(
            queue,
            kinds=kinds,
            owner=owner,
            metadata=metadata,
            ttl=ttl,
            session_id=session_id,
            request_id=request_id,
        )
        return claim(self._port, command, wait, is_generated=request_id is None)

    def work(
        self,
        queue: str,
        handler: Handler,
        *,
        kinds: Sequence[str] | None = None,
        owner: str | None = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        concurrency: int = 1,
        stop: threading.Event | None = None,
        until_empty: bool = False,
    ) -> int:
        """Run `handler(claim)` for each job of a queue, until `stop` is set or (`until_empty`) none can be claimed.

        What the handler returns is the job's result; what it raises is noted, and the job retried; `Deferred` puts it
        off without using up an attempt. Heartbeats go on whatever the handler does. Returns how many jobs were handled.
        `stop` is noticed within a second, but like Ctrl-C it waits for the handlers that run.
        """
        claim = requests.claim_next(
            queue, kinds=kinds, owner=owner, metadata=None, ttl=ttl, session_id=None, request_id=None
        )
        return self._run_loop(claim, handler, concurrency, stop, until_empty=until_empty)

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
    ) -> ClaimReply:
        """Acquire a session and claim its next task, in one step: that of the first queue that has one.

        `claimed`, with `session` (its context, phase and what was in flight) and one `lease_id` for both; `held` if
        somebody else has the session; `empty` if there is no task, and then the session is left as it is. A session
        runs one task at a time, and `release_task` frees it. One that was handed over to `agent` comes with its task.
        """
        command = requests.claim_task(
            session_id, agent, queues=queues, kinds=kinds, metadata=metadata, ttl=ttl, request_id=request_id
        )
        return claim(self._port, command, wait, is_generated=request_id is None)

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
    ) -> ReleaseReply:
        """Settle a session's task as `release_job` does, and free the session, in one step."""
        return self._port.execute(
            requests.release_task(
                session_id, job_id, lease_id, outcome, result=result, error=error, note=note, retry_after=retry_after
            )
        )

    def work_session(
        self,
        session_id: str,
        handler: Handler,
        *,
        agent: str | None = None,
        queues: Sequence[str] = ("default",),
        kinds: Sequence[str] | None = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        stop: threading.Event | None = None,
        until_empty: bool = False,
    ) -> int:
        """`work` for the tasks of a session: one at a time, each with the session's context (`claim.reply.session`)."""
        claim = requests.claim_task(
            session_id, agent, queues=queues, kinds=kinds, metadata=None, ttl=ttl, request_id=None
        )
        return self._run_loop(claim, handler, 1, stop, until_empty=until_empty)

    def requeue(self, job_id: str, *, reason: str | None = None, keep_attempts: bool = False) -> JobView:
        """Let a dead or done job run again, or one that waits for a retry run now.

        A dead one gets all its attempts back; with `keep_attempts` it gets one more. Raises `NotFound`, or `Conflict`
        where it is claimed.
        """
        return self._port.execute(c.RequeueJob(job_id=job_id, reason=reason, keep_attempts=keep_attempts))

    def discard(self, job_id: str, *, reason: str | None = None) -> JobView:
        """Give a dead job up for good: its name is free then. Raises `NotFound`, or `Conflict` if it is not dead."""
        return self._port.execute(c.DiscardJob(job_id=job_id, reason=reason))

    def cancel(self, job_id: str, *, reason: str | None = None) -> JobView:
        """Take a queued job out of its queue; it is dead then. Raises `NotFound`, or `Conflict` if it is not queued."""
        return self._port.execute(c.CancelJob(job_id=job_id, reason=reason))

    def force_release(self, job_id: str, *, reason: str | None = None) -> JobView:
        """Take a job away from its owner, whose next write is told. For operators; no attempt is used up."""
        return self._port.execute(c.ForceReleaseJob(job_id=job_id, reason=reason))

    def limit_queue(self, queue: str, max_claimed: int | None) -> QueueView:
        """Let at most `max_claimed` jobs of a queue be claimed at once; 1 makes it serial, None lifts the limit."""
        return self._port.execute(c.LimitQueue(queue=queue, max_claimed=max_claimed))

    # Several at once

    def batch(self, commands: Iterable[Document], *, atomic: bool = True) -> list[Any]:
        """Carry out up to 1,000 commands of any kind, in their order: in one transaction (`atomic`), or in several.

        Each is a document as `POST /batch` takes it: `{"command": "claim_job", "job_id": "build-7", "owner": "me"}`.
        The answers are those of the single calls, in the same order; what a single call would raise stands in its
        place, has changed nothing, and keeps no other from being carried out.
        """
        return carry_out(self._port, commands_of(commands), atomic=atomic)

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
    ) -> list[Any]:
        """`claim_job` for any number of jobs, 1,000 in a transaction. The answers are as in `batch`."""
        claims = requests.claim_jobs(
            job_ids, owner, metadata, ttl, session_id=session_id, again=again, lock_delay=lock_delay
        )
        return carry_out_all(self._port, claims)

    def release_many(
        self,
        claims: Iterable[Released],
        outcome: Outcome = "released",
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> list[Any]:
        """`release_job` for any number of claims: answers of `claim_many`, or pairs of job and lease."""
        releases = [
            requests.release_job(
                *lease_of(claim), outcome, result=result, error=error, note=note, retry_after=retry_after
            )
            for claim in claims
        ]
        return carry_out_all(self._port, releases)

    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]], **usual: Any) -> list[Any]:
        """`enqueue` for any number of jobs, each with its arguments: `[{"kind": "build", "payload": {...}}, ...]`.

        `usual` is what holds for those that do not say, such as `kind="build"` or `queue="ci"`.
        """
        return carry_out_all(self._port, requests.enqueue_each(jobs, usual))

    # Sessions

    def open_session(
        self,
        agent: str | None = None,
        *,
        ttl: float = TTL_DEFAULT_SECONDS,
        session_id: str | None = None,
        request_id: str | None = None,
    ) -> Session:
        """Begin a session, or resume the ended one of that id: with its context, what was in flight, and `since()`.

        One that was handed over to `agent` is taken, with the claims bound to it. Raises `Held`, telling who has it, if
        it is alive elsewhere. The same `request_id` and `session_id` again get the session that the first call opened;
        once that has ended, `LeaseLost`.
        """
        asked_at = boottime()
        command = requests.open_session(agent, ttl, session_id, request_id)
        reply = claim(self._port, command, is_generated=request_id is None)
        return Session(self._port, reply, asked_at)

    def hand_over(
        self, session_id: str, to_agent: str, note: str | None = None, *, lease_id: str | None = None
    ) -> HandedOverReply:
        """Pass a live session on to another agent, with its context and the claims bound to it, in one step.

        The old holder's lease is dead from then on, and those of its claims; each claim has a new fencing token.
        `to_agent` opens the session within its TTL and goes on. Without `lease_id` it is done on behalf of whoever
        opened the session, which only the same principal may do.
        """
        command = c.HandOverSession(session_id=session_id, lease_id=lease_id, to_agent=to_agent, note=note)
        return self._port.execute(command)

    def keep_session_alive(self, session_id: str, lease_id: str) -> KeepaliveReply:
        """One heartbeat for a session and all its claims, for those who do not use `open_session`."""
        return self._port.execute(c.KeepSessionAlive(session_id=session_id, lease_id=lease_id))

    def save_session(self, session_id: str, lease_id: str, context: Any, *, phase: Phase | None = None) -> SavedReply:
        """Keep a session's context, and say what it is doing; see `Session.save`."""
        return self._port.execute(requests.save_session(session_id, lease_id, context, phase))

    # Tokens

    def create_token(
        self,
        name: str,
        *,
        scopes: Sequence[Scope] = ("read", "claim"),
        prefix: str = "",
        expires_in: float | None = None,
    ) -> "NewToken":
        """Let somebody use the store through a server, as `name`. For operators.

        The reply's `token` is the secret, and this is the only time it is told. `scopes` are `read`, `claim` (which
        includes enqueueing) and `admin` (everything); `prefix` limits it to names that begin with it.
        """
        from octostore.wire.answers import NewToken  # noqa: PLC0415  # few processes make one
        from octostore.wire.tokens import new_token  # noqa: PLC0415

        token = new_token()
        command = requests.create_token(token, name, scopes=scopes, prefix=prefix, expires_in=expires_in)
        return NewToken.of(self._port.execute(command), token)

    def revoke_token(self, token_id: str) -> TokenView:
        """End a token for good, and the streams that it has open. Raises `NotFound`. For operators."""
        return self._port.execute(c.RevokeToken(token_id=token_id))

    # Verification and recovery

    def verify(self, on_event: OnEvent | None = None) -> Verification:
        """Whether the log has no gap, leads to what is stored, and every claim in it ended once. For operators.

        It reads the whole log and every job, beside whatever else is going on. `on_event` is told the `seq` of each
        event as it is read.
        """
        return verify(self, on_event)

    def recover(self) -> list[Recovery]:
        """Write down every expiry now, and tell what was taken back, with the evidence.

        Nobody has to call this: an expired lease is no owner anyway, and every write tidies up some.
        """
        recovered: list[Recovery] = []
        is_complete = False
        while not is_complete:
            step = self._port.execute(c.Recover())
            recovered += step.recovered
            is_complete = step.is_complete
        return recovered

    def probe(self) -> ProbeReply:
        """Write to the store, durably, and tell its time. Raises `Unreachable` with what is wrong with it."""
        return self._port.execute(c.Probe())

    def _run_loop(
        self,
        claim: AnyClaim,
        handler: Handler,
        concurrency: int,
        stop: threading.Event | None,
        *,
        until_empty: bool,
    ) -> int:
        from inspect import iscoroutinefunction  # noqa: PLC0415  # takes long to import, and only this needs it

        check_whole("concurrency", concurrency, 1, CONCURRENCY_MAX)
        if not callable(handler) or iscoroutinefunction(handler):
            raise InvalidInput("handler", "must be a plain function of one claim; connect_async() takes coroutines")
        return WorkLoop(self._port, claim, handler, stop or threading.Event(), until_empty).run(concurrency)
