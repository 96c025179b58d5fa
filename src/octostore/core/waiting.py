"""Which replies to a claim are worth waiting on."""

from octostore.core.commands import ClaimNext, ClaimTask
from octostore.core.replies import ClaimReply


def is_worth_waiting(command: object, reply: object) -> bool:
    """Whether time or another caller may let the claim succeed.

    A claim with `until_done` does not wait for jobs that are not enqueued yet, and a session with a task does not wait
    for itself.
    """
    if not isinstance(reply, ClaimReply) or reply.status not in {"held", "delayed", "empty"}:
        return False
    if reply.status == "held" and isinstance(command, ClaimTask) and command.lease_id is not None:
        return False
    return not (reply.all_done and isinstance(command, ClaimNext) and command.until_done)
