"""The server's log, and how to write to it about what strangers can cause: a line a minute of each kind at most."""

import logging
import time
from collections import Counter
from collections.abc import Callable

log = logging.getLogger("octostore.server")

MINUTE_SECONDS = 60.0


class Seldom:
    """Logs the first of each kind in each minute, and counts the others. `kind` is a fixed word, not a client's."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._silent_until: dict[str, float] = {}
        self._unsaid: Counter[str] = Counter()

    def warning(self, kind: str, message: str, *args: object) -> None:
        now = self._clock()
        if now < self._silent_until.get(kind, now):
            self._unsaid[kind] += 1
            return
        self._silent_until[kind] = now + MINUTE_SECONDS
        unsaid = self._unsaid.pop(kind, 0)
        more = f" ({unsaid:,} more since the last line of this kind)" if unsaid else ""
        log.warning("%s%s", message % args if args else message, more)


seldom = Seldom()
"""For all of the process."""
