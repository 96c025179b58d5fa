"""Records each signal it gets, and exits with 7 after TERM. `noting.py FILE`."""

import os
import signal
import sys
from types import FrameType

FILE = os.open(sys.argv[1], os.O_CREAT | os.O_APPEND | os.O_WRONLY)


def note(number: int, _frame: FrameType | None) -> None:
    os.write(FILE, f"{signal.Signals(number).name}\n".encode())
    if number == signal.SIGTERM:
        os._exit(7)


for one in ("HUP", "INT", "QUIT", "USR1", "USR2", "TERM"):
    signal.signal(getattr(signal, f"SIG{one}"), note)
os.write(FILE, b"ready\n")
while True:
    signal.pause()
