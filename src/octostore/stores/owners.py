"""Those in this process who hold jobs, and should hear what others do to their claims.

Being told is only a hint, to heartbeat now: whoever misses it hears of it with the next heartbeat. Nobody looks at the
log for their sake, so what other processes do is noticed here only while somebody in this one waits or follows the log
(at a server: follows the log).
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
        """Job -> whom to call. Where two stores have a job of one name, it rings for both, which does no harm."""

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

    def tell(self, entries: Iterable[LogEntry | Event]) -> None:
        if not self._rings:
            return
        for entry in entries:
            if entry.type in DONE_TO_OWNERS:
                for ring in self._rings.get(entry.job_id or "", ()):
                    ring()


owners = Owners()
# The claims of the parent are not those of a forked child.
os.register_at_fork(after_in_child=owners.__init__)  # type: ignore[misc]
