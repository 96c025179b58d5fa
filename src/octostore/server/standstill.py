"""Detects that the process stood still, and so how old a request may be when it is read."""

import asyncio
import re

from octostore.core.errors import InvalidInput
from octostore.server.http import Request
from octostore.stores.clock import boottime
from octostore.wire.deadline import DEADLINE_HEADER, DEADLINE_MAX_MS

CHECK_SECONDS = 0.25
STANDSTILL_SECONDS = 3 * CHECK_SECONDS
"""A busy loop may check a little late. Only longer gaps count."""
CATCH_UP_SECONDS = 2.0
"""How long after a standstill the server may still read requests that arrived during it."""
_HEADER = DEADLINE_HEADER.lower().encode()
_MILLISECONDS = re.compile("[1-9][0-9]{0,8}")


class StandstillDetector:
    """After a standstill (stopped, swapped out, suspended), old requests look like new ones.

    Nobody can tell how long a request waited in its socket. So every request read after a standstill counts as having
    arrived when the standstill began. If that is wrong, the client sends the request again.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._checked_at = boottime()
        self._stood_still_at = 0.0
        self._caught_up_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Call once; it reschedules itself."""
        now = boottime()
        if now - self._checked_at > STANDSTILL_SECONDS:
            self._stood_still_at, self._caught_up_at = self._checked_at, now + CATCH_UP_SECONDS
        self._checked_at = now
        self._timer = self._loop.call_later(CHECK_SECONDS, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def deadline_of(self, request: Request) -> float | None:
        """When its caller stops waiting, by `boottime`; None if it did not say."""
        header = request.headers.get(_HEADER)
        if header is None:
            return None
        text = header.decode("latin-1")
        if not _MILLISECONDS.fullmatch(text) or int(text) > DEADLINE_MAX_MS:
            raise InvalidInput(DEADLINE_HEADER, f"must be a whole number of milliseconds, 1 to {DEADLINE_MAX_MS:,}")
        return self._received_at() + int(text) / 1_000

    def _received_at(self) -> float:
        """The earliest time at which a request that is read now can have arrived."""
        now = boottime()
        if now - self._checked_at > STANDSTILL_SECONDS:
            return self._checked_at
        return self._stood_still_at if now < self._caught_up_at else now
