"""During a run, OctoStore's modules use simulated threads, clocks, randomness and networking."""

import concurrent.futures
import gc
import logging
import queue
import random
import secrets
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import aiohttp

import octostore.client.async_work
import octostore.client.heartbeater
import octostore.client.hold
import octostore.client.http.async_port
import octostore.client.http.connection
import octostore.client.http.connections
import octostore.client.threads
import octostore.client.work
import octostore.server.app
import octostore.server.standstill
import octostore.stores.ids
import octostore.stores.memory
import octostore.stores.wakeups
from octostore.client.heartbeater import Heartbeater, _HeartbeatThread
from octostore.client.lateness import Lateness, own_lateness
from octostore.stores.owners import Owners
from tests.simulation import primitives
from tests.simulation.primitives import Here
from tests.simulation.scheduler import Scheduler

PARTS = ("octostore.stores", "octostore.client", "octostore.server", "octostore.wire")
WALL_AT_START = 1_800_000_000.0
WORK_WAIT_SECONDS = 20.0
"""How long a worker waits for a job at a time. The real value, a second, would make for many idle calls."""


class WallClock:
    """The machine's clock, which can be set, unlike the monotonic one."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.ahead = 0.0

    def now(self) -> float:
        return WALL_AT_START + self._scheduler.now + self.ahead


class _Time(SimpleNamespace):
    def __init__(self, scheduler: Scheduler, wall_clock: WallClock) -> None:
        super().__init__(
            monotonic=scheduler.counted,
            perf_counter=scheduler.counted,
            clock_gettime=lambda _clock: scheduler.counted(),
            time=wall_clock.now,
            time_ns=lambda: int(wall_clock.now() * 1_000) * 1_000_000,
            sleep=scheduler.sleep,
            CLOCK_MONOTONIC=time.CLOCK_MONOTONIC,
        )


class _Threading(ModuleType):
    Lock = primitives.Lock
    RLock = primitives.RLock
    Condition = primitives.Condition
    Event = primitives.Event
    Thread = primitives.Thread
    current_thread = staticmethod(primitives.current_thread)
    main_thread = staticmethod(threading.main_thread)
    get_ident = staticmethod(threading.get_ident)


class _Secrets(SimpleNamespace):
    def __init__(self, chance: random.Random) -> None:
        super().__init__(
            token_bytes=chance.randbytes,
            token_hex=lambda count: chance.randbytes(count).hex(),
            token_urlsafe=lambda count: chance.randbytes(count).hex(),
        )


class _Ids:
    """`octostore.stores.ids._Chance`, seeded."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def draw(self) -> str:
        return self._chance.randbytes(octostore.stores.ids.ID_DIGITS // 2).hex()


class _HeartbeatThreads:
    """One heartbeat thread for each simulated process."""

    def schedule(self, heartbeater: Heartbeater, due_at: float) -> None:
        own = Here.scheduler.process.own
        if "heartbeats" not in own:
            own["heartbeats"] = _HeartbeatThread()
        own["heartbeats"].schedule(heartbeater, due_at)


class _OwnersPerProcess:
    """`octostore.stores.owners.owners` for each simulated process."""

    def __getattr__(self, name: str) -> Any:
        return getattr(Here.scheduler.process.own.setdefault("owners", Owners()), name)


def _lateness_per_process(method: str) -> Callable[..., Any]:
    """A method of `octostore.client.lateness.own_lateness` for each simulated process."""

    def call(*given: Any) -> Any:
        own = Here.scheduler.process.own.setdefault("lateness", Lateness())
        return getattr(own, method)(*given)

    return call


class _PoolsPerProcess:
    """`octostore.client.threads._pools` for each simulated process."""

    def _pools(self) -> list[Any]:
        pools: list[Any] = Here.scheduler.process.own.setdefault("pools", [])
        return pools

    def __len__(self) -> int:
        return len(self._pools())

    def append(self, pool: Any) -> None:
        self._pools().append(pool)

    def __getitem__(self, index: int) -> Any:
        return self._pools()[index]


class _FailOnError(logging.Handler):
    """An error that the library logs fails the run."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(logging.ERROR)
        self._scheduler = scheduler

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._scheduler.fail(error or AssertionError(record.getMessage()))


@contextmanager
def simulated(
    scheduler: Scheduler, wall_clock: WallClock, seed: int, connection: Callable[..., Any], session: Callable[..., Any]
) -> Iterator[None]:
    """`connection` and `session` replace the clients' sockets and aiohttp sessions."""
    chance = random.Random(f"{seed} library")
    instead: dict[int, Any] = {
        id(time): _Time(scheduler, wall_clock),
        id(random): chance,
        id(threading): _Threading("threading"),
        id(secrets): _Secrets(chance),
        id(queue.SimpleQueue): primitives.SimpleQueue,
        id(threading.Thread): primitives.Thread,
        id(concurrent.futures.Future): primitives.Future,
        id(concurrent.futures.ThreadPoolExecutor): primitives.ThreadPoolExecutor,
        id(concurrent.futures.wait): primitives.wait,
    }
    Here.scheduler = scheduler
    with ExitStack() as stack:
        stack.callback(_wake, octostore.client.heartbeater._heartbeat_thread)
        for module in [module for name, module in sys.modules.items() if name.startswith(PARTS)]:
            changed = {name: instead[id(value)] for name, value in vars(module).items() if id(value) in instead}
            if changed:
                stack.enter_context(mock.patch.multiple(module, **changed))
        for target, changes in _special(chance, connection, session):
            stack.enter_context(mock.patch.multiple(target, **changes))
        stack.enter_context(_quiet(scheduler))
        stack.enter_context(_without_collector())
        yield


def _wake(thread: octostore.client.heartbeater._HeartbeatThread) -> None:
    """The real thread for heartbeats has seen the virtual clock, and may now wait for hours."""
    with thread._news:
        thread._news.notify_all()


def _special(
    chance: random.Random, connection: Callable[..., Any], session: Callable[..., Any]
) -> list[tuple[Any, dict[str, Any]]]:
    never_readable = SimpleNamespace(register=lambda *_: None, poll=lambda _timeout: [])
    return [
        (octostore.stores.ids, {"_chance": _Ids(chance)}),
        # Virtual timers are never late, so checking for that can be rare.
        (octostore.client.heartbeater, {"_heartbeat_thread": _HeartbeatThreads(), "TICK_SECONDS": 3_600.0}),
        (own_lateness, {method: _lateness_per_process(method) for method in ("note", "worst", "is_known", "measure")}),
        (octostore.client.hold, {"owners": _OwnersPerProcess()}),
        (octostore.stores.wakeups, {"owners": _OwnersPerProcess()}),
        (octostore.client.threads, {"_pools": _PoolsPerProcess()}),
        (octostore.client.work, {"WAIT_SECONDS": WORK_WAIT_SECONDS}),
        (octostore.client.async_work, {"WAIT_SECONDS": WORK_WAIT_SECONDS}),
        (
            octostore.client.http.connections,
            {"socket": SimpleNamespace(create_connection=connection, SHUT_RDWR=socket.SHUT_RDWR)},
        ),
        (
            octostore.client.http.connection,
            {"select": SimpleNamespace(poll=lambda: never_readable, POLLIN=select.POLLIN)},
        ),
        # Checked less often, because this is most of what an idle hour costs.
        (octostore.server.standstill, {"CHECK_SECONDS": 4.0, "STANDSTILL_SECONDS": 10.0}),
        (octostore.client.http.async_port, {"aiohttp": _Aiohttp(session)}),
    ]


class _Aiohttp(ModuleType):
    def __init__(self, session: Callable[..., Any]) -> None:
        super().__init__("aiohttp")
        self.ClientSession = session
        self.TCPConnector = lambda **_options: None

    def __getattr__(self, name: str) -> Any:
        return getattr(aiohttp, name)


@contextmanager
def _quiet(scheduler: Scheduler) -> Iterator[None]:
    log = logging.getLogger("octostore")
    handler, level, propagate = _FailOnError(scheduler), log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.ERROR)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


@contextmanager
def _without_collector() -> Iterator[None]:
    """Garbage of dead processes must not be collected during a run, at unpredictable moments."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.collect()  # before the next run, which collects nothing either
