"""Fresh names and secrets."""

import os
import secrets
import time
import uuid

DRAWN_AT_ONCE = 256


class _Uuids:
    """Random UUIDs, of which many are drawn at once.

    Asking the system lets go of the interpreter each time, and getting it back takes longer than the rest of a claim.
    """

    def __init__(self) -> None:
        self._drawn: list[bytes] = []
        # A child of a fork must not give out the same ones as its parent.
        os.register_at_fork(after_in_child=self._drawn.clear)

    def draw(self) -> uuid.UUID:
        while True:
            try:
                return uuid.UUID(bytes=self._drawn.pop(), version=4)
            except IndexError:
                fresh = os.urandom(16 * DRAWN_AT_ONCE)
                self._drawn.extend(fresh[start : start + 16] for start in range(0, len(fresh), 16))


_uuids = _Uuids()


def new_lease_id() -> str:
    return str(_uuids.draw())


def new_request_id() -> str:
    return _uuids.draw().hex


def new_session_id() -> str:
    return str(_uuids.draw())


def new_job_id() -> str:
    """Unique, and growing with time, so that a million of them are not a million places in an index."""
    return f"job-{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def new_token_id() -> str:
    """Not secret: it names a token in lists."""
    return f"tok-{secrets.token_hex(8)}"
