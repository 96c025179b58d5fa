"""Learn of other processes' commits: LISTEN on a dedicated connection, which reconnects when it breaks."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from octostore.stores.pausing import jittered
from octostore.stores.postgres.connection import DatabaseAddress, connect, disown, is_direct

HEARTBEAT_SECONDS = 5.0
"""How long to wait for notifications at a time; in between, the connection is tested."""
TIMEOUT_SECONDS = 5.0
"""How long testing the connection may take: the test waits for no locks."""
RETRY_SECONDS = 0.5


class Listener:
    """Calls `ring` after every commit that added events, and after every reconnect, since some may have been missed.

    Behind a pooler it does nothing, and waiters poll: LISTEN would stay with a server connection that is handed to
    another client next.
    """

    def __init__(self, address: DatabaseAddress, ring: Callable[[], None]) -> None:
        self.is_connected = False
        self._is_pooled = False
        self._address = address
        self._ring = ring
        self._connection: psycopg.Connection[Any] | None = None
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="octostore-listener", daemon=True)
        self._thread.start()

    def close(self, *, is_ours: bool) -> None:
        self._is_closed.set()
        connection = self._connection
        if connection is None:
            return
        if is_ours:
            with suppress(psycopg.Error, OSError):
                connection.cancel_safe(timeout=1.0)
            connection.close()
        else:
            disown(connection)

    def _listen(self) -> None:
        while not self._is_closed.is_set() and not self._is_pooled:
            with suppress(psycopg.Error):
                self._listen_until_it_breaks()
            self.is_connected = False
            self._is_closed.wait(jittered(RETRY_SECONDS))

    def _listen_until_it_breaks(self) -> None:
        with connect(self._address.listen_url) as connection:
            self._connection = connection
            connection.timeout_seconds = TIMEOUT_SECONDS
            self._is_pooled = not is_direct(connection)
            if self._is_pooled:
                return
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._address.schema)))
            self.is_connected = True
            self._ring()
            while not self._is_closed.is_set():
                for _ in connection.notifies(timeout=HEARTBEAT_SECONDS, stop_after=1):
                    self._ring()
                connection.execute("SELECT")
