"""Every limit of the system, in one place, and the checks that enforce them.

A check returns quietly or raises `InvalidInput` with the field, the limit and the actual size. Commands run these
checks when they are built, so a command that exists is within its limits.
"""

from octostore.core.errors import InvalidInput

NAME_COMPONENT_BYTES = 64
JOB_ID_BYTES = 256
SESSION_ID_BYTES = 128
REQUEST_ID_BYTES = 128
LEASE_ID_BYTES = 128
CURSOR_BYTES = JOB_ID_BYTES + 64  # a name, and where it is in its queue
TEXT_BYTES = 256  # owner, agent, name of a token, host, reason
PRINCIPAL_BYTES = TEXT_BYTES + JOB_ID_BYTES + 2  # that name, and in brackets the prefix that limits it
NOTE_BYTES = 1_024
ERROR_BYTES = 2_048

METADATA_BYTES = 1_024
CHECKPOINT_BYTES = 64 * 1_024
RESULT_BYTES = 64 * 1_024
PAYLOAD_BYTES = 256 * 1_024
CONTEXT_BYTES = 256 * 1_024

JSON_DEPTH = 64
JSON_INTEGER_MAX = 2**53
"""Beyond this, some JSON readers round whole numbers, and would change what was written."""

TTL_MIN_MS = 1_000
TTL_MAX_MS = 86_400_000
TTL_DEFAULT_SECONDS = 120
LOCK_TTL_MAX_MS = 3_600_000
LOCK_TTL_DEFAULT_SECONDS = 60
LOCKS_PER_PRINCIPAL = 100
CLAIMS_PER_PRINCIPAL = 10_000
SESSIONS_PER_PRINCIPAL = 10_000
QUEUED_PER_PRINCIPAL = 1_000_000
TOKEN_LIFE_MAX_MS = 10 * 366 * 86_400_000
LOCK_DELAY_MAX_MS = 30_000
WAIT_MAX_SECONDS = 86_400
RETRY_AFTER_MAX_MS = 30 * 86_400_000
RUN_AT_MAX_MS = 253_402_300_799_999  # the last millisecond that RFC 3339 can write

PRIORITY_MIN, PRIORITY_DEFAULT, PRIORITY_MAX = -1_000, 5, 1_000
MAX_ATTEMPTS_DEFAULT, MAX_ATTEMPTS_MAX = 5, 1_000
QUEUE_LIMIT_MAX = 100_000
KINDS_MAX = 100
PID_MAX = 2**32 - 1

PREVIOUS_KEPT = 5
"""How many ended attempts a job remembers: for its successor, and to recognise a repeated release."""

REQUESTS_KEPT = 10_000
REQUESTS_KEPT_MS = 3_600_000
"""Which ended request ids are remembered: those of the last hour, and each principal's newest, however old."""

IN_FLIGHT_KEPT = 100
"""How many jobs of a lost session are remembered, for the agent that resumes it."""

TASK_QUEUES_MAX = 10
"""How many queues one call may search for a session's next task."""

SWEEP_LIMIT = 100
"""How many expiries one writing transaction records, so that no single call pays for a mass death.

If more have expired, a claim of the next job records as many again from its own queue: the first in line may be behind
them.
"""

RECOVER_LIMIT = 1_000
"""The same for one step of a recovery, so that others get a turn between its steps."""

FIGURES_QUEUES = 100
"""How many queues are reported with their depth."""

EMPTY_COUNT_MAX = 100
QUEUE_COUNT_MAX = 10_000
"""How far the jobs of a queue are counted: for whoever finds nothing to claim, which idle workers do all the time and
while others wait to write; and for whoever asks.
"""
QUEUES_TOLD = 200
QUEUES_LOOKED_AT = 10_000
"""How many queues are listed, and among how many, by name, it is looked for the longest."""
LOOK_BACK_EVENTS = 50_000
LOOK_BACK_MS = 3_600_000
BUCKET_MS = 60_000
"""How far it is looked back into the log for what happened in queues, for how long that is told, and how finely."""
OWNERS_TOLD = 5
OWNERS_FROM_CLAIMS = 20
"""How many owners a queue's status names, and among how many of its claims, by name, it looks for them."""
CLAIMS_LOOKED_THROUGH = 1_000
"""How many claims of a queue are looked through for those of some kinds, which no index has."""
JOBS_LOOKED_THROUGH = 2_000
"""The same for a page of the jobs of an owner or a kind."""

FIGURES_AGE_MAX_MS = 60_000
"""How old figures may be for those who do not mind."""

WINDOW_DEFAULT_SECONDS, WINDOW_MAX_MS = 900, 7 * 86_400_000
CLAIM_ROWS_MAX = 200
CLAIMS_PER_ROW = 50
"""How far back claims are shown, of how many jobs, and how many of each."""
LIVE_LOOKED_AT = 2_000
LOSSES_LOOKED_AT = 1_000
EVENTS_LOOKED_AT = 600
"""Among how many live claims, by name, the newest losses, and the newest events those jobs are chosen."""

BATCH_MAX = 1_000
BATCH_STEP = 100
"""How many commands one call may carry, and how many share a transaction if they do not all have to."""

PAGE_DEFAULT, PAGE_MAX = 100, 1_000
MATCHING_DEFAULT, MATCHING_MAX = 100, 500
"""How many dead jobs one call requeues or discards, which is one transaction; and how many it looks through."""

HEARTBEATS_MAX = 200
"""How many jobs one call or stream may name to get their heartbeats."""

SEQ_MAX = 2**63 - 1

_PLAIN_NUMBERS = {int, float}


def check_bytes(field: str, encoded: bytes | None, limit: int) -> None:
    if encoded is not None and len(encoded) > limit:
        raise InvalidInput(
            field, f"is {len(encoded):,} bytes of JSON; the limit is {limit:,}", limit=limit, size=len(encoded)
        )


def check_line(field: str, text: str | None, limit: int) -> None:
    """Text that people will read and that must be there: within `limit` UTF-8 bytes, and no control characters."""
    if type(text) is str and text.isascii() and text.isprintable() and 0 < len(text) <= limit:
        return
    if text is None:
        raise InvalidInput(field, "is required")
    check_text(field, text, limit)
    if not text:
        raise InvalidInput(field, "must not be empty")


def check_text(field: str, text: str, limit: int) -> None:
    check_size(field, text, limit)
    if not text.isprintable():
        raise _unprintable(field, text)


def _unprintable(field: str, text: str) -> InvalidInput:
    import unicodedata  # noqa: PLC0415  # only for those who send one

    found = next(letter for letter in text if not letter.isprintable())
    if unicodedata.category(found) in {"Cc", "Zl", "Zp"}:
        return InvalidInput(field, f"must not contain control characters or line breaks, such as {found!r}")
    named = f"U+{ord(found):04X}" + (f" ({name})" if (name := unicodedata.name(found, "")) else "")
    return InvalidInput(field, f"must not contain invisible or bidirectional control characters, such as {named}")


def check_size(field: str, text: str | None, limit: int) -> None:
    """Free text of any shape (an error with its line breaks), within `limit` UTF-8 bytes."""
    if text is None:
        return
    if not isinstance(text, str):
        raise InvalidInput(field, f"must be text, not {type(text).__name__}")
    size = len(text) if text.isascii() else len(encode_utf8(field, text))
    if size > limit:
        raise InvalidInput(field, f"is {size:,} bytes; the limit is {limit:,}", limit=limit, size=size)
    if "\0" in text:
        raise InvalidInput(field, "must not contain NUL")


def encode_utf8(field: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(field, "is not valid Unicode text (it has a lone surrogate)") from None


def check_range(field: str, value: float, low: float, high: float, unit: str = "") -> None:
    """A number, not a bool and not NaN, from `low` to `high`."""
    if type(value) in _PLAIN_NUMBERS and low <= value <= high:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field, f"must be a number{unit and ' of' + unit}, not {type(value).__name__}")
    if not low <= value <= high:
        raise InvalidInput(field, f"is {value:,}; it must be from {low:,} to {high:,}{unit}", limit=high, size=value)


def check_whole(field: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(field, f"must be a whole number, not {type(value).__name__}")
    check_range(field, value, low, high)


def check_seconds(field: str, seconds: float, low_ms: int, high_ms: int) -> None:
    """A duration as callers give it, in seconds, against limits that are kept in milliseconds."""
    low, high = low_ms // 1_000, high_ms // 1_000
    if type(seconds) not in _PLAIN_NUMBERS or not low <= seconds <= high:
        check_range(field, seconds, low, high, unit=" seconds")
