"""By what right a command is carried out, where that can end before the command's turn has come."""

import math

from octostore.core.errors import NotAllowed


class Permit:
    """Shared by all commands that were let in with one token, which expires, or is revoked, at `ends_at`.

    On the clock of the process that runs them (`boottime`).
    """

    __slots__ = ("__weakref__", "ends_at")

    def __init__(self, ends_at: float = math.inf) -> None:
        self.ends_at = ends_at

    def revoke(self) -> None:
        self.ends_at = -math.inf

    def __repr__(self) -> str:
        return f"until {self.ends_at}"


class TokenOver(NotAllowed):
    """The token with which this was asked was valid then, and is not any more."""

    code = "authentication_failed"

    def __init__(self) -> None:
        super().__init__("this token is not valid any more")
