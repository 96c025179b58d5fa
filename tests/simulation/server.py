"""A server: a process with an event loop, the real connections and application, and a writer for the shared store."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from octostore.core.errors import Unreachable
from octostore.server.app import App
from octostore.server.connections import Connections
from octostore.server.metrics import Metrics
from octostore.server.services import Services
from octostore.server.settings import Settings
from octostore.stores.base import Backend
from octostore.stores.clock import SystemClock
from octostore.stores.store import LocalStore
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Exchange, Network
from tests.simulation.scheduler import Process, Scheduler

SWEEP_SECONDS = 15.0
RESTART_SECONDS = 1.0
BOOT_ID = "this machine"


def local_store(process: Process, open_backend: Callable[[], Backend]) -> LocalStore:
    store = LocalStore(open_backend, clock=SystemClock(boot_id=BOOT_ID), place=process.name)
    if store._finalizer is not None:
        # A killed process closes nothing, and the interpreter must not close it at a random moment.
        store._finalizer.detach()
    return store


class Server:
    """Calls `open_backend` at each start."""

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        network: Network,
        open_backend: Callable[[Process], Backend],
        folder: Path,
    ) -> None:
        self.name = name
        self.process = Process(name)
        self.loop: SimulatedLoop
        self.loops: list[SimulatedLoop] = []
        self.is_open = False
        self.started_at = 0.0
        self.exchanges: dict[Exchange, None] = {}
        self.paused_until = 0.0
        self._scheduler = scheduler
        self._network = network
        self._open_backend = open_backend
        self._folder = folder
        self._connections: Connections | None = None
        self._stopping: asyncio.Event

    def start(self) -> None:
        self.process = process = Process(self.name)
        self.loop = loop = SimulatedLoop(self._scheduler)
        self.loops.append(loop)
        self.started_at = self._scheduler.now
        process.at_death.append(self._die)
        self._scheduler.spawn(process, self.name, lambda: loop.run_process(self._serve(process)))

    def stop(self) -> None:
        """Stop as after SIGTERM: waiting and running requests get their responses."""
        self.is_open = False
        self.loop.call_soon_threadsafe(self._stopping.set)

    def deliver(self, exchange: Exchange) -> None:
        if not self.is_open:
            self._network.server_died(exchange)
            return
        self.exchanges[exchange] = None
        self.loop.call_soon_threadsafe(self._accept, exchange)

    def notice_cut(self, exchange: Exchange) -> None:
        if exchange in self.exchanges:
            self.loop.call_soon_threadsafe(exchange.close)

    def _accept(self, exchange: Exchange) -> None:
        exchange.arrived_at = self._scheduler.now
        if self._network.observer is not None:
            self._network.observer.arrived(exchange)
        assert self._connections is not None
        exchange.open(self._connections.accept())

    async def _serve(self, process: Process) -> None:
        self._stopping = asyncio.Event()
        settings = Settings(
            requests_per_second=100_000,
            tokens_file=self._folder / "tokens",
            sweep_seconds=SWEEP_SECONDS,
            keepalive_seconds=300,
        )
        services = await self._start(settings, process)
        self._connections = Connections(settings, App(services).handle_request)
        self.is_open = True
        await self._stopping.wait()
        services.stop()
        await self._connections.end()
        await services.close()
        self._scheduler.kill(process)  # including what failed starts left behind

    async def _start(self, settings: Settings, process: Process) -> Services:
        """Retry while the store cannot be reached, as a supervisor would."""
        while True:
            try:
                store = local_store(process, lambda: self._open_backend(process))
                services = Services(settings, store, Metrics(), self._folder)
                await services.start()
            except Unreachable:
                await asyncio.sleep(RESTART_SECONDS)
            else:
                return services

    def _die(self) -> None:
        self.is_open = False
        for exchange in self.exchanges:
            self._network.server_died(exchange)
        self.exchanges.clear()
