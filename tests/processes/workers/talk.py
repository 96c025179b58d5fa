"""How workers talk to the test that started them."""

import json
import os
import sys
from typing import Any


def say(value: Any) -> None:
    """One write, so that a `kill -9` right after it cannot tear the line."""
    os.write(1, json.dumps(value, default=str).encode() + b"\n")


def hear() -> dict[str, Any] | None:
    """The test's next message; None if there are no more."""
    line = sys.stdin.readline()
    said: dict[str, Any] | None = json.loads(line) if line else None
    return said
