"""A limit that takes time to check, and is so high that it need not be checked each time."""

CHECKS_PER_LIMIT = 100


class Spaced:
    """Says which commands carry the limit: each, or if it is high one in so many that it can be exceeded by 1 %.

    As long as there is no room, each does.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._spacing = limit // CHECKS_PER_LIMIT
        self._left: dict[str, int] = {}
        """How many more of a principal's need not be checked."""

    def next(self, principal: str) -> int | None:
        left = self._left.get(principal, 0)
        self._left[principal] = left - 1 if left else self._spacing
        return None if left else self._limit

    def refused(self, principal: str) -> None:
        self._left[principal] = 0
