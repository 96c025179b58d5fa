"""Calls about one job: claim it, keep it, settle it, or hold it for the length of a block."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, get_args

from octostore.client.claiming import ClaimCall, HoldCall, check_wait, claim, claim_async
from octostore.client.executing import command_method
from octostore.client.methods import Awaited, Building, Method, P, iterator_method, port_method, returning
from octostore.client.owner import HOST, default_owner
from octostore.core import commands as c
from octostore.core.checks import OUTCOMES, check_word
from octostore.core.commands import R_co
from octostore.core.encoding import encode_any, encode_json
from octostore.core.limits import TTL_DEFAULT_SECONDS
from octostore.core.model import Outcome
from octostore.core.replies import ClaimReply
from octostore.stores.ids import new_request_id

if TYPE_CHECKING:
    from octostore.client.async_hold import AsyncBlock
    from octostore.client.hold import Block

LONG_AGO = float("-inf")
_BLOCK = "AbstractContextManager[HeldClaim]"


class KeepCall(NamedTuple):
    reply: ClaimReply
    asked_at: float
    on_lost: Callable[[], None] | None


def claim_method(build: Callable[Concatenate[Any, P], ClaimCall[R_co]]) -> Awaited[P, ClaimCall[R_co], R_co]:
    build = returning(get_args(build.__annotations__["return"])[0], build)
    return port_method(build, lambda port, call: claim(port, *call), lambda port, call: claim_async(port, *call))


# Imported when they are first used: many processes claim, and few hold.


def _hold_block(port: Any, call: HoldCall) -> "Block":
    from octostore.client.hold import hold_block  # noqa: PLC0415

    return hold_block(port, call)


def _hold_block_async(port: Any, call: HoldCall) -> "AsyncBlock":
    from octostore.client.async_hold import hold_block_async  # noqa: PLC0415

    return hold_block_async(port, call)


def _keep_block(port: Any, call: KeepCall) -> "Block":
    from octostore.client.hold import keep_block  # noqa: PLC0415

    return keep_block(port, *call)


def _keep_block_async(port: Any, call: KeepCall) -> "AsyncBlock":
    from octostore.client.async_hold import keep_block_async  # noqa: PLC0415

    return keep_block_async(port, *call)


def hold_method(build: Callable[Concatenate[Any, P], HoldCall]) -> "Method[P, HoldCall, Block, AsyncBlock]":
    return iterator_method(returning(_BLOCK, build), _hold_block, _hold_block_async)


def keep_method(build: Callable[Concatenate[Any, P], KeepCall]) -> "Method[P, KeepCall, Block, AsyncBlock]":
    return iterator_method(returning(_BLOCK, build), _keep_block, _keep_block_async)


class JobCalls:
    @claim_method
    def claim_job(
        self,
        job_id: str,
        owner: str | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        *,
        wait: float | None = 0,
        session_id: str | None = None,
        request_id: str | None = None,
        again: bool = False,
        pid: int | None = None,
        lock_delay: float = 0,
        max_silence: float | None = None,
        traceparent: str | None = None,
    ) -> ClaimCall[ClaimReply]:
        """Become the only owner of a job.

        The claim belongs to this call, not to `owner`: a second call with the same owner gets `held`. Call
        `heartbeat_job` before `ttl` seconds pass, or use `hold`, which does this for you.

        Args:
            job_id: The job's name. It need not exist: a job that nobody enqueued is a lock.
            owner: Who you are, for people to read. Defaults to `OCTOSTORE_OWNER`, or to host and process id.
            metadata: Any JSON value up to 1,024 bytes, shown to anyone who looks up the owner.
            ttl: Seconds until the claim expires without a heartbeat, 1 to 86,400.
            wait: Seconds to wait while the job is `held` or `delayed`. None waits forever.
            session_id: Bind the claim to this session. The claim then lives as long as the session, and needs no
                heartbeats of its own.
            request_id: Makes a retry safe: the same id gets the same live claim, with `replayed` set.
            again: Claim the job even if it is done.
            pid: The process that will hold the claim, if it is not this one.
            lock_delay: Seconds (0 to 30) to keep the job unclaimable after this claim ends, so that writes in flight
                can finish.
            max_silence: Seconds without progress after which an owner that still sends heartbeats counts as `stuck`.
            traceparent: The W3C trace context of this attempt. The next owner finds it in `previous`.

        Returns:
            A reply whose `status` is `claimed`, `held`, `done`, `delayed` or `dead`; see `ClaimReply`.

        Raises:
            LeaseLost: You passed a `request_id` whose claim has ended.

        Example:
            >>> reply = store.claim_job("github-issue-1842", owner="agent-3", metadata={"branch": "fix-1842"})
            >>> reply.status, reply.attempt
            ('claimed', 1)
            >>> other = store.claim_job("github-issue-1842", owner="agent-4")
            >>> other.status, other.owner
            ('held', 'agent-3')
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
        return ClaimCall(command, check_wait(wait), request_id is None)

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
        """Prove you are alive, and extend the lease.

        Args:
            job_id: The job's name.
            lease_id: The `lease_id` of your claim.
            ttl: A new TTL in seconds. Defaults to the claim's.
            progress: What you are doing, for people to read.
            percent: How far along you are, 0 to 100.
            fencing_token: The claim's fencing token. With it, a store restored from an older backup raises
                `Unreachable` instead of `LeaseLost`, because it cannot know whether the lease has ended.

        Returns:
            The new `expires_at`, and `stop_requested` if an operator wants you to stop.

        Raises:
            LeaseLost: The lease has ended; `holder` says who owns the job now.

        Example:
            >>> claim = store.claim_job("report")
            >>> store.heartbeat_job("report", claim.lease_id, progress="fetching", percent=40).stuck
            False
        """
        return c.HeartbeatJob(
            job_id=job_id, lease_id=lease_id, fencing_token=fencing_token, ttl=ttl, note=progress, percent=percent
        )

    @command_method
    def checkpoint_job(
        self, job_id: str, lease_id: str, data: Any, *, fencing_token: int | None = None
    ) -> c.CheckpointJob:
        """Save state that the next owner gets with its claim.

        Args:
            job_id: The job's name.
            lease_id: The `lease_id` of your claim.
            data: Any JSON value up to 64 KiB. It replaces the last checkpoint.
            fencing_token: See `heartbeat_job`.

        Returns:
            When the checkpoint was saved.

        Raises:
            LeaseLost: The lease has ended.

        Example:
            >>> claim = store.claim_job("import")
            >>> saved = store.checkpoint_job("import", claim.lease_id, {"page": 3})
            >>> _ = store.release_job("import", claim.lease_id)
            >>> store.claim_job("import").checkpoint
            {'page': 3}
        """
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
        """End your claim with an outcome. Safe to repeat: the same call with the same lease gets the same reply.

        - `released`: free again, or back in its place in the queue. Uses no attempt.
        - `done`: finished. Later claims get `done` with the `result`.
        - `failed`: an enqueued job is retried with backoff, and is dead after its last attempt. Any other job is free
          again.
        - `deferred`: can be claimed again after `retry_after` seconds. Uses no attempt.

        Args:
            job_id: The job's name.
            lease_id: The `lease_id` of your claim.
            outcome: `released`, `done`, `failed` or `deferred`.
            result: Any JSON value up to 64 KiB, only with `done`.
            error: What went wrong, only with `failed`.
            note: A note for the next owner.
            retry_after: Seconds until the job can be claimed again, only with `deferred` (60 by default) or `failed`.
            fencing_token: See `heartbeat_job`.

        Returns:
            The job's new `status`, and when it can be claimed again (`available_at`).

        Raises:
            LeaseLost: The lease had already ended; `ended` says how, and `holder` says who owns the job now.

        Example:
            >>> claim = store.claim_job("deploy")
            >>> store.release_job("deploy", claim.lease_id, "done", result={"version": 7}).status
            'done'
            >>> store.claim_job("deploy").result
            {'version': 7}
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

    @hold_method
    def hold(
        self,
        job_id: str,
        *,
        owner: str | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        wait: float | None = 0,
        session_id: str | None = None,
        request_id: str | None = None,
        again: bool = False,
        lock_delay: float = 0,
        max_silence: float | None = None,
        outcome: Outcome = "released",
        on_lost: Callable[[], None] | None = None,
    ) -> HoldCall:
        """Own a job for the length of a `with` block.

        The job is claimed on entry and settled at the end; a thread sends heartbeats in between. By default, `hold`
        does **not** wait: it raises `Held` at once if someone else owns the job. `wait=30` waits up to 30 seconds,
        `wait=None` until the job is free.

        If the block raises, the job is settled as `failed`, with the error. If heartbeats stop getting through,
        `claim.lost` is set before anyone else can claim the job.

        Args:
            job_id: The job's name.
            owner: See `claim_job` for this and the other arguments up to `max_silence`.
            metadata: Any JSON value up to 1,024 bytes.
            ttl: Seconds until the claim expires if heartbeats stop.
            wait: Seconds to wait for the job. None waits forever.
            session_id: Bind the claim to this session.
            request_id: Makes a retry safe.
            again: Claim the job even if it is done.
            lock_delay: Seconds to keep the job unclaimable after the block.
            max_silence: Seconds without progress after which the owner counts as `stuck`.
            outcome: How to settle the job if the block does not raise. `claim.end_as()` can change it.
            on_lost: Called from another thread if the lease is lost.

        Returns:
            A context manager that yields a `HeldClaim` (`AsyncHeldClaim` in an `async with` block).

        Raises:
            Held: On entry: someone else still owned the job after `wait` seconds.
            AlreadyDone: On entry: the job is done.
            Conflict: On entry: the job is delayed or dead.
            LeaseLost: At the end: the lease was lost during the block.

        Example:
            >>> with store.hold("customer-sync-72", ttl=120) as claim:
            ...     claim.progress("reading", percent=10)
            ...     claim.checkpoint({"page": 3})
        """
        check_word("outcome", outcome, OUTCOMES)  # before anything is claimed
        call = _build.claim_job(
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
        return HoldCall(call, ttl, outcome, on_lost)

    @keep_method
    def keep(
        self, reply: ClaimReply, *, asked_at: float = LONG_AGO, on_lost: Callable[[], None] | None = None
    ) -> KeepCall:
        """Hold a job that you have already claimed.

        Args:
            reply: The reply to your claim.
            asked_at: What `time.clock_gettime(time.CLOCK_BOOTTIME)` returned just before you claimed. Without it, the
                block starts with a heartbeat, because a lease runs from the time it was requested.
            on_lost: Called from another thread if the lease is lost.

        Returns:
            A context manager, as from `hold`.

        Raises:
            Held: On entry: `reply` is `held`.
            AlreadyDone: On entry: `reply` is `done`.
            Conflict: On entry: `reply` is `delayed`, `dead` or `empty`.
            LeaseLost: The claim has ended.

        Example:
            >>> reply = store.claim_job("cache-rebuild")
            >>> with store.keep(reply) as claim:
            ...     claim.end_as("done", result={"entries": 12})
        """
        return KeepCall(reply, asked_at, on_lost)


class _Build(Building, JobCalls):
    pass


_build = _Build()
