"""The standard library's locks, conditions, threads and pools, on virtual time.

There is only one OS thread, and simulated threads switch only when they wait, so nothing below needs a real lock.
"""

import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from queue import Empty
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from tests.simulation.scheduler import Fiber, Scheduler

T = TypeVar("T")


class Here:
    """The scheduler of the current run."""

    scheduler: ClassVar[Scheduler]


def _until(timeout: float | None) -> float | None:
    return None if timeout is None or timeout < 0 else Here.scheduler.now + timeout


class _Waiters:
    def __init__(self) -> None:
        self._fibers: deque[Fiber] = deque()

    def wait(self, until: float | None) -> bool:
        scheduler = Here.scheduler
        fiber = scheduler.current
        self._fibers.append(fiber)
        if scheduler.block(until):
            return True
        if fiber not in self._fibers:
            return True  # woken after its time was up and before its turn; it must not get lost
        self._fibers.remove(fiber)
        return False

    def wake(self, how_many: int | None = None) -> None:
        while self._fibers and how_many != 0:
            fiber = self._fibers.popleft()
            if not fiber.process.is_dead:
                Here.scheduler.wake(fiber)
                how_many = None if how_many is None else how_many - 1


class Lock:
    def __init__(self) -> None:
        self._holder: Fiber | None = None
        self._depth = 0
        self._waiters: _Waiters | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = Here.scheduler
        if scheduler.is_over:
            return True
        scheduler.maybe_give_way()
        until = _until(timeout)
        while self._depth and not self._is_mine():
            if not blocking:
                return False
            if self._waiters is None:
                self._waiters = _Waiters()
            if not self._waiters.wait(until):
                return False
        self._holder = scheduler._current
        self._depth += 1
        return True

    def release(self) -> None:
        if self._depth:
            self._depth -= 1
        if not self._depth:
            self._holder = None
            if self._waiters is not None and not Here.scheduler.is_over:
                self._waiters.wake(1)

    def locked(self) -> bool:
        return self._depth > 0

    @property
    def holder(self) -> Fiber | None:
        return self._holder

    def _is_mine(self) -> bool:
        return False

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.release()


class RLock(Lock):
    def _is_mine(self) -> bool:
        return self._holder is not None and self._holder is Here.scheduler._current


class Condition:
    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = RLock() if lock is None else lock
        self._waiters = _Waiters()

    def acquire(self) -> bool:
        return self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        self._lock.release()
        try:
            return self._waiters.wait(_until(timeout))
        finally:
            self._lock.acquire()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        until = _until(timeout)
        while not predicate():
            left = None if until is None else until - Here.scheduler.now
            if left is not None and left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self, n: int = 1) -> None:
        self._waiters.wake(n)

    def notify_all(self) -> None:
        self._waiters.wake()


class Event:
    def __init__(self) -> None:
        self._is_set = False
        self._waiters = _Waiters()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._waiters.wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        until = _until(timeout)
        while not self._is_set:
            if not self._waiters.wait(until):
                return self._is_set
        return True


class Thread:
    _numbers = count(1)

    def __init__(
        self,
        target: Callable[..., object],
        args: tuple[Any, ...] = (),
        name: str = "",
        daemon: bool = False,
    ) -> None:
        self._target, self._args = target, args
        self.name = name
        self.daemon = daemon
        self.ident: int | None = None
        self._is_over = Event()

    def start(self) -> None:
        scheduler = Here.scheduler
        self.ident = next(self._numbers)
        fiber = scheduler.spawn(scheduler.process, self.name, self._run)
        fiber.thread = self

    def join(self, timeout: float | None = None) -> None:
        if not Here.scheduler.is_over:
            self._is_over.wait(timeout)

    def is_alive(self) -> bool:
        return self.ident is not None and not self._is_over.is_set()

    def _run(self) -> None:
        try:
            self._target(*self._args)
        finally:
            self._is_over.set()


def current_thread() -> Any:
    fiber = Here.scheduler._current
    return fiber.thread if fiber is not None and fiber.thread is not None else threading.main_thread()


class SimpleQueue(Generic[T]):
    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiters = _Waiters()

    def put(self, item: T) -> None:
        self._items.append(item)
        self._waiters.wake(1)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        until = _until(timeout)
        while not self._items:
            if not block or not self._waiters.wait(until):
                raise Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items


class _Bell:
    """A condition whose lock is always free: nothing else runs between waits."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: _Waiters | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        if self._waiters is None:
            self._waiters = _Waiters()
        return self._waiters.wait(_until(timeout))

    def notify_all(self) -> None:
        if self._waiters is not None:
            self._waiters.wake()


class Future(concurrent.futures.Future[T]):
    def __init__(self) -> None:
        super().__init__()
        self._condition: Any = _Bell()


class ThreadPoolExecutor:
    def __init__(self, max_workers: int, thread_name_prefix: str = "pool") -> None:
        self._room = max_workers
        self._name = thread_name_prefix
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0
        self._idle = Condition()
        self._is_shut = False

    def submit(self, call: Callable[..., Any], *args: Any, **options: Any) -> "Future[Any]":
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = call(*args, **options)
            except Exception as error:  # noqa: BLE001  # it is the caller's
                future.set_exception(error)
            else:
                future.set_result(result)

        self._waiting.append(run)
        if self._running < self._room:
            self._running += 1
            Thread(self._work, name=self._name).start()
        return future

    def shutdown(self, wait: bool = True) -> None:
        self._is_shut = True
        if wait and not Here.scheduler.is_over:
            with self._idle:
                self._idle.wait_for(lambda: not self._running)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.shutdown()

    def _work(self) -> None:
        while self._waiting:
            self._waiting.popleft()()
        self._running -= 1
        with self._idle:
            self._idle.notify_all()


def wait(
    futures: Iterable[concurrent.futures.Future[Any]], timeout: float | None = None
) -> tuple[list[concurrent.futures.Future[Any]], list[concurrent.futures.Future[Any]]]:
    """`concurrent.futures.wait`, but with lists, which have a fixed order."""
    waited = list(futures)
    bell = Condition()

    def ring(_future: object) -> None:
        bell.notify_all()

    def is_enough() -> bool:
        return all(future.done() for future in waited)

    for future in waited:
        future.add_done_callback(ring)
    with bell:
        bell.wait_for(is_enough, timeout)
    return [f for f in waited if f.done()], [f for f in waited if not f.done()]
