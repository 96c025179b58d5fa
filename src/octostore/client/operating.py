"""What operators do, to jobs that are not theirs and to queues."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from octostore.client.executing import command_method, execute
from octostore.client.methods import Steps, steps_method
from octostore.core import commands as c


class OperatorCalls:
    @command_method
    def requeue(self, job_id: str, *, reason: str | None = None, keep_attempts: bool = False) -> c.RequeueJob:
        """Run a dead or finished job again, or retry a waiting one now.

        A dead job gets all its attempts back, or just one more with `keep_attempts`. Raises `NotFound`, or `Conflict`
        if it is claimed.
        """
        return c.RequeueJob(job_id=job_id, reason=reason, keep_attempts=keep_attempts)

    @command_method
    def discard(self, job_id: str, *, reason: str | None = None) -> c.DiscardJob:
        """Give a dead job up for good: its name is free then. Raises `NotFound`, or `Conflict` if it is not dead."""
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
        """`requeue` for every dead job that matches everything given; returns how many. For operators.

        The store does it by name, in batches of 100, each in one transaction, so others get their turn in between. A
        job that dies again meanwhile is left dead. If a batch cannot be carried out, those before it stay done: call
        again for the rest. `on_batch` is called after each with the number of jobs requeued so far.
        """
        wanted: dict[str, Any] = {"reason": reason, "prefix": prefix, "queue": queue, "kind": kind}
        command = c.RequeueMatching(**wanted, keep_attempts=keep_attempts)
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
        """`discard` for every dead job that matches everything given, as in `requeue_matching`. For operators."""
        command = c.DiscardMatching(reason=reason, prefix=prefix, queue=queue, kind=kind)
        return (yield from _change_all(command, on_batch))

    @command_method
    def cancel(self, job_id: str, *, reason: str | None = None, drain: bool = False) -> c.CancelJob:
        """Take a job out of its queue, and away from its owner if somebody has it. It is dead then. For operators.

        In one step, so nobody gets it in between; the owner's next write raises `LeaseLost`, which tells the reason.
        With `drain` the owner keeps it and is asked to stop, as by `request_stop`; the job is dead when that claim
        ends, unless it is done then. `requeue` brings it back, with all its attempts. Raises `NotFound`, or `Conflict`
        if it is free or done.
        """
        return c.CancelJob(job_id=job_id, reason=reason, drain=drain)

    @command_method
    def request_stop(self, job_id: str, *, reason: str | None = None) -> c.RequestStop:
        """Ask the owner of a job to stop. For operators.

        The owner hears of it with its next heartbeat: `claim.stop_requested` is set, `octostore run` and `work` stop
        their command, MCP servers tell their agent. It then ends its claim as it sees fit, and until then the job stays
        its own. The request, and when it was delivered, are in the log and in `get_job_owner().stop_requested`. Asking
        again changes nothing. Raises `NotFound`, or `Conflict` if nobody has the job.
        """
        return c.RequestStop(job_id=job_id, reason=reason)

    @command_method
    def force_release(self, job_id: str, *, reason: str | None = None) -> c.ForceReleaseJob:
        """Take a job away from its owner, whose next write raises `LeaseLost`. For operators; no attempt is used up."""
        return c.ForceReleaseJob(job_id=job_id, reason=reason)

    @command_method
    def set_queue(
        self,
        name: str,
        *,
        max_claimed: int | UnsetType | None = UNSET,
        paused: bool | None = None,
        reason: str | None = None,
    ) -> c.SetQueue:
        """Change the settings of a queue; what you leave out stays as it is. For operators.

        At most `max_claimed` of its jobs can be claimed at once: 1 makes it serial, None lifts the limit. While it is
        `paused` none can be claimed, neither as the next one nor by name; claims that exist go on, jobs can be
        enqueued, and `paused=False` wakes those who wait. The `reason` is in the log, and told to those who find
        nothing to claim.
        """
        return c.SetQueue(queue=name, max_claimed=max_claimed, paused=paused, reason=reason)

    @command_method
    def limit_queue(self, queue: str, max_claimed: int | None) -> c.SetQueue:
        """`set_queue(queue, max_claimed=…)`."""
        return c.SetQueue(queue=queue, max_claimed=max_claimed)


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
