"""The permits of tokens: what was let in with a token is not carried out once the token is over."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from octostore.core.permit import Permit
from octostore.core.replies import TokenView
from octostore.stores.clock import boottime


class Permits:
    def __init__(self) -> None:
        self._permits: WeakValueDictionary[str, Permit] = WeakValueDictionary()
        """By the ids of tokens, for as long as somebody is known by one or something is under way."""

    def of(self, token: TokenView) -> Permit:
        permit = self._at(token.token_id)
        if token.expires_at is not None:
            permit.ends_at = min(permit.ends_at, boottime() + token.expires_at.timestamp() - time.time())
        return permit

    def revoke(self, token_id: str) -> None:
        self._at(token_id).revoke()

    @contextmanager
    def ending(self, token_id: str) -> Iterator[None]:
        """While a token is revoked, or gets another secret: nothing is done on its behalf from now on.

        That is before it is committed, so nothing that waits for its turn can come after it.
        """
        permit = self._at(token_id)
        ends_at = permit.ends_at
        permit.revoke()
        try:
            yield
        except BaseException:
            permit.ends_at = ends_at
            raise
        self._permits.pop(token_id, None)  # another secret has another one

    def _at(self, token_id: str) -> Permit:
        return self._permits.setdefault(token_id, Permit())
