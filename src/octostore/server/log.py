"""The server's log. Lines that anyone can trigger from outside are throttled."""

import logging
import time
from collections.abc import Callable
from typing import TypeAlias

log = logging.getLogger("octostore.server")

MINUTE_SECONDS = 60.0
MAX_SOURCES = 1_000
"""How many sources, of all kinds together, are throttled separately. This also limits the lines logged per minute."""

Field: TypeAlias = str | float | None


def log_event(level: int, event: str, message: str, **fields: Field) -> None:
    """`event` is a stable word, for machines. Fields that are None are left out; no field may be a secret."""
    present = {name: value for name, value in fields.items() if value is not None}
    log.log(level, message, extra={"event": event, "fields": present})


class ThrottledLog:
    """Logs one line per kind and minute, and counts the others. `kind` must not come from a client.

    Each `source`, a token or an address, is throttled separately, so that one cannot hide the others. A line about the
    whole server has none.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._throttles: dict[tuple[str, str], _Throttle] = {}

    def warning(self, kind: str, message: str, *args: object, source: str = "", **fields: Field) -> None:
        now = self._clock()
        throttle = self._throttles.get((kind, source)) or self._add(kind, source, now)
        if now < throttle.silent_until:
            throttle.suppressed += 1
            return
        throttle.silent_until = now + MINUTE_SECONDS
        more = f" ({throttle.suppressed:,} more since the last line of this kind)" if throttle.suppressed else ""
        throttle.suppressed = 0
        log_event(logging.WARNING, kind, f"{message % args if args else message}{more}", **fields)

    def _add(self, kind: str, source: str, now: float) -> "_Throttle":
        """Beyond the limit, all other sources share one throttle."""
        if source and len(self._throttles) >= MAX_SOURCES:
            self._throttles = {key: one for key, one in self._throttles.items() if one.silent_until > now}
            if len(self._throttles) >= MAX_SOURCES:
                return self._throttles.get((kind, "")) or self._add(kind, "", now)
        throttle = self._throttles[kind, source] = _Throttle()
        return throttle


class _Throttle:
    __slots__ = ("silent_until", "suppressed")

    def __init__(self) -> None:
        self.silent_until = 0.0
        self.suppressed = 0


throttled = ThrottledLog()
"""Shared by the whole process."""
