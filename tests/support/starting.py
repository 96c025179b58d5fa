"""How tests start processes: forked if possible, which is fast (see `fork_server.py`). None outlives the tests."""

import atexit
import os
import pickle
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from subprocess import DEVNULL, PIPE, CompletedProcess, Popen
from types import TracebackType
from typing import Any

from octostore.supervise import prctl
from tests.support.fork_server import NUMBER_BYTES, Order

_ROOT = Path(__file__).parents[2]
_PROGRAM = "from tests.support.fork_server import main; main()"
_MODULE = (sys.executable, "-m")
PROGRAM = (*_MODULE, "octostore")
"""Forked. For tests of the start itself, or of what the system says about a process, use `SCRIPT`."""
SCRIPT = (str(Path(sys.executable).with_name("octostore")),)
"""What users start."""
HURRIED = (*_MODULE, "tests.support.hurried")
BLIND = (*_MODULE, "tests.support.blind")
UNHURRIED = (*_MODULE, "tests.support.unhurried")
LATE = (*_MODULE, "tests.support.late")
DEAF = (*_MODULE, "tests.support.deaf")
_READ_AT_START = ("PYTHON", "LC_", "LANG", "TZ")
_starting = threading.Lock()


def start(command: Sequence[str], **options: Any) -> "Popen[Any]":
    """`subprocess.Popen`, but the process dies with this one. Only this Python with `-m` is forked."""
    return _Started(command, **options)


def run(
    command: Sequence[str], *, stdin_data: str | bytes | None = None, timeout: float | None = None, **options: Any
) -> "CompletedProcess[Any]":
    """`subprocess.run`, with the same difference."""
    if stdin_data is not None:
        options["stdin"] = PIPE
    with start(command, **options) as process:
        try:
            out, err = process.communicate(stdin_data, timeout)
        except BaseException:
            process.kill()
            raise
    return CompletedProcess(process.args, process.returncode, out, err)


class _Started(Popen[Any]):
    """`Popen`, except that the fork server creates the process, and that a failing test does not wait for its end."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.kill()
        super().__exit__(kind, error, traceback)

    def _execute_child(  # noqa: PLR0917
        self,
        args: Sequence[str],
        _executable: object,
        _preexec: object,
        _close_fds: object,
        _pass_fds: object,
        cwd: str | Path | None,
        env: Mapping[str, str] | None,
        _startupinfo: object,
        _creationflags: object,
        _shell: object,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        _restore_signals: object,
        _gid: object,
        _gids: object,
        uid: int | None,
        _umask: object,
        start_new_session: bool,
        _process_group: object,
    ) -> None:
        with _starting:
            server = _server()
        env = dict(os.environ if env is None else env)
        is_forked = tuple(args[:2]) == _MODULE and read_at_start(env) == server.read_at_start
        order = Order(list(args), env, None if cwd is None else str(cwd), uid, start_new_session, is_forked)
        streams = [own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        self.pid = server.carry_out(order, streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


class _Server:
    """The fork server, which lives as long as this process."""

    def __init__(self) -> None:
        self.read_at_start = read_at_start(os.environ)
        self._line, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-c", _PROGRAM, str(number)]
            with _adopting_orphans():
                Popen(command, cwd=_ROOT, stdin=DEVNULL, pass_fds=[number], process_group=0).wait()
        self._pid = self._read_number()
        atexit.register(self._end)

    def carry_out(self, order: Order, streams: Sequence[int]) -> int:
        """Start the process, and return its id once it runs the command."""
        text = pickle.dumps(order)
        runs, not_yet = os.pipe()
        with _starting:
            socket.send_fds(self._line, [len(text).to_bytes(NUMBER_BYTES, "big")], [*streams, not_yet])
            self._line.sendall(text)
            pid = self._read_number()
        os.close(not_yet)
        os.read(runs, 1)
        os.close(runs)
        return pid

    def _read_number(self) -> int:
        return int.from_bytes(self._line.recv(NUMBER_BYTES, socket.MSG_WAITALL), "big")

    def _end(self) -> None:
        self._line.close()
        os.waitpid(self._pid, 0)


@cache
def _server() -> _Server:
    return _Server()


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Become the parent of orphaned descendants, only for the duration: others are not ours to wait for.

    Linux ends processes that die with their parent when the *thread* that started them ends. An orphan's new parent is
    the first thread, which lives as long as the process.
    """
    prctl._prctl(prctl._SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl._prctl(prctl._SET_CHILD_SUBREAPER, 0)


def read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python reads only at its start. If they differ from ours, a process is not forked."""
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}
