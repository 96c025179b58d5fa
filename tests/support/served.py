"""A server in a thread, for a store of the test: the real application, protocol and sockets."""

import asyncio
import socket
import threading
from concurrent.futures import Future
from pathlib import Path

from octostore.cli.commands.serve import _load_tools
from octostore.client.http.server_url import ServerUrl
from octostore.server.app import App
from octostore.server.connections import Connections
from octostore.server.metrics import Metrics
from octostore.server.services import Services
from octostore.server.settings import Settings
from octostore.stores.store import LocalStore
from octostore.wire.token_files import write_token_file
from octostore.wire.tokens import new_token


class ServedStore:
    """Closes the store when stopped. Runs nothing in the background."""

    def __init__(self, store: LocalStore, folder: Path) -> None:
        self.token = new_token()
        tokens = folder / "tokens"
        write_token_file(tokens, f"admin read,claim,admin {self.token}")
        self._settings = Settings(requests_per_second=100_000, tokens_file=tokens, sweep_seconds=3_600)
        self._store = store
        self._folder = folder
        self._ready: Future[int] = Future()
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._services: Services
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self.place = ServerUrl(is_secure=False, host="127.0.0.1", port=self._ready.result(30), base_path="")

    @property
    def url(self) -> str:
        return f"http://{self.place.host}:{self.place.port}"

    @property
    def waiting(self) -> int:
        """The number of waiting claims."""
        return self._services.waiting.waiting

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        services = self._services = Services(self._settings, self._store, Metrics(), self._folder, _load_tools)
        await services.start()
        connections = Connections(self._settings, App(services).handle_request)
        connections.tick()
        listener = socket.create_server(("127.0.0.1", 0))
        server = await self._loop.create_server(connections.accept, sock=listener)
        self._ready.set_result(listener.getsockname()[1])
        await self._stop.wait()
        server.close()
        services.stop()
        for connection in list(connections.open):
            connection.abort()
        await connections.end()
        await services.close()
