"""A command that is hard to get rid of: each of its processes records the time as long as it lives.

`survivor.py FOLDER HOW`; `tests/support/survivors.py` lists the ways. Files are named after the role of the process.
"""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

PAUSE_SECONDS = 0.002
FOLDER = Path(sys.argv[1])


def beat(name: str) -> NoReturn:
    file = os.open(FOLDER / f"{name}-{os.getpid()}.beats", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    while True:
        os.write(file, f"{time.time():.6f}\n".encode())
        time.sleep(PAUSE_SECONDS)


def note_signals() -> None:
    """Record every signal, and continue."""

    def note(number: int, _frame: FrameType | None) -> None:
        with (FOLDER / "signals").open("a") as file:
            file.write(f"{signal.Signals(number).name} {time.time():.6f}\n")

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, note)


def ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def child(name: str, *, in_session: bool = False) -> None:
    if os.fork() == 0:
        if in_session:
            os.setsid()
        beat(name)


def become_daemon() -> None:
    """By the book: fork, a new session, fork, no streams."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() > 0:
            os._exit(0)
        os.chdir("/")
        os.closerange(0, 256)
        beat("daemon")
    os.wait()


def main(how: str) -> NoReturn:
    if how == "noting":
        note_signals()
        beat("command")
    ignore_signals()
    match how:
        case "forking":
            child("child")
            child("child")
        case "setsid":
            child("child", in_session=True)
        case "daemon":
            become_daemon()
    beat("command")


if __name__ == "__main__":
    main(sys.argv[2])
