"""A fence in the memory of one process."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from octostore.core.errors import InvalidInput
from octostore.fencing.errors import StaleToken, check_token

MAX_KEYS_DEFAULT = 100_000


class FenceGuard:
    """Refuses tokens older than the newest one seen for the same key. Safe to use from many threads.

    For a resource that lives in one process and has one guard: a cache, a device, a file that only a server writes. It
    starts with no memory, so what outlives the process has to keep its own fence (see `fenced_update`).

    Tokens of different keys should come from one store, where each is higher than all before it, because the guard
    remembers at most `max_keys` keys, and forgets the one that was unused for longest. A key that it does not remember
    counts as last seen with the highest token ever forgotten. So a stale token is refused however much was forgotten.
    The price: the live owner of such a key is refused, too, if its claim is older than one that was forgotten.
    """

    def __init__(self, max_keys: int = MAX_KEYS_DEFAULT) -> None:
        if max_keys < 1:
            raise InvalidInput("max_keys", f"is {max_keys:,}; it must be at least 1", limit=1, size=max_keys)
        self._max_keys = max_keys
        self._lock = threading.Lock()
        self._doors: dict[Hashable, _Door] = {}
        self._newest: OrderedDict[Hashable, int] = OrderedDict()
        self._newest_forgotten = 0

    def check(self, key: Hashable, token: int) -> None:
        """Remember `token`, or raise `StaleToken` if a higher one was seen for `key`. The same one passes again.

        What is written after this can be overtaken by a newer claim in between; `entering` cannot.
        """
        with self.entering(key, token):
            pass

    @contextmanager
    def entering(self, key: Hashable, token: int) -> Iterator[None]:
        """`check`, and the block, as one step: nobody else gets past this key until the block ends.

        A newer claim waits for the block of an older one, however long that takes. The token stays seen when the block
        raises. A thread can enter a key again while it is inside. Tasks of one event loop share a thread, so do not
        `await` in the block.
        """
        check_token(token)
        with self._alone_at(key):
            self._see(key, token)
            yield

    @contextmanager
    def _alone_at(self, key: Hashable) -> Iterator[None]:
        with self._lock:
            door = self._doors.setdefault(key, _Door())
            door.users += 1
        try:
            with door.lock:
                yield
        finally:
            with self._lock:
                door.users -= 1
                if door.users == 0:
                    del self._doors[key]

    def _see(self, key: Hashable, token: int) -> None:
        with self._lock:
            current = self._newest.get(key, self._newest_forgotten)
            if token < current:
                raise StaleToken(key, token, current)
            self._newest[key] = token
            self._newest.move_to_end(key)
            if len(self._newest) > self._max_keys:
                _, forgotten = self._newest.popitem(last=False)
                self._newest_forgotten = max(self._newest_forgotten, forgotten)


class _Door:
    """The lock of a key, for as long as a thread holds it or waits for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0
