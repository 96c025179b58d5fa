"""A fence in the memory of one process."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from octostore.core.errors import InvalidInput
from octostore.fencing.errors import StaleToken, check_token

MAX_KEYS_DEFAULT = 100_000


class FenceGuard:
    """Refuse tokens older than the newest one seen for the same key. Safe to use from many threads.

    For a resource that lives in one process and has one guard: a cache, a device, a file that only one server writes.
    A guard starts empty, so a resource that outlives the process must keep its own fence (see `fenced_update`).

    The guard remembers at most `max_keys` keys, and forgets the least recently used one first. An unknown key then
    counts as seen with the highest token ever forgotten, so forgetting never lets a stale token pass. However, the live
    owner of an unknown key is also refused if its token is lower. The tokens of all keys should therefore come from one
    store.

    Args:
        max_keys: How many keys to remember.

    Raises:
        InvalidInput: `max_keys` is below 1.

    Example:
        >>> guard = octostore.fencing.FenceGuard()
        >>> guard.check("cache", 7)
        >>> guard.check("cache", 6)
        Traceback (most recent call last):
        octostore.fencing.errors.StaleToken: fencing token 6 is stale: 7 has been seen ('cache')
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
        """Accept and remember a token, unless a higher one was seen. The same token is accepted again.

        A newer claim can still write between this check and your write; `entering` prevents that.

        Args:
            key: What you are about to write.
            token: The fencing token of your claim.

        Raises:
            StaleToken: A higher token was seen for this key.
            InvalidInput: `token` cannot be a fencing token.

        Example:
            >>> guard = octostore.fencing.FenceGuard()
            >>> with store.hold("rebuild-cache") as claim:
            ...     guard.check("cache", claim.fencing_token)
        """
        with self.entering(key, token):
            pass

    @contextmanager
    def entering(self, key: Hashable, token: int) -> Iterator[None]:
        """Check a token and run the block as one step: no one else can enter with this key until the block ends.

        A newer claim waits for the block of an older one, however long that takes. The token counts as seen even if the
        block raises. A thread can enter the same key again inside the block. Tasks of one event loop share a thread, so
        do not `await` inside the block.

        Args:
            key: What you are about to write.
            token: The fencing token of your claim.

        Returns:
            A context manager.

        Raises:
            StaleToken: A higher token was seen for this key.
            InvalidInput: `token` cannot be a fencing token.

        Example:
            >>> guard, cache = octostore.fencing.FenceGuard(), {}
            >>> with store.hold("rebuild-cache") as claim, guard.entering("cache", claim.fencing_token):
            ...     cache["built"] = True
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
    """The lock of a key, while a thread holds it or waits for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0
