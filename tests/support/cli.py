"""The command line in its own process, with an empty stdin and separate stdout and stderr."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support.processes import PATIENCE_SECONDS
from tests.support.starting import PROGRAM, run, start


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The single document on stdout."""
        assert self.out.count("\n") == 1, self
        assert self.out.endswith("\n"), self
        return json.loads(self.out)


def run_cli(*arguments: str, stdin: str | None = None, program: Sequence[str] = PROGRAM, **env: str) -> Done:
    """`env` extends the test's environment."""
    done = run(
        [*program, *arguments],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdin_data=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    return Done(done.returncode, done.stdout, done.stderr)


class LiveCli:
    """A command that keeps running; it is killed when the block ends."""

    def __init__(self, *arguments: str, **env: str) -> None:
        self.process = start(
            [*PROGRAM, *arguments],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._unread = b""

    def line(self) -> str:
        """The next line on stdout."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self._unread:
            left = max(0.0, deadline - time.monotonic())
            assert select.select([self.process.stdout], [], [], left)[0], f"no more output: {self._unread!r}"
            part = os.read(self.process.stdout.fileno(), 65_536)
            assert part, f"it ended: {self.finish()}"
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def finish(self) -> Done:
        """The rest of its output, until it ends."""
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return Done(self.process.returncode, (self._unread + out).decode(), err.decode())

    def interrupt(self) -> Done:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


class TerminalCli:
    """A command on its own terminal, `columns` wide, which shows both of its streams."""

    def __init__(self, *arguments: str, columns: int = 100, lines: int = 24, **env: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        usual = {"TERM": "xterm-256color"}
        self.process = start(
            [*PROGRAM, *arguments],
            env={**os.environ, **usual, **env},
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.seen = ""

    def until(self, *texts: str) -> str:
        """Wait until all `texts` have appeared, and return everything so far."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(text in self.seen for text in texts):
            assert self._read(deadline), f"it ended before: {self.seen!r}"
        return self.seen

    def rest(self) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        return self.seen

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        self.rest()
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        assert select.select([self._master], [], [], left)[0], f"no more output: {self.seen!r}"
        try:
            part = os.read(self._master, 65_536)
        except OSError:  # what Linux reports at the end
            return False
        self.seen += part.decode().replace("\r\n", "\n")
        return bool(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        os.close(self._master)


def run_on_terminal(*arguments: str, columns: int = 100, **env: str) -> str:
    with TerminalCli(*arguments, columns=columns, lines=24, **env) as cli:
        return cli.rest()
