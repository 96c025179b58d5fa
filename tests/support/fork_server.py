"""A process that has imported everything, once, and becomes what it is asked for: in a child, which starts at once.

    python -m tests.support.fork_server DESCRIPTOR

The descriptor is a socket. Each order on it names a command and brings its three standard streams; the answer is the
process that carries it out. `tests/support/starting.py` is the other side.
"""

import atexit
import gc
import importlib
import os
import pickle
import pkgutil
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
NUMBER_BYTES = 4
NO_SUCH_PROGRAM = 127


class Order(NamedTuple):
    command: list[str]
    env: dict[str, str]
    folder: str | None
    user: int | None
    has_session: bool
    """Of its own."""
    is_forked: bool
    """Whether its module is run in this Python, and not in a new one."""


def serve(line: socket.socket) -> Order | None:
    """In a child, what it is to be; None at the end."""
    parent = os.getppid()
    while True:
        head, streams, _, _ = socket.recv_fds(line, NUMBER_BYTES, len(STREAMS))
        if not head:
            return None
        order: Order = pickle.loads(line.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        assert len(list(Path("/proc/self/task").iterdir())) == 1, "a thread would be missing in the child"
        pid = fork_orphan()
        if pid == 0:
            prctl.die_with(parent)
            os.setpgid(0, os.getpgid(parent))
            line.detach()
            _take(streams)
            return order
        for stream in streams:
            os.close(stream)
        line.sendall(pid.to_bytes(NUMBER_BYTES, "big"))


def fork_orphan() -> int:
    """0 in the new process, which by then has been given to the nearest ancestor that adopts orphans."""
    told, tell = os.pipe()
    ready, not_yet = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid == 0:
            os.close(not_yet)
            os.read(ready, 1)  # nothing comes; it ends when the others have closed it
            return 0
        os.write(tell, pid.to_bytes(NUMBER_BYTES, "big"))
        os._exit(0)
    os.waitpid(between, 0)
    pid = int.from_bytes(os.read(told, NUMBER_BYTES), "big")
    for descriptor in (told, tell, ready, not_yet):
        os.close(descriptor)
    return pid


def _take(streams: list[int]) -> None:
    """As a new process has them, and no other descriptor. What stands for a closed one is closed, too."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(len(streams), os.sysconf("SC_OPEN_MAX"))


def become(order: Order) -> None:
    if order.has_session:
        os.setsid()
    if order.folder is not None:
        os.chdir(order.folder)
    if order.user is not None:
        parent = os.getppid()
        os.setreuid(order.user, order.user)
        prctl.die_with(parent)  # which Linux forgets when the user changes
    if order.is_forked:
        _run(order)
    else:
        _execute(order)


def _execute(order: Order) -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(order.command[0], order.command, order.env)
    except OSError as error:
        os.write(2, f"{order.command[0]}: {error}\n".encode())
        os._exit(NO_SUCH_PROGRAM)


def _run(order: Order) -> None:
    """`python -m module ...`."""
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
    """As Python does, but for taking itself apart, which takes longer than most programs. What is unusual, it does."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if code is None or isinstance(code, int):
            os._exit((code or 0) & 0xFF)


def _opened(number: int, old: TextIO) -> TextIO:
    """As Python opens them."""
    binary = open(number, f"{old.mode}b", closefd=False)  # noqa: SIM115  # until the end
    is_by_line = number == STREAMS.index("stderr") or binary.isatty()
    newline = "\n" if number else None
    return TextIOWrapper(binary, old.encoding, old.errors, newline, line_buffering=is_by_line)


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    for module in pkgutil.walk_packages(octostore.__path__, "octostore."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        # As it is until a Python has started; a shell in the background and `nohup` have them ignored.
        signal.signal(number, signal.SIG_DFL)
    gc.collect()
    gc.freeze()
    order = serve(line)
    if order is not None:
        become(order)
