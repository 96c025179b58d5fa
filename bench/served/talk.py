"""Child processes that exchange lines of JSON with the benchmark: the first is the task, and each gets a reply."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
import uvloop

from bench.served.processes import ROOT, python

T = TypeVar("T")


class Child:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def tell(self, what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(what) + b"\n")
        self._process.stdin.flush()

    def hear(self, kind: type[T]) -> T:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process failed: {self._process.args!r}")
        return msgspec.json.decode(line, type=kind)


@contextmanager
def child(module: str, task: msgspec.Struct) -> Iterator[Child]:
    with subprocess.Popen(python(module), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            it = Child(process)
            it.tell(task)
            yield it
        finally:
            process.kill()


# In the child


def run(main: Callable[[T], Awaitable[None]], task: type[T]) -> None:
    async def start() -> None:
        await main(await hear(task))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(start())


async def hear(kind: type[T]) -> T:
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.readline)
    return msgspec.json.decode(line, type=kind)


def say(what: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


async def in_groups(calls: list[Awaitable[T]], at_once: int = 100) -> list[T]:
    """The results, in order; at most `at_once` calls run at the same time."""
    turn = asyncio.Semaphore(at_once)

    async def in_turn(call: Awaitable[T]) -> T:
        async with turn:
            return await call

    return await asyncio.gather(*map(in_turn, calls))
