"""All calls that `OctoStore` and `AsyncOctoStore` share: each is written once, and safe to send twice."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate

from octostore.client.batching import ClaimOrLease, lease_of, run_batch, run_batch_async
from octostore.client.job_calls import JobCalls
from octostore.client.methods import Awaited, Building, P, as_tuple, port_method, returning
from octostore.client.operating import OperatorCalls
from octostore.client.owner import HOST, default_owner
from octostore.client.queue_calls import ClaimT, EventT, QueueCalls
from octostore.client.session_calls import SessionCalls
from octostore.core import commands as c
from octostore.core.commands import Batch
from octostore.core.encoding import encode_json
from octostore.core.errors import InvalidInput
from octostore.core.limits import TTL_DEFAULT_SECONDS
from octostore.core.model import Outcome

_ENQUEUE_FIELDS = {"kind", "payload", "job_id", "queue", "priority", "run_at", "delay", "max_attempts", "traceparent"}


def batch_method(build: Callable[Concatenate[Any, P], Batch]) -> Awaited[P, Batch, list[Any]]:
    return port_method(returning(list[Any], build), run_batch, run_batch_async)


class Calls(JobCalls, QueueCalls[ClaimT, EventT], SessionCalls[ClaimT, EventT], OperatorCalls):
    @batch_method
    def batch(self, commands: Iterable[Mapping[str, Any]], *, atomic: bool = True) -> Batch:
        """Run commands of any kind, in order.

        Args:
            commands: Dicts, each with the command's name in `command` and the fields that `POST /batch` takes.
            atomic: Run them in one transaction: up to 1,000. If False, there may be any number, and several
                transactions let others write in between.

        Returns:
            One reply per command, in order. If a command was refused, an exception takes the place of its reply; that
            command changed nothing, and the others still ran.

        Raises:
            InvalidInput: A command is malformed. Nothing was done.

        Example:
            >>> claimed, enqueued = store.batch([
            ...     {"command": "claim_job", "job_id": "build-7", "owner": "ci"},
            ...     {"command": "enqueue", "kind": "test", "job_id": "test-7"},
            ... ])
            >>> claimed.status, enqueued.created
            ('claimed', True)
        """
        from octostore.client.documents import parse_commands  # noqa: PLC0415  # the endpoint table is slow to import

        return Batch(parse_commands(commands, atomic=atomic), atomic)

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
        """Claim any number of jobs in as few calls as possible.

        Args:
            job_ids: The jobs' names.
            owner: See `claim_job` for this and the other arguments.
            metadata: Any JSON value up to 1,024 bytes.
            ttl: Seconds until each claim expires without a heartbeat.
            session_id: Bind the claims to this session: one heartbeat keeps all of them alive.
            again: Claim jobs even if they are done.
            lock_delay: Seconds to keep each job unclaimable after its claim ends.
            max_silence: Seconds without progress after which an owner counts as `stuck`.

        Returns:
            One `ClaimReply` per job, in order, or an exception if the claim was refused.

        Example:
            >>> [reply.status for reply in store.claim_many(["shard-1", "shard-2"], owner="indexer")]
            ['claimed', 'claimed']
        """
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
        """Release any number of claims in as few calls as possible.

        Args:
            claims: Replies from `claim_many`, or pairs of job name and lease id.
            outcome: See `release_job` for this and the other arguments.
            result: Any JSON value up to 64 KiB, only with `done`.
            error: What went wrong, only with `failed`.
            note: A note for the next owner.
            retry_after: Seconds until the jobs can be claimed again.

        Returns:
            One `ReleaseReply` per claim, in order, or an exception (for example `LeaseLost`).

        Example:
            >>> claims = store.claim_many(["shard-1", "shard-2"])
            >>> [reply.status for reply in store.release_many(claims, "done")]
            ['done', 'done']
        """
        ending: dict[str, Any] = {"result": result, "error": error, "note": note, "retry_after": retry_after}
        return Batch([build.release_job(*lease_of(claim), outcome, **ending) for claim in claims], atomic=False)

    @batch_method
    def enqueue_many(self, /, jobs: Iterable[Mapping[str, Any]], **defaults: Any) -> Batch:
        """Enqueue any number of jobs in as few calls as possible.

        Args:
            jobs: Dicts of arguments for `enqueue`.
            **defaults: Arguments for jobs that do not set their own.

        Returns:
            One `EnqueueReply` per job, in order, or an exception if the job was refused.

        Raises:
            InvalidInput: A job is malformed. Nothing was done.

        Example:
            >>> replies = store.enqueue_many([{"payload": {"page": n}} for n in range(3)], kind="crawl", queue="web")
            >>> [reply.created for reply in replies]
            [True, True, True]
        """
        jobs = [{**defaults, **job} for job in jobs]
        for job in jobs:
            unknown = sorted(job.keys() - _ENQUEUE_FIELDS)
            if unknown or "kind" not in job:
                raise InvalidInput(
                    unknown[0] if unknown else "kind", "is not a field of a job" if unknown else "is required"
                )
        return Batch([build.enqueue(**job) for job in jobs], atomic=False)


class _Build(Building, Calls[Any, Any]):
    pass


build = _Build()
"""Builds the command for each call, but does not send it."""
