"""Since when the server has surely looked at its connections, and so how old a request can be that it reads now."""

import asyncio

from octostore.core.errors import InvalidInput
from octostore.server.http import Request
from octostore.stores.clock import boottime
from octostore.wire.deadline import DEADLINE_HEADER, DEADLINE_MAX_MS

LOOK_SECONDS = 0.25


class Attention:
    """A process that stands still (stopped, swapped out, suspended) reads what came meanwhile as if it were new.

    Nobody can tell how long a request lay in its socket. But it came after the last but one look at the clock: the last
    one may have been made on waking up, before the sockets were read.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last = self._last_but_one = boottime()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._last, self._last_but_one = boottime(), self._last
        self._timer = self._loop.call_later(LOOK_SECONDS, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def deadline_of(self, request: Request) -> float | None:
        """Until when its caller waits for an answer, on the clock of `boottime`; None where it does not say."""
        text = request.header(DEADLINE_HEADER.lower().encode())
        if text is None:
            return None
        if not text.isascii() or not text.isdecimal() or not 0 < int(text[:10]) <= DEADLINE_MAX_MS or len(text) > 10:  # noqa: PLR2004  # as many digits as are ever needed
            raise InvalidInput(DEADLINE_HEADER, f"must be a whole number of milliseconds, 1 to {DEADLINE_MAX_MS:,}")
        return self._last_but_one + int(text) / 1_000
