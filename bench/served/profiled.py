"""Our server under a CPU profiler: `python -m bench.served.profiled FILE serve ...`.

Profiling starts at SIGUSR1, to leave out the server's start; FILE is written at exit.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable
from cProfile import Profile
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec

from octostore.cli.main import main

CALIBRATION_CALLS = 50_000


class Edge(msgspec.Struct):
    """Calls of one function by another (`""` if none), without the functions it calls in turn."""

    caller: str
    callee: str
    calls: int
    seconds: float
    """The callee's own time."""


class Profiled(msgspec.Struct):
    edges: list[Edge]
    callee_bias: float
    """What the profiler adds to a function per call, and to its caller."""
    caller_bias: float


class Profiles:
    """One per thread: a profiler sees only the thread that started it."""

    def __init__(self) -> None:
        self._profiles: list[Profile] = []
        self._begun_at = 0.0
        self._in_loop = Profile()

    def start(self, *_: Any) -> None:
        self._profiles.append(Profile(time.thread_time))
        self._profiles[-1].enable()

    def start_in_loop(self, *_: Any) -> None:
        self._begun_at = time.thread_time()
        self.start()
        self._in_loop = self._profiles[-1]

    def edges(self) -> list[Edge]:
        """The event loop was entered before profiling started, so it gets everything without a caller."""
        seconds = time.thread_time() - self._begun_at
        seconds -= sum(entry.inlinetime for entry in self._in_loop.getstats())
        return [Edge("", "the loop", 1, seconds), *(edge for profile in self._profiles for edge in _edges(profile))]


def _edges(profile: Profile) -> list[Edge]:
    edges, called = [], dict[str, tuple[int, float]]()
    entries = profile.getstats()
    for entry in entries:
        for callee in entry.calls or ():
            name = _name(callee.code)
            edges.append(Edge(_name(entry.code), name, callee.callcount, callee.inlinetime))
            calls, seconds = called.get(name, (0, 0.0))
            called[name] = calls + callee.callcount, seconds + callee.inlinetime
    for entry in entries:
        name = _name(entry.code)
        calls, seconds = called.get(name, (0, 0.0))
        edges.append(Edge("", name, max(0, entry.callcount - calls), max(0.0, entry.inlinetime - seconds)))
    return edges


def _name(code: CodeType | str) -> str:
    return code if isinstance(code, str) else f"{code.co_filename}:{code.co_qualname}"


def _biases() -> tuple[float, float]:
    plain = _cpu(_call_nothing)
    profile = Profile(time.thread_time)
    profile.runcall(_call_nothing)
    own = {_name(entry.code).rpartition(":")[2]: entry.inlinetime for entry in profile.getstats()}
    each = [own[function.__name__] - plain / 2 for function in (_nothing, _call_nothing)]
    return each[0] / CALIBRATION_CALLS, each[1] / CALIBRATION_CALLS


def _nothing() -> None:
    pass


def _call_nothing() -> None:
    for _ in range(CALIBRATION_CALLS):
        _nothing()


def _cpu(call: Callable[[], None]) -> float:
    started = time.thread_time()
    call()
    return time.thread_time() - started


if __name__ == "__main__":
    callee_bias, caller_bias = _biases()
    profiles = Profiles()
    threading.setprofile(profiles.start)
    signal.signal(signal.SIGUSR1, profiles.start_in_loop)
    status = main(sys.argv[2:])
    sys.setprofile(None)
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(Profiled(profiles.edges(), callee_bias, caller_bias)))
    sys.exit(status)
