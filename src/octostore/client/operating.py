"""Calls for operators: other owners' jobs, queues, access tokens, and the store itself."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from octostore.client.executing import command_method, execute
from octostore.client.methods import Steps, as_tuple, steps_method
from octostore.core import commands as c
from octostore.core.model import Scope
from octostore.core.replies import RecoverReply, Recovery
from octostore.stores.ids import new_token_id

if TYPE_CHECKING:
    from octostore.wire.responses import NewToken


class OperatorCalls:
    # Jobs

    @command_method
    def requeue(self, job_id: str, *, reason: str | None = None, keep_attempts: bool = False) -> c.RequeueJob:
        """Run a dead or finished job again, or retry a waiting one now.

        Args:
            job_id: The job's name.
            reason: Shown in the log.
            keep_attempts: Give a dead job one more attempt instead of a full set.

        Returns:
            The job as it is now.

        Raises:
            NotFound: There is no such job.
            Conflict: The job is claimed.

        Example:
            >>> _ = store.enqueue("import", job_id="import-1", max_attempts=1)
            >>> _ = store.work("default", lambda claim: 1 / 0, until_empty=True)
            >>> store.get_job("import-1").status
            'dead'
            >>> store.requeue("import-1", reason="fixed the divisor").status
            'queued'
        """
        return c.RequeueJob(job_id=job_id, reason=reason, keep_attempts=keep_attempts)

    @command_method
    def discard(self, job_id: str, *, reason: str | None = None) -> c.DiscardJob:
        """Drop a dead job and free its name.

        Args:
            job_id: The job's name.
            reason: Shown in the log.

        Returns:
            The job, now `free`.

        Raises:
            NotFound: There is no such job.
            Conflict: The job is not dead.

        Example:
            >>> _ = store.enqueue("import", job_id="import-1")
            >>> _ = store.cancel("import-1")
            >>> store.discard("import-1", reason="obsolete").status
            'free'
        """
        return c.DiscardJob(job_id=job_id, reason=reason)

    @steps_method
    def requeue_matching(
        self,
        *,
        reason: str,
        prefix: str = "",
        queue: str | None = None,
        kind: str | None = None,
        keep_attempts: bool = False,
        on_batch: Callable[[int], None] | None = None,
    ) -> Steps[int]:
        """Requeue every dead job that matches all conditions. For operators.

        Works in name order, in batches of 100. Each batch is one transaction, so others can write in between. A job
        that dies again meanwhile stays dead. If a batch fails, earlier batches stay requeued; call again for the rest.

        Args:
            reason: Shown in the log.
            prefix: Only jobs whose name begins with this.
            queue: Only jobs in this queue.
            kind: Only jobs of this kind.
            keep_attempts: Give each job one more attempt instead of a full set.
            on_batch: Called after each batch with the number of jobs requeued so far.

        Returns:
            The number of jobs requeued.

        Raises:
            NotAllowed: Your token is not an operator's.

        Example:
            >>> _ = store.enqueue("import", job_id="import-1")
            >>> _ = store.cancel("import-1")
            >>> store.requeue_matching(reason="the API is back", kind="import")
            1
        """
        command = c.RequeueMatching(reason=reason, prefix=prefix, queue=queue, kind=kind, keep_attempts=keep_attempts)
        return (yield from _change_all(command, on_batch))

    @steps_method
    def discard_matching(
        self,
        *,
        reason: str,
        prefix: str = "",
        queue: str | None = None,
        kind: str | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> Steps[int]:
        """Discard every dead job that matches all conditions, in batches like `requeue_matching`. For operators.

        Args:
            reason: Shown in the log.
            prefix: Only jobs whose name begins with this.
            queue: Only jobs in this queue.
            kind: Only jobs of this kind.
            on_batch: Called after each batch with the number of jobs discarded so far.

        Returns:
            The number of jobs discarded.

        Raises:
            NotAllowed: Your token is not an operator's.

        Example:
            >>> _ = store.enqueue("import", job_id="import-1")
            >>> _ = store.cancel("import-1")
            >>> store.discard_matching(reason="obsolete", prefix="import-")
            1
        """
        command = c.DiscardMatching(reason=reason, prefix=prefix, queue=queue, kind=kind)
        return (yield from _change_all(command, on_batch))

    @command_method
    def cancel(self, job_id: str, *, reason: str | None = None, drain: bool = False) -> c.CancelJob:
        """Cancel a job: it leaves its queue, any owner loses the lease, and the job is dead. For operators.

        This is one step, so no one can claim the job in between. The owner's next write raises `LeaseLost` with the
        reason. `requeue` brings the job back with all its attempts.

        Args:
            job_id: The job's name.
            reason: Shown in the log and to the owner.
            drain: Ask the owner to stop, like `request_stop`, instead of taking the job away. The job is dead once its
                claim ends, unless the outcome is `done`.

        Returns:
            The job as it is now.

        Raises:
            NotFound: There is no such job.
            Conflict: The job is free or done.

        Example:
            >>> _ = store.enqueue("import", job_id="import-1")
            >>> store.cancel("import-1", reason="wrong file").status
            'dead'
        """
        return c.CancelJob(job_id=job_id, reason=reason, drain=drain)

    @command_method
    def request_stop(self, job_id: str, *, reason: str | None = None) -> c.RequestStop:
        """Ask the owner of a job to stop. For operators.

        The owner learns of the request with its next heartbeat: `claim.stop_requested` is set, `octostore run` and
        `octostore work` stop their commands, and MCP servers tell their agents. The owner keeps the job until it
        settles the claim. Safe to repeat.

        Args:
            job_id: The job's name.
            reason: Shown in the log and to the owner.

        Returns:
            The job as it is now. `claim.stop_requested.delivered_at` is when the owner learned of it.

        Raises:
            NotFound: There is no such job.
            Conflict: The job has no owner.

        Example:
            >>> claim = store.claim_job("reindex")
            >>> _ = store.request_stop("reindex", reason="deploy at noon")
            >>> store.heartbeat_job("reindex", claim.lease_id).stop_requested.reason
            'deploy at noon'
        """
        return c.RequestStop(job_id=job_id, reason=reason)

    @command_method
    def force_release(self, job_id: str, *, reason: str | None = None) -> c.ForceReleaseJob:
        """Take a job away from its owner, whose next write raises `LeaseLost`. Uses no attempt. For operators.

        Args:
            job_id: The job's name.
            reason: Shown in the log and to the owner.

        Returns:
            The job as it is now.

        Raises:
            NotFound: There is no such job.

        Example:
            >>> _ = store.claim_job("reindex", owner="agent-3")
            >>> store.force_release("reindex", reason="agent-3 is gone").status
            'free'
        """
        return c.ForceReleaseJob(job_id=job_id, reason=reason)

    # Queues

    @command_method
    def set_queue(
        self,
        name: str,
        *,
        max_claimed: int | UnsetType | None = UNSET,
        paused: bool | None = None,
        reason: str | None = None,
    ) -> c.SetQueue:
        """Change a queue's settings. What you leave out stays as it is. For operators.

        Args:
            name: The queue's name.
            max_claimed: How many of its jobs can be claimed at once. 1 makes the queue serial; None removes the limit.
            paused: True pauses the queue: its jobs cannot be claimed, in order or by name, but live claims continue,
                and jobs can be enqueued. False resumes the queue and wakes waiting workers.
            reason: Shown in the log and to workers that find nothing to claim.

        Returns:
            The queue's settings.

        Raises:
            NotAllowed: Your token is not an operator's.

        Example:
            >>> store.set_queue("deploys", max_claimed=1).max_claimed
            1
            >>> store.set_queue("deploys", paused=True, reason="freeze").paused
            True
        """
        return c.SetQueue(queue=name, max_claimed=max_claimed, paused=paused, reason=reason)

    @command_method
    def limit_queue(self, queue: str, max_claimed: int | None) -> c.SetQueue:
        """Short for `set_queue(queue, max_claimed=...)`.

        Args:
            queue: The queue's name.
            max_claimed: How many of its jobs can be claimed at once; None removes the limit.

        Returns:
            The queue's settings.

        Raises:
            NotAllowed: Your token is not an operator's.

        Example:
            >>> store.limit_queue("deploys", 1).max_claimed
            1
        """
        return c.SetQueue(queue=queue, max_claimed=max_claimed)

    # Tokens

    @steps_method
    def create_token(
        self,
        name: str,
        *,
        scopes: Sequence[Scope] = ("read", "claim"),
        prefix: str = "",
        expires_in: float | None = None,
    ) -> Steps["NewToken"]:
        """Create an access token for using the store through a server. For operators.

        Args:
            name: The principal that the token belongs to.
            scopes: `read`, `claim` (which includes enqueueing) and `admin` (everything).
            prefix: Limit the token to names that begin with this.
            expires_in: Seconds until the token expires.

        Returns:
            The token. Its secret, in `token`, is returned only this once.

        Raises:
            NotAllowed: Your token is not an operator's.

        Example:
            >>> created = store.create_token("ci", scopes=["claim"], prefix="builds/")
            >>> created.token.startswith("octo_")
            True
        """
        from octostore.wire.responses import NewToken, extend_view  # noqa: PLC0415  # few processes create one
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
        """Revoke an access token for good, and end its open streams. For operators.

        Args:
            token_id: The token's id, not its secret.

        Returns:
            The token, with `revoked_at`.

        Raises:
            NotFound: There is no such token.

        Example:
            >>> created = store.create_token("ci")
            >>> store.revoke_token(created.token_id).revoked_at is not None
            True
        """
        return c.RevokeToken(token_id=token_id)

    # The store

    @command_method
    def probe(self) -> c.Probe:
        """Check that the store accepts a durable write.

        Returns:
            The store's time, its last `seq`, and its version.

        Raises:
            Unreachable: The store cannot be written to; `reason` says why.

        Example:
            >>> store.probe().version == octostore.__version__
            True
        """
        return c.Probe()

    @steps_method
    def recover(self) -> Steps[list[Recovery]]:
        """Record all expired claims now. You never have to: an expired lease has no effect, and later writes record it.

        Returns:
            The claims that were taken back, with the evidence: last heartbeat, TTL, and how late the expiry was
            noticed.

        Raises:
            NotAllowed: Your token is not an operator's.

        Example:
            >>> store.recover()
            []
        """
        recovered: list[Recovery] = []
        is_complete = False
        while not is_complete:
            step: RecoverReply = yield lambda port: port.execute(c.Recover())
            recovered += step.recovered
            is_complete = step.is_complete
        return recovered


def _change_all(command: c.MatchingCommand, on_batch: Callable[[int], None] | None) -> Steps[int]:
    changed, after = 0, command.after
    while True:
        step = yield from execute(msgspec.structs.replace(command, after=after))
        changed += step.changed
        if on_batch is not None:
            on_batch(changed)
        if step.after is None:
            return changed
        after = step.after
