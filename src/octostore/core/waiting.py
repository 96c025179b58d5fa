"""Which answers to a claim are worth waiting on."""

from octostore.core.commands import ClaimNext
from octostore.core.replies import ClaimReply


def is_worth_waiting(command: object, reply: object) -> bool:
    """Whether time or somebody else may let the claim succeed.

    One that waits `until_done` does not wait for a job that nobody has enqueued yet.
    """
    if not isinstance(reply, ClaimReply) or reply.status not in {"held", "delayed", "empty"}:
        return False
    return not (reply.all_done and isinstance(command, ClaimNext) and command.until_done)
