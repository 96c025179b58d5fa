"""Virtual time and scheduling: every thread of every simulated process is a greenlet, and the seed picks the next.

Nothing waits in real time. If no thread can run, time jumps to the next timer.
"""

import random
from asyncio import AbstractEventLoop, _get_running_loop, _set_running_loop
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from greenlet import getcurrent, greenlet

BOOTED_AT = 1_000.0
"""What the monotonic clock shows when a run begins: not 0, which code may take for "never"."""
PREEMPT_SHARE = 0.1
"""How often a thread is interrupted where it could continue. Otherwise threads switch only when they wait."""
LIVELOCK_TURNS = 200_000
"""This many turns without time passing are an endless loop."""


class WorldOver(BaseException):
    """The run has ended: unwinds waiting threads. Not an `Exception`, so that no code handles it as an error."""


class Process:
    """Threads that are paused and killed together, and memory that is lost with them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_paused = False
        self.is_dead = False
        self.paused_seconds = 0.0
        self.own: dict[Any, Any] = {}
        """What would be global in a real process."""
        self.parked: list[Fiber] = []
        self.at_death: list[Callable[[], None]] = []


class Fiber:
    """A thread."""

    def __init__(self, process: Process, name: str, body: Callable[[], None], hub: greenlet) -> None:
        self.process = process
        self.name = name
        self.thread: Any = None
        self.loop: AbstractEventLoop | None = None
        self.is_waiting = False
        self.was_woken = False
        self.waits = 0
        self.greenlet = greenlet(body, hub)


class Scheduler:
    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.chance = random.Random(f"{seed} turns")
        self.is_over = False
        self.failure: BaseException | None = None
        self.switches = 0
        self.outside = Process("the world")
        self._hub = getcurrent()
        self._ready: list[Fiber] = []
        self._timers: list[tuple[float, int, Fiber | None, int, Callable[[], None] | None]] = []
        self._numbers = count()
        self._current: Fiber | None = None
        self._fibers: list[Fiber] = []
        """All threads, including those of dead processes: a forgotten greenlet would unwind, and run code."""

    # Time

    def counted(self) -> float:
        return BOOTED_AT + self.now

    def at(self, moment: float, call: Callable[[], None]) -> None:
        """Call it at this virtual time, outside of all threads. It must not wait."""
        heappush(self._timers, (moment, next(self._numbers), None, 0, call))

    # Threads

    @property
    def current(self) -> Fiber:
        if self._current is None:
            raise AssertionError("only a simulated thread may do this")
        return self._current

    @property
    def process(self) -> Process:
        return self.outside if self._current is None else self._current.process

    def spawn(self, process: Process, name: str, target: Callable[[], object]) -> Fiber:
        def body() -> None:
            try:
                target()
            except WorldOver:
                pass
            except BaseException as error:  # noqa: BLE001  # a thread that dies is a finding, and not the end of this one
                self.fail(error)

        fiber = Fiber(process, name, body, self._hub)
        self._fibers.append(fiber)
        self._ready.append(fiber)
        return fiber

    def block(self, until: float | None = None) -> bool:
        """Wait to be woken; False if `until` comes first."""
        fiber = self.current
        if self.is_over:
            raise WorldOver
        fiber.waits += 1
        fiber.is_waiting = True
        if until is not None:
            heappush(self._timers, (until, next(self._numbers), fiber, fiber.waits, None))
        self._hub.switch()
        if self.is_over:
            raise WorldOver
        return fiber.was_woken

    def wake(self, fiber: Fiber) -> None:
        if fiber.is_waiting:
            fiber.is_waiting = False
            fiber.was_woken = True
            self._ready.append(fiber)

    def sleep(self, seconds: float) -> None:
        until = self.now + max(0.0, seconds)
        while self.block(until):
            pass

    def give_way(self) -> None:
        """Let other threads run first."""
        if self.is_over:
            raise WorldOver
        self._ready.append(self.current)
        self._hub.switch()
        if self.is_over:
            raise WorldOver

    def maybe_give_way(self) -> None:
        if self._current is not None and self.chance.random() < PREEMPT_SHARE:
            self.give_way()

    # Processes

    def pause(self, process: Process) -> None:
        process.is_paused = True

    def resume(self, process: Process) -> None:
        process.is_paused = False
        self._ready += process.parked
        process.parked.clear()

    def kill(self, process: Process) -> None:
        """Its threads never run again, and are not unwound."""
        if not process.is_dead:
            process.is_dead = True
            process.parked.clear()
            for call in process.at_death:
                call()

    def fail(self, error: BaseException) -> None:
        """Ignored once the run is over, because threads are then unwound in the middle of anything."""
        if self.failure is None and not self.is_over:
            self.failure = error

    # The run

    def run(self, until: float) -> None:
        """Run until this virtual time, or a failure."""
        turns, turned_at = 0, self.now
        while self.failure is None:
            if self._ready:
                self._take_turn(self._pick())
                turns += 1
                if turns > LIVELOCK_TURNS:
                    if self.now == turned_at:
                        self.fail(AssertionError(f"endless loop at {self.now}"))
                    turns, turned_at = 0, self.now
            elif self._timers and self._timers[0][0] <= until:
                self._ring()
            else:
                self.now = until
                return

    def close(self) -> None:
        """Unwind every thread. None of them can do anything."""
        self.is_over = True
        for fiber in self._fibers:
            while fiber.greenlet:
                self._current = fiber
                fiber.greenlet.throw(WorldOver)
            fiber.greenlet = None
        self._current = None
        _set_running_loop(None)
        self._fibers.clear()

    def _pick(self) -> Fiber:
        ready = self._ready
        if len(ready) > 1:
            index = int(self.chance.random() * len(ready))
            ready[index], ready[-1] = ready[-1], ready[index]
        return ready.pop()

    def _take_turn(self, fiber: Fiber) -> None:
        process = fiber.process
        if process.is_dead:
            return
        if process.is_paused:
            process.parked.append(fiber)
            return
        self.switches += 1
        self._current = fiber
        _set_running_loop(fiber.loop)
        fiber.greenlet.switch()
        fiber.loop = _get_running_loop()
        _set_running_loop(None)
        self._current = None

    def _ring(self) -> None:
        moment, _, fiber, wait, call = heappop(self._timers)
        self.now = max(self.now, moment)
        if fiber is None:
            if call is not None:
                call()
        elif fiber.is_waiting and fiber.waits == wait:
            fiber.is_waiting = False
            fiber.was_woken = False
            self._ready.append(fiber)
