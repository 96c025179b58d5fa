"""Handles: how an agent names a claim or session to whichever server it calls. The lease stays in the store.

`NAME~MARK~SEAL`. The mark identifies this claim or session among all with that name: for a claim, its fencing token.
The seal proves that a server on this store issued the handle to this principal, so nobody can forge one, and a stolen
one does not work for another principal.
"""

from hmac import compare_digest
from typing import NamedTuple

from octostore.core.errors import InvalidInput, NotAllowed
from octostore.core.limits import JSON_INTEGER_MAX
from octostore.server.calls import Call

BETWEEN = "~"
"""Not allowed in names."""


class Handle(NamedTuple):
    name: str
    mark: str
    seal: str

    def __str__(self) -> str:
        return BETWEEN.join(self)

    @property
    def fencing_token(self) -> int:
        """For a claim."""
        is_number = self.mark.isascii() and self.mark.isdecimal() and len(self.mark) <= len(str(JSON_INTEGER_MAX))
        if not is_number or not 0 < int(self.mark) <= JSON_INTEGER_MAX:
            raise _unreadable(str(self))
        return int(self.mark)


class Seals:
    """For the principal behind a request. `kind` separates claims from sessions."""

    def __init__(self, call: Call, kind: str) -> None:
        self._call = call
        self._kind = kind

    def give(self, name: str, mark: str) -> Handle:
        return Handle(name, mark, self._call.services.seal("handle", self._kind, self._call.principal.name, name, mark))

    def check(self, text: str) -> Handle:
        """Raises `NotAllowed` for a handle that was issued to someone else, or to nobody."""
        parts = text.split(BETWEEN)
        if len(parts) != len(Handle._fields):
            raise _unreadable(text)
        handle = Handle(*parts)
        if not compare_digest(self.give(handle.name, handle.mark).seal.encode(), handle.seal.encode()):
            whose = f"this handle of the {self._kind} {handle.name!r}"
            raise NotAllowed(f"{whose} was not issued to the principal of this token")
        return handle


def _unreadable(text: str) -> InvalidInput:
    problem = f"{text!r} is not a handle: pass the whole one from the reply to your claim or open_session"
    return InvalidInput("handle", problem)
