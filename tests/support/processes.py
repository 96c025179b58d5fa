"""Processes that tests talk to with lines of JSON, so that no test has to sleep until they are probably ready."""

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.starting import start

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 30.0


class Worker:
    """Runs `tests/processes/workers/<name>.py`, which is killed when the block ends."""

    def __init__(self, name: str, *arguments: object, under: tuple[str, ...] = ()) -> None:
        command = [*under, sys.executable, "-m", f"tests.processes.workers.{name}", *map(str, arguments)]
        self._process = start(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._unread = b""

    def tell(self, call: str, **values: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": call, **values}).encode() + b"\n")

    def hear(self, seconds: float = PATIENCE_SECONDS) -> Any:
        """Return its next line, or raise `EOFError` if it has ended."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._unread:
            chunk = self._read(deadline)
            if not chunk:
                raise EOFError(f"the worker ended with {self._process.wait(PATIENCE_SECONDS)}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def ask(self, call: str, **values: Any) -> Any:
        self.tell(call, **values)
        return self.hear()

    def said(self) -> list[Any]:
        """Everything it has printed so far, without waiting for more."""
        try:
            while chunk := self._read(deadline=0):
                self._unread += chunk
        except TimeoutError:
            pass
        *lines, self._unread = self._unread.split(b"\n")
        return [json.loads(line) for line in lines]

    def rest(self) -> list[Any]:
        """Everything it prints until it ends, which it must do soon."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while chunk := self._read(deadline):
            self._unread += chunk
        lines, self._unread = self._unread.splitlines(), b""
        return [json.loads(line) for line in lines]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> list[Any]:
        """`kill -9`, and return what it had printed."""
        self._process.kill()
        said = self.rest()
        assert self.exit_code() == -signal.SIGKILL
        self._let_go()
        return said

    def exit_code(self) -> int:
        return self._process.wait(PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)
        self._let_go()

    def _let_go(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self._process.stdout], [], [], left)[0]:
            raise TimeoutError("the worker said nothing")
        return os.read(self._process.stdout.fileno(), 65_536)


def until(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Poll until the condition holds, for changes that nothing announces."""
    deadline = time.monotonic() + seconds
    pause = 0.001
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(pause)
        pause = min(pause * 1.2, 0.01)  # more frequent checks slow down what they wait for


def free_port() -> int:
    """A free port that the system does not assign to clients while no server listens on it."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if one.connect_ex(("127.0.0.1", port)) == 0:
                continue
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no port is free")
