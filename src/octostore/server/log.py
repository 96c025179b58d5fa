"""The server's log: what happened, with what there is to know about it; of what strangers can cause, throttled."""

import logging
import time
from collections.abc import Callable
from typing import TypeAlias

log = logging.getLogger("octostore.server")

MINUTE_SECONDS = 60.0
MAX_SOURCES = 1_000
"""How many of those who cause something are told apart in one minute."""

Field: TypeAlias = str | float | None


def log_event(level: int, event: str, message: str, **fields: Field) -> None:
    """`event` is a stable word, for machines. What is None is left out; nothing may be a secret."""
    known = {name: value for name, value in fields.items() if value is not None}
    log.log(level, message, extra={"event": event, "fields": known})


class ThrottledLog:
    """Logs the first of each kind in each minute, and counts the others. `kind` is a fixed word, not a client's.

    Those who cause it are told apart by `who`, so that one of them does not hide the others.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str], _Throttle] = {}

    def warning(self, kind: str, message: str, *args: object, who: str = "", **fields: Field) -> None:
        now = self._clock()
        said = self._said.get((kind, who)) or self._begin(kind, who, now)
        if now < said.silent_until:
            said.suppressed += 1
            return
        said.silent_until = now + MINUTE_SECONDS
        more = f" ({said.suppressed:,} more since the last line of this kind)" if said.suppressed else ""
        said.suppressed = 0
        log_event(logging.WARNING, kind, f"{message % args if args else message}{more}", **fields)

    def _begin(self, kind: str, who: str, now: float) -> "_Throttle":
        """Beyond a limit, all who are left are one."""
        if who and len(self._said) >= MAX_SOURCES:
            self._said = {key: said for key, said in self._said.items() if said.silent_until > now}
            if len(self._said) >= MAX_SOURCES:
                return self._said.get((kind, "")) or self._begin(kind, "", now)
        said = self._said[kind, who] = _Throttle()
        return said


class _Throttle:
    __slots__ = ("silent_until", "suppressed")

    def __init__(self) -> None:
        self.silent_until = 0.0
        self.suppressed = 0


throttled = ThrottledLog()
"""For all of the process."""
