"""Numbers for the writes under a lease, because over a network the older of two may arrive last."""

import threading
import time
from collections import OrderedDict
from typing import Any, TypeAlias

import msgspec

from octostore.core.commands import CheckpointJob, HeartbeatJob, SaveSession
from octostore.stores.ids import new_request_id

LEASES_KEPT = 10_000
WRITERS = 2**20
"""Each number is a count, and who counts. Seconds since 1970, where counting begins, leave room for so many."""

_Numbered: TypeAlias = CheckpointJob | HeartbeatJob | SaveSession
_Key: TypeAlias = tuple[type[_Numbered], str]


class Numbers:
    """The last number that this process gave, by kind of write and lease."""

    def __init__(self) -> None:
        self._given: OrderedDict[_Key, int] = OrderedDict()
        self._lock = threading.Lock()
        self._writer = int(new_request_id(), 16) % WRITERS

    def number(self, asked: Any) -> Any:
        """`asked` with its number, if it is a write that must not come late."""
        if not isinstance(asked, _Numbered) or asked.number is not None or asked.lease_id is None:
            return asked
        if isinstance(asked, HeartbeatJob) and (asked.ttl, asked.note, asked.percent) == (None, None, None):
            return asked  # it only says that somebody is alive
        return self._next(asked)

    def overtaken(self, asked: Any, reply: Any) -> Any | None:
        """`asked` with another number, if it was taken for older than a write that is not of this process.

        It may have got the lease from another one. Where the newer write is its own, the older has no more to say.
        """
        newest = getattr(reply, "number", None)
        if not isinstance(asked, _Numbered) or asked.number is None or newest is None or newest <= asked.number:
            return None
        with self._lock:
            if newest <= self._given.get(_key(asked), 0):
                return None
            self._given[_key(asked)] = newest
        return self._next(asked)

    def _next(self, asked: _Numbered) -> _Numbered:
        key = _key(asked)
        with self._lock:
            last = self._given.pop(key) if key in self._given else int(time.time()) * WRITERS
            # Never the number of another writer with the same lease: it would be taken for a repeat of that one's
            # write, and acknowledged without being saved. And the later a writer begins, the higher its numbers.
            self._given[key] = number = (last // WRITERS + 1) * WRITERS + self._writer
            while len(self._given) > LEASES_KEPT:
                self._given.popitem(last=False)
        return msgspec.structs.replace(asked, number=number)


def _key(asked: _Numbered) -> _Key:
    return type(asked), asked.lease_id or ""
