"""Since when the server has surely looked at its connections, and so how old a request can be that it reads now."""

import asyncio
import re

from octostore.core.errors import InvalidInput
from octostore.server.http import Request
from octostore.stores.clock import boottime
from octostore.wire.deadline import DEADLINE_HEADER, DEADLINE_MAX_MS

CHECK_SECONDS = 0.25
STANDSTILL_SECONDS = 3 * CHECK_SECONDS
"""A busy loop may look a little late. What lasts longer than this counts."""
CATCH_UP_SECONDS = 2.0
"""For how long after a standstill requests may be read that came during it."""
_HEADER = DEADLINE_HEADER.lower().encode()
_MILLISECONDS = re.compile("[1-9][0-9]{0,8}")


class StandstillDetector:
    """A process that stands still (stopped, swapped out, suspended) reads what came meanwhile as if it were new.

    Nobody can tell how long a request lay in its socket. So whatever is read after a standstill counts as having come
    when that began. Where that is too hard on a request that has just come, its client sends it again.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last = boottime()
        self._stood_still_at = 0.0
        self._caught_up_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """To be called once; it goes on by itself."""
        now = boottime()
        if now - self._last > STANDSTILL_SECONDS:
            self._stood_still_at, self._caught_up_at = self._last, now + CATCH_UP_SECONDS
        self._last = now
        self._timer = self._loop.call_later(CHECK_SECONDS, self.look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def deadline_of(self, request: Request) -> float | None:
        """Until when its caller waits for an answer, on the clock of `boottime`; None where it does not say."""
        header = request.headers.get(_HEADER)
        if header is None:
            return None
        text = header.decode("latin-1")
        if not _MILLISECONDS.fullmatch(text) or int(text) > DEADLINE_MAX_MS:
            raise InvalidInput(DEADLINE_HEADER, f"must be a whole number of milliseconds, 1 to {DEADLINE_MAX_MS:,}")
        return self._received_at() + int(text) / 1_000

    def _received_at(self) -> float:
        """The earliest moment at which a request that is read now can have come."""
        now = boottime()
        if now - self._last > STANDSTILL_SECONDS:
            return self._last
        return self._stood_still_at if now < self._caught_up_at else now
