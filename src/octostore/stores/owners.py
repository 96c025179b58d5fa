"""The owners in this process, who should learn quickly when others stop or cancel their claims.

A ring is only a hint to send a heartbeat now; an owner who misses it learns with its next heartbeat. Nobody reads the
log just for owners, so changes by other processes ring here only while someone in this process waits or follows the
log (on a server: follows the log).
"""

import os
import threading
from collections.abc import Callable, Iterable

from octostore.core.events import Event, LogEntry

DONE_TO_OWNERS = frozenset({"stop_requested", "force_released", "cancelled"})

Ring = Callable[[], None]


class Owners:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rings: dict[str, tuple[Ring, ...]] = {}
        """Job -> callbacks. If two stores have a job of the same name, the callbacks of both ring; this is harmless."""

    def add(self, job_id: str, ring: Ring) -> None:
        with self._lock:
            self._rings[job_id] = (*self._rings.get(job_id, ()), ring)

    def remove(self, job_id: str, ring: Ring) -> None:
        with self._lock:
            others = tuple(other for other in self._rings.get(job_id, ()) if other != ring)
            if others:
                self._rings[job_id] = others
            else:
                self._rings.pop(job_id, None)

    def notify(self, entries: Iterable[LogEntry | Event]) -> None:
        if not self._rings:
            return
        for entry in entries:
            if entry.type in DONE_TO_OWNERS:
                for ring in self._rings.get(entry.job_id or "", ()):
                    ring()


owners = Owners()
# A parent's claims do not belong to its forked child.
os.register_at_fork(after_in_child=owners.__init__)  # type: ignore[misc]
