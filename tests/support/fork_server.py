"""A process that has imported everything once, and forks children that run commands without starting Python again.

    python -m tests.support.fork_server DESCRIPTOR

The descriptor is a socket. Its first bytes are this process's id. Each order contains a command, its three standard
streams, and a pipe that closes when the command runs; the reply is the id of its process. The other side is
`tests/support/starting.py`.
"""

import atexit
import ctypes
import gc
import importlib
import os
import pickle
import pkgutil
import platform
import runpy
import signal
import socket
import sys
import threading
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple, TextIO

import octostore
from octostore.supervise import prctl

STREAMS = ("stdin", "stdout", "stderr")
DESCRIPTORS = len(STREAMS) + 1
NUMBER_BYTES = 4
NO_SUCH_PROGRAM = 127
_CLONE = {"x86_64": 56}.get(platform.machine(), 220)  # the number of the system call; most architectures share one
_WITH_MY_PARENT = 0x8000 | signal.SIGCHLD
_libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock, like `os.fork`


class Order(NamedTuple):
    command: list[str]
    env: dict[str, str]
    folder: str | None
    user: int | None
    has_session: bool
    """Whether it gets its own session."""
    is_forked: bool
    """Whether its module runs in the forked Python, not in a new one."""


def serve(line: socket.socket) -> Order | None:
    """Return the order in each child, and None in the server at the end."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(line, NUMBER_BYTES, DESCRIPTORS)
        if not head:
            return None
        order: Order = pickle.loads(line.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        assert len(list(Path("/proc/self/task").iterdir())) == 1, "a thread would be missing in the child"
        parent = os.getppid()
        pid = fork_sibling()
        if pid == 0:
            prctl.die_with(parent)
            os.setpgid(0, os.getpgid(parent))
            line.detach()
            _take(descriptors)
            return order
        for descriptor in descriptors:
            os.close(descriptor)
        line.sendall(pid.to_bytes(NUMBER_BYTES, "big"))


def fork_sibling() -> int:
    """Like `os.fork`, but the new process is a child of our parent, which can wait for it like for any other child."""
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _libc.syscall(_CLONE, _WITH_MY_PARENT, 0, 0, 0, 0)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


def _take(descriptors: list[int]) -> None:
    """Make them the standard streams, keep the pipe until the command runs, and close all others."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number, inheritable=number < len(STREAMS))
    os.closerange(len(descriptors), os.sysconf("SC_OPEN_MAX"))


def become(order: Order) -> None:
    if order.has_session:
        os.setsid()
    if order.folder is not None:
        os.chdir(order.folder)
    if order.user is not None:
        parent = os.getppid()
        os.setreuid(order.user, order.user)
        prctl.die_with(parent)  # Linux resets this when the user changes
    if order.is_forked:
        _run(order)
    else:
        _execute(order)


def _execute(order: Order) -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(order.command[0], order.command, order.env)
    except OSError as error:
        os.write(2, f"{order.command[0]}: {error}\n".encode())
        os._exit(NO_SUCH_PROGRAM)


def _run(order: Order) -> None:
    """Run `python -m module ...` in this process."""
    os.close(len(STREAMS))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order.env)
    _, _, module, *arguments = order.command
    sys.argv[1:] = arguments
    sys.path[0] = str(Path.cwd())
    for number, name in enumerate(STREAMS):
        stream = _opened(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        _leave(end.code)
        raise
    _leave(0)


def _leave(code: object) -> None:
    """Exit like Python, but without its teardown, which takes longer than most programs. Unusual codes return."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if code is None or isinstance(code, int):
            os._exit((code or 0) & 0xFF)


def _opened(number: int, old: TextIO) -> TextIO:
    """Open a stream as Python does."""
    binary = open(number, f"{old.mode}b", closefd=False)  # noqa: SIM115  # until the end
    is_by_line = number == STREAMS.index("stderr") or binary.isatty()
    newline = "\n" if number else None
    return TextIOWrapper(binary, old.encoding, old.errors, newline, line_buffering=is_by_line)


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    if os.fork() != 0:
        os._exit(0)  # the tests adopt the other process
    line.sendall(os.getpid().to_bytes(NUMBER_BYTES, "big"))
    for module in pkgutil.walk_packages(octostore.__path__, "octostore."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        # The default when Python starts; background shells and `nohup` ignore them.
        signal.signal(number, signal.SIG_DFL)
    gc.collect()
    gc.freeze()
    order = serve(line)
    if order is not None:
        become(order)
