"""An event loop on virtual time: asyncio's own, but `select` waits in the scheduler."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from octostore.core.errors import OctoStoreError
from tests.simulation.scheduler import Fiber, Scheduler, WorldOver

TICK_SECONDS = 1e-6


class SimulatedLoop(asyncio.BaseEventLoop):
    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._selector = self
        self._sleeper: Fiber | None = None
        self._is_rung = False
        self.set_exception_handler(self._on_exception)

    def time(self) -> float:
        return self._scheduler.counted()

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        # Virtual time stands still while code runs, so a delay below the clock's resolution would never pass.
        return super().call_at(max(when, self.time() + TICK_SECONDS), callback, *args, context=context)

    def run_process(self, main: Coroutine[Any, Any, None]) -> None:
        """Run `main` in the calling thread. When it ends, so does the process."""
        self._thread_id = threading.get_ident()
        asyncio._set_running_loop(self)
        task = self.create_task(main)
        while not task.done():
            self._run_once()  # type: ignore[attr-defined]  # what `run_forever` is made of
        asyncio._set_running_loop(None)
        task.result()

    def select(self, timeout: float | None) -> list[Any]:
        scheduler = self._scheduler
        if timeout is not None and timeout <= 0:
            scheduler.maybe_give_way()
        elif not self._is_rung:
            self._sleeper = scheduler.current
            scheduler.block(None if timeout is None else scheduler.now + timeout)
            self._sleeper = None
        self._is_rung = False
        return []

    def abandon(self) -> None:
        """Close it with unfinished tasks in it."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine: Any = task.get_coro()
            with suppress(RuntimeError, WorldOver):  # one that awaits while it is closed
                coroutine.close()
        self._thread_id = None  # type: ignore[assignment]  # as when it does not run
        self.close()

    def _process_events(self, _events: list[Any]) -> None:
        """None: everything arrives by `call_soon_threadsafe`."""

    def _write_to_self(self) -> None:
        self._is_rung = True
        if self._sleeper is not None:
            self._scheduler.wake(self._sleeper)

    def _on_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OctoStoreError) and "never retrieved" in context["message"]:
            return  # an undo that nobody waits for, and that did not work
        self._scheduler.fail(error or AssertionError(context["message"]))
