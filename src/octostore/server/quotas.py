"""A limit that is expensive to check, and so high that checking a sample is enough."""

from octostore.core.commands import AnyCommand, ClaimJob, ClaimNext
from octostore.core.replies import ClaimReply

CHECKS_PER_LIMIT = 100


class SampledLimit:
    """Decides which claims the store must check against the limit.

    Once a checked claim was granted, the next few go unchecked: so few that the limit can be exceeded by at most 1%,
    however many claims arrive at once.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spacing = limit // CHECKS_PER_LIMIT
        self._unchecked_left: dict[str, int] = {}
        """How many more claims each principal may make unchecked."""

    def limit_for_next(self, principal: str) -> int | None:
        """The limit to check the next claim against; None if it goes unchecked."""
        left = self._unchecked_left.get(principal, 0)
        if not left:
            return self.limit
        self._unchecked_left[principal] = left - 1
        return None

    def on_reply(self, command: AnyCommand, reply: ClaimReply) -> None:
        if not isinstance(command, (ClaimJob, ClaimNext)):
            return  # locks have their own limit, and tasks are always checked
        is_new = reply.status == "claimed" and not reply.replayed
        if command.max_claims is None:
            left = self._unchecked_left.get(command.principal)
            if left is not None and left < self._spacing and not is_new:
                self._unchecked_left[command.principal] = left + 1
        elif is_new:
            self._unchecked_left[command.principal] = self._spacing

    def on_refused(self, principal: str) -> None:
        self._unchecked_left.pop(principal, None)
