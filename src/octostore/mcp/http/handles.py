"""Handles: how an agent names a claim or session to whichever server it calls. The lease stays in the store.

`NAME~MARK~SEAL`. The mark identifies this claim or session among all with that name: for a claim, its fencing token.
The seal proves that a server on this store issued the handle to this principal, so nobody can forge one, and a stolen
one does not work for another principal.
"""

from hmac import compare_digest
from typing import Literal, NamedTuple, TypeAlias

from octostore.core.errors import InvalidInput
from octostore.core.limits import JSON_INTEGER_MAX
from octostore.server.calls import Call

BETWEEN = "~"
"""Not allowed in names."""

Kind: TypeAlias = Literal["claim", "session"]
RETURNED_BY: dict[Kind, str] = {"claim": "the reply to your claim", "session": "open_session"}


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
            raise _not_yours(str(self), "claim")
        return int(self.mark)


class Seals:
    """For the principal behind a request. `kind` separates claims from sessions."""

    def __init__(self, call: Call, kind: Kind) -> None:
        self._call = call
        self._kind = kind

    def give(self, name: str, mark: str) -> Handle:
        return Handle(name, mark, self._seal(self._kind, name, mark))

    def check(self, text: str) -> Handle:
        """Raises `InvalidInput`: the same one for a handle issued to someone else and for one issued to nobody."""
        parts = text.split(BETWEEN)
        if len(parts) != len(Handle._fields):
            raise _not_yours(text, self._kind)
        handle = Handle(*parts)
        sealed_for = [kind for kind in RETURNED_BY if self._is_sealed(kind, handle)]
        if not sealed_for:
            raise _not_yours(text, self._kind)
        if self._kind not in sealed_for:
            raise _of_another_kind(text, sealed_for[0], self._kind)
        return handle

    def _is_sealed(self, kind: Kind, handle: Handle) -> bool:
        return compare_digest(self._seal(kind, handle.name, handle.mark).encode(), handle.seal.encode())

    def _seal(self, kind: Kind, name: str, mark: str) -> str:
        return self._call.services.seal("handle", kind, self._call.principal.name, name, mark)


def _not_yours(text: str, kind: Kind) -> InvalidInput:
    how = f"pass it exactly as {RETURNED_BY[kind]} returned it, with a token of the same principal"
    return InvalidInput("handle", f"{text!r} is not the handle of any of your {kind}s: {how}")


def _of_another_kind(text: str, kind: Kind, needed: Kind) -> InvalidInput:
    how = f"pass that of a {needed}, as {RETURNED_BY[needed]} returned it"
    return InvalidInput("handle", f"{text!r} is the handle of a {kind}: {how}")
