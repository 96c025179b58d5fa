"""A limit that takes time to check, and is so high that it need not be checked each time."""

from octostore.core.commands import AnyCommand, ClaimJob, ClaimNext
from octostore.core.replies import ClaimReply

CHECKS_PER_LIMIT = 100


class SampledLimit:
    """Says which claims carry the limit: each, until one that did was granted. Then a few more need not.

    Those are so few that the limit can be exceeded by 1 %, however many are asked for at once.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spacing = limit // CHECKS_PER_LIMIT
        self._left: dict[str, int] = {}
        """How many more of a principal's need not be checked."""

    def next(self, principal: str) -> int | None:
        left = self._left.get(principal, 0)
        if not left:
            return self.limit
        self._left[principal] = left - 1
        return None

    def hear(self, command: AnyCommand, reply: ClaimReply) -> None:
        """What came of a claim."""
        if not isinstance(command, (ClaimJob, ClaimNext)):
            return  # a lock is counted by itself, and a task carries the limit each time
        is_new = reply.status == "claimed" and not reply.replayed
        if command.max_claims is None:
            left = self._left.get(command.principal)
            if left is not None and left < self._spacing and not is_new:
                self._left[command.principal] = left + 1
        elif is_new:
            self._left[command.principal] = self._spacing

    def refused(self, principal: str) -> None:
        self._left.pop(principal, None)
