"""Servers to measure: started here, on loopback and each in its own folder, and stopped by process id."""

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
PATIENCE_SECONDS = 20.0


class StartFailed(Exception):
    """A server did not start; the message is its output."""


@contextmanager
def running(
    command: list[str],
    folder: Path,
    port: int,
    *,
    hello: str,
    welcome: bytes,
    settings: Mapping[str, str] | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start `command`, and wait until its reply to `hello` contains `welcome`."""
    folder.mkdir(parents=True, exist_ok=True)
    said = folder / "said.log"
    environment = {**clean_environment(), "OCTOSTORE_HOME": str(folder), **(settings or {})}
    with said.open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_until_up(process, said, port, hello.encode(), welcome)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def clean_environment() -> dict[str, str]:
    """Nobody's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("OCTOSTORE_", "PYTHON"))}


def python(module: str, executable: str = sys.executable) -> list[str]:
    return [executable, "-m", module]


def python_of(checkout: str) -> str:
    return str(Path(checkout) / ".venv/bin/python")


def in_own_process(module: str, task: msgspec.Struct, reply: type[T], executable: str = sys.executable) -> T:
    """Run `module` on `task` in a new process and return its result. `executable` may be another checkout's Python."""
    command, asked = python(module, executable), msgspec.json.encode(task)
    done = subprocess.run(command, cwd=ROOT, input=asked, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{module} failed:\n{done.stderr.decode()}")
    return msgspec.json.decode(done.stdout, type=reply)


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def readable(command: list[str], scratch: Path) -> str:
    """As a person would type it."""
    return shlex.join(command).replace(sys.executable, ".venv/bin/python").replace(str(scratch), "SCRATCH")


class Usage:
    """The memory and CPU that a process has used, from /proc."""

    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc") / str(pid)

    def memory_mib(self) -> float:
        pages = int((self._folder / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def cpu_seconds(self) -> float:
        return sum(self._times()[:2])

    def family_cpu_seconds(self) -> float:
        """Including its children, live and ended."""
        children = (self._folder / "task" / self._folder.name / "children").read_text().split()
        return sum(self._times()) + sum(Usage(int(pid)).cpu_seconds() for pid in children)

    def _times(self) -> list[float]:
        """User and system seconds of the process, then of its ended children."""
        # The second field is the program's name. It may contain anything, but ends at the last bracket.
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return [int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15]]


def _wait_until_up(process: "subprocess.Popen[bytes]", said: Path, port: int, hello: bytes, welcome: bytes) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _is_welcome(port, hello, welcome):
        if process.poll() is not None or time.monotonic() > deadline:
            raise StartFailed(f"{shlex.join(process.args)}\n{said.read_text()[-2_000:]}")  # type: ignore[arg-type]
        time.sleep(0.05)


def _is_welcome(port: int, hello: bytes, welcome: bytes) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
            connection.sendall(hello)
            return welcome in connection.recv(4_096)
    except OSError:
        return False
