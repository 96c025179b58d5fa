"""Logs when the store becomes unreachable, and when it is back: one line each."""

import logging
import time

from octostore.core.errors import OctoStoreError
from octostore.server.log import log_event


class Outage:
    def __init__(self) -> None:
        self._began_at: float | None = None

    @property
    def is_ongoing(self) -> bool:
        return self._began_at is not None

    def begin(self, fault: OctoStoreError) -> None:
        """Does nothing if an outage is ongoing."""
        if self._began_at is None:
            self._began_at = time.monotonic()
            log_event(logging.WARNING, "store_lost", str(fault), reason=getattr(fault, "reason", fault.code))

    def end(self) -> None:
        """Does nothing if there was no outage."""
        if self._began_at is not None:
            seconds = round(time.monotonic() - self._began_at, 1)
            self._began_at = None
            log_event(logging.INFO, "store_back", "the store is reachable again", seconds=seconds)
