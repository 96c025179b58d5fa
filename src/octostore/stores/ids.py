"""Generated ids and secrets."""

import os
import re
import time

ID_DIGITS = 32
DRAWN_AT_ONCE = 256
_EACH = re.compile(f".{{{ID_DIGITS}}}")


class _Chance:
    """Random hex digits for ids, drawn from the system many at a time.

    Each call to the system releases the interpreter lock, and getting it back takes longer than the rest of a claim.
    """

    def __init__(self) -> None:
        self._drawn: list[str] = []
        # A forked child must not hand out the same digits as its parent.
        os.register_at_fork(after_in_child=self._drawn.clear)

    def draw(self) -> str:
        while True:
            try:
                return self._drawn.pop()
            except IndexError:
                self._drawn.extend(_EACH.findall(os.urandom(ID_DIGITS // 2 * DRAWN_AT_ONCE).hex()))


_chance = _Chance()
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


new_request_id = _chance.draw


def new_lease_id() -> str:
    """A version 4 UUID, like `uuid.uuid4()` at a fifth of the cost."""
    digits = _chance.draw()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"


new_session_id = new_lease_id


def new_job_id() -> str:
    """Unique and increasing with time, so that new jobs are neighbours in an index."""
    return f"job-{_moment()}{_chance.draw()[:20]}"


def _moment(ahead_ms: int = 0) -> str:
    return f"{time.time_ns() // 1_000_000 + ahead_ms:012x}"


_GENERATED = re.compile(r"(?:[\w./#:@+=-]*[./#:@+=_-])?job-([0-9a-f]{8,32})")
JOB_DIGITS = 32
OLDEST = "0194"
"""The leading digits in 2025; no name was generated before that."""
DAY_MS = 86_400_000
"""How far another machine's clock may be ahead."""


def is_generated(job_id: str) -> bool:
    """Whether `new_job_id` could have generated this name, possibly with a token's prefix in front of it."""
    return _digits_in(job_id) == JOB_DIGITS


def is_bare(job_id: str) -> bool:
    """Whether `new_job_id` could have generated this name, without anything in front of it."""
    return is_generated(job_id) and len(job_id) == len("job-") + JOB_DIGITS


def is_truncated(job_id: str) -> bool:
    """Whether it is the beginning of a generated name: at least 8 digits that encode a moment since 2025.

    One in 5,000 user-chosen names of 8 random hex digits looks the same.
    """
    return 0 < _digits_in(job_id) < JOB_DIGITS


def _digits_in(job_id: str) -> int:
    found = _GENERATED.fullmatch(job_id)
    return len(found[1]) if found and OLDEST <= found[1] < _moment(DAY_MS) else 0


def new_token_id() -> str:
    """Not a secret: it identifies a token in lists."""
    return f"tok-{_chance.draw()[:16]}"
