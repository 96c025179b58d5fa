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
"""A number is a count times this, plus a number for the writer. Counts start at the current Unix time."""

_Numbered: TypeAlias = CheckpointJob | HeartbeatJob | SaveSession
_Key: TypeAlias = tuple[type[_Numbered], str]


class Numbers:
    """The last number that this process used, by kind of write and lease."""

    def __init__(self) -> None:
        self._last_numbers: OrderedDict[_Key, int] = OrderedDict()
        self._lock = threading.Lock()
        self._writer = int(new_request_id(), 16) % WRITERS

    def number(self, asked: Any) -> Any:
        """Add a number to a write that must not be applied late."""
        if not isinstance(asked, _Numbered) or asked.number is not None or asked.lease_id is None:
            return asked
        if isinstance(asked, HeartbeatJob) and (asked.ttl, asked.note, asked.percent) == (None, None, None):
            return asked  # it only proves that the owner is alive
        return self._next(asked)

    def overtaken(self, asked: Any, reply: Any) -> Any | None:
        """Return the write with a higher number if another process's newer write had kept it from being applied.

        That process may have had the lease before. If the newer write is our own, the older one is obsolete.
        """
        newest = getattr(reply, "number", None)
        if not isinstance(asked, _Numbered) or asked.number is None or newest is None or newest <= asked.number:
            return None
        with self._lock:
            if newest <= self._last_numbers.get(_key(asked), 0):
                return None
            self._last_numbers[_key(asked)] = newest
        return self._next(asked)

    def _next(self, asked: _Numbered) -> _Numbered:
        key = _key(asked)
        with self._lock:
            last = self._last_numbers.pop(key) if key in self._last_numbers else int(time.time()) * WRITERS
            # Never the number of another writer with the same lease: it would count as a repeat of that write, and be
            # acknowledged without being saved. And the later a writer starts, the higher its numbers.
            self._last_numbers[key] = number = (last // WRITERS + 1) * WRITERS + self._writer
            while len(self._last_numbers) > LEASES_KEPT:
                self._last_numbers.popitem(last=False)
        return msgspec.structs.replace(asked, number=number)


def _key(asked: _Numbered) -> _Key:
    return type(asked), asked.lease_id or ""
