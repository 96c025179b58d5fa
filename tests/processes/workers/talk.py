"""How workers talk to the test that started them."""

import json
import os
import sys
from typing import Any


def say(value: Any) -> None:
    """One write, so that a line is there whole or not at all, also when the next instruction is a `kill -9`."""
    os.write(1, json.dumps(value, default=str).encode() + b"\n")


def hear() -> dict[str, Any] | None:
    """What the test says next; None when it says no more."""
    line = sys.stdin.readline()
    said: dict[str, Any] | None = json.loads(line) if line else None
    return said
