"""`octostore run` and `octostore work` as users start them: real processes that must leave nothing running."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import octostore as library
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.server import ServerProcess
from tests.support.starting import PROGRAM, start

PYTHON = (sys.executable, "-I", "-S")
"""The fastest start, for commands."""
FOREVER = "600"
"""Seconds, longer than any test waits."""


def shell_until(condition: str) -> str:
    """For Bash: wait until `condition` holds. With `sleep`, each look would take a new process."""
    return f"exec 9<> <(:); until {condition}; do read -rt 0.02 -u 9 || :; done"


UNTIL_GO = shell_until("[ -e go ]")
"""The test then creates the file in its folder."""
UNTIL_STOPPED = shell_until("false")
MARK = "TEST_OF_SUPERVISE"
DEAD_STATES = {"Z", "X"}


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Running:
    """A started process. Its output goes to files, so that the test need not read it in time."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], stdin: int | IO[Any], cwd: Path) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  # see close
        self.process = start(command, env=env, cwd=cwd, stdin=stdin, stdout=self._out, stderr=self._err)
        self.pid = self.process.pid

    @property
    def out(self) -> str:
        return _written_to(self._out)

    @property
    def err(self) -> str:
        return _written_to(self._err)

    @property
    def guardian(self) -> int:
        """The process between this one and the command."""
        until(lambda: bool(children_of(self.pid)))
        return children_of(self.pid)[0]

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> Done:
        """Wait until it ends. The code is negative if a signal killed it."""
        try:
            code = self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running: {self.process.args!r}, {self.out!r}, {self.err!r}") from None
        return Done(code, self.out, self.err)

    def close(self) -> None:
        for file in (self._out, self._err):
            file.close()


class Octostore:
    """`octostore` on one store. When the block ends, everything it started must end, too."""

    def __init__(self, url: str, folder: Path, **env: str) -> None:
        self.folder = folder
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OCTOSTORE_", "PYTEST_"))}
        self._mark = secrets.token_hex(8)
        self.env = {
            **clean,
            # For commands that call `octostore`.
            "PATH": f"{Path(sys.executable).parent}:{clean['PATH']}",
            "OCTOSTORE_HOME": str(folder),
            "OCTOSTORE_URL": url,
            MARK: self._mark,
            **env,
        }
        self._running: list[Running] = []

    def start(
        self,
        *arguments: str,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        program: Sequence[str] = PROGRAM,
        **env: str,
    ) -> Running:
        """Start it in the test's folder."""
        return self._start([*program, *arguments], stdin, env)

    def shell(self, script: str, **env: str) -> Running:
        """Run a script, for what only a shell can do."""
        return self._start(["bash", "-c", script], subprocess.DEVNULL, env)

    def run(self, *arguments: str, stdin: int | IO[Any] = subprocess.DEVNULL, **env: str) -> Done:
        return self.start(*arguments, stdin=stdin, **env).wait()

    def processes(self) -> list[int]:
        """All live processes from here, by environment or folder: forked ones have another environment."""
        mark = f"{MARK}={self._mark}".encode()
        return [
            pid
            for pid in _all_pids()
            if (mark in _read(pid, "environ").split(b"\0") or _folder_of(pid) == self.folder) and is_alive(pid)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        for one in self._running:
            if one.process.poll() is None:
                one.process.kill()
                one.process.wait(PATIENCE_SECONDS)
            one.close()
        try:
            # Commands must stop without the process that holds their claim.
            until(lambda: not self.processes())
        except AssertionError:
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if kind is None:
                raise

    def _start(self, command: Sequence[str], stdin: int | IO[Any], env: Mapping[str, str]) -> Running:
        running = Running(command, {**self.env, **env}, stdin, self.folder)
        self._running.append(running)
        return running


class Served(NamedTuple):
    """The same, on a server."""

    server: ServerProcess
    octostore: Octostore
    path: Path
    """The server's file, for when it does not respond."""


def types_of(store: library.OctoStore, job_id: str = "job") -> list[str]:
    """The types of the job's events."""
    return [event.type for event in store.events(job_id=job_id)]


def is_alive(pid: int) -> bool:
    """Whether it exists and is not a zombie."""
    return state_of(pid) not in {"", *DEAD_STATES}


def state_of(pid: int) -> str:
    """One letter, as in `ps`: `T` is stopped. Empty if the process does not exist."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return fields[0].decode() if fields else ""


def children_of(pid: int) -> list[int]:
    return [int(child) for child in _read(pid, f"task/{pid}/children").split()]


def signals_of(pid: int, kind: str) -> set[int]:
    """The signals it ignores (`SigIgn`), catches (`SigCgt`) or blocks (`SigBlk`)."""
    lines = dict(line.split(":", 1) for line in _read(pid, "status").decode().splitlines())
    mask = int(lines.get(kind, "0"), 16)
    # Without those that the C library uses for threads.
    return {number for number in range(1, 65) if mask >> (number - 1) & 1 and number not in {32, 33}}


def secrets_visible_of(pid: int) -> bytes:
    """What others can see of a process: environment and arguments."""
    return _read(pid, "environ") + b"\0" + _read(pid, "cmdline")


def _folder_of(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _written_to(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode("utf-8", "backslashreplace")
