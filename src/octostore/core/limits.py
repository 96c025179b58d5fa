"""Every limit in the system, in one place, and the checks that enforce them.

A check returns quietly or raises `InvalidInput` with the field, the limit and the actual size. Commands run these
checks when they are built, so a command that exists is within its limits.
"""

from octostore.core.errors import InvalidInput

NAME_COMPONENT_BYTES = 64
JOB_ID_BYTES = 256
SESSION_ID_BYTES = 128
REQUEST_ID_BYTES = 128
LEASE_ID_BYTES = 128
CURSOR_BYTES = JOB_ID_BYTES + 64  # a name, and its position in its queue
TEXT_BYTES = 256  # owner, agent, token name, host, reason
PRINCIPAL_BYTES = TEXT_BYTES + JOB_ID_BYTES + 2  # a token name, and the prefix that limits it in brackets
NOTE_BYTES = 1_024
ERROR_BYTES = 2_048

METADATA_BYTES = 1_024
UTF8_BYTES_MAX = 4
"""Of one character."""
LOCK_METADATA_CHARACTERS = 1_024
"""As in the original, so that its clients need not know how many bytes a character takes."""
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
DELAY_MAX_MS = 10 * 366 * 86_400_000
RUN_AT_MAX_MS = 253_402_300_799_999  # the last millisecond RFC 3339 can express

PRIORITY_MIN, PRIORITY_DEFAULT, PRIORITY_MAX = -1_000, 5, 1_000
MAX_ATTEMPTS_DEFAULT, MAX_ATTEMPTS_MAX = 5, 1_000
QUEUE_LIMIT_MAX = 100_000
KINDS_MAX = 100
PID_MAX = 2**32 - 1

PREVIOUS_KEPT = 5
"""How many ended attempts a job remembers: for the next owner, and to recognise a repeated release."""

REQUESTS_KEPT = 10_000
REQUESTS_KEPT_MS = 3_600_000
"""Which request ids of ended claims and sessions are kept: the last hour's and each principal's newest, however old."""

IN_FLIGHT_KEPT = 100
"""How many jobs of a lost session are remembered, for the agent that resumes it."""

TASK_QUEUES_MAX = 10
"""How many queues one call may search for a session's next task."""

SWEEP_LIMIT = 100
"""How many expiries a write transaction records, so that no single call pays for the death of many owners.

If more leases have expired, a claim of the next job in a queue records up to as many again from that queue: the job to
claim may have one of them.
"""

RECOVER_LIMIT = 1_000
"""How many expiries one step of a recovery records, so that others get their turn between steps."""

FIGURES_QUEUES = 100
"""How many queues are reported with their depth."""

EMPTY_COUNT_MAX = 100
QUEUE_COUNT_MAX = 10_000
"""How far the jobs of a queue are counted: the first for a claim that finds nothing, because idle workers repeat it
constantly while others wait to write; the second for an explicit question.
"""
QUEUES_SHOWN = 200
QUEUES_LOOKED_AT = 10_000
"""The maximum number of queues listed, and how many queues (by name) the longest are chosen from."""
LOOK_BACK_EVENTS = 50_000
LOOK_BACK_MS = 3_600_000
BUCKET_MS = 60_000
"""How many of the newest events are read for a queue's activity, how far back it is reported, and in what steps."""
OWNERS_SHOWN = 5
OWNERS_FROM_CLAIMS = 20
"""The maximum number of owners in a queue's status, and how many claims (the first by name) they are taken from."""
CLAIMS_LOOKED_THROUGH = 1_000
"""The maximum number of a queue's claims scanned for given kinds, which have no index."""
JOBS_LOOKED_THROUGH = 2_000
"""The maximum number of jobs scanned for a page of one owner's or kind's jobs."""

FIGURES_AGE_MAX_MS = 60_000
"""The maximum age of figures that a caller may accept."""

WINDOW_DEFAULT_SECONDS, WINDOW_MAX_MS = 900, 7 * 86_400_000
CLAIM_ROWS_MAX = 200
CLAIMS_PER_ROW = 50
"""How far back claims are shown, for how many jobs, and how many per job."""
LIVE_LOOKED_AT = 2_000
LOSSES_LOOKED_AT = 1_000
EVENTS_LOOKED_AT = 600
"""How many live claims (the first by name), newest losses and newest events these jobs are chosen from."""

BATCH_MAX = 1_000
BATCH_STEP = 100
"""The maximum number of commands in one call, and in one step of it unless the batch is atomic. A writer may run
several steps, of one caller or of several, in one transaction.
"""

PAGE_DEFAULT, PAGE_MAX = 100, 1_000
MATCHING_DEFAULT, MATCHING_MAX = 100, 500
"""How many dead jobs one call requeues or discards in its single transaction: by default, and at most."""

HEARTBEATS_MAX = 200
"""The maximum number of jobs whose heartbeats one call or stream may ask for."""

SEQ_MAX = 2**63 - 1

_PLAIN_NUMBERS = {int, float}


def check_bytes(field: str, encoded: bytes | None, limit: int) -> None:
    if encoded is not None and len(encoded) > limit:
        raise InvalidInput(
            field, f"is {len(encoded):,} bytes of JSON; the limit is {limit:,}", limit=limit, size=len(encoded)
        )


def check_line(field: str, text: str | None, limit: int) -> None:
    """Required text for people: within `limit` UTF-8 bytes, without control characters."""
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
    import unicodedata  # noqa: PLC0415  # rarely needed

    found = next(letter for letter in text if not letter.isprintable())
    if unicodedata.category(found) in {"Cc", "Zl", "Zp"}:
        return InvalidInput(field, f"must not contain control characters or line breaks, like {found!r}")
    named = f"U+{ord(found):04X}" + (f" ({name})" if (name := unicodedata.name(found, "")) else "")
    return InvalidInput(field, f"must not contain invisible or bidirectional control characters, like {named}")


def check_size(field: str, text: str | None, limit: int) -> None:
    """Free text of any shape (like an error with line breaks), within `limit` UTF-8 bytes."""
    if text is None:
        return
    if not isinstance(text, str):
        raise InvalidInput(field, f"must be text, not {type(text).__name__}")
    size = len(text) if text.isascii() else len(encode_utf8(field, text))
    if size > limit:
        raise InvalidInput(field, f"is {size:,} bytes; the limit is {limit:,}", limit=limit, size=size)
    if "\0" in text:
        raise InvalidInput(field, "must not contain NUL")


def check_characters(field: str, text: str, limit: int) -> None:
    """Like `check_size`, but the limit does not depend on how many bytes a character takes."""
    if isinstance(text, str) and len(text) > limit:
        raise InvalidInput(field, f"is {len(text):,} characters; the limit is {limit:,}", limit=limit, size=len(text))
    check_size(field, text, UTF8_BYTES_MAX * limit)


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
        shown = int(value) if value == value // 1 else value
        raise InvalidInput(field, f"is {shown:,}; it must be from {low:,} to {high:,}{unit}", limit=high, size=value)


def check_count(field: str, number: int, most: int, what: str) -> None:
    """The size of a list that must not be empty."""
    if not 1 <= number <= most:
        raise InvalidInput(field, f"has {number:,} {what}; it must have 1 to {most:,}", limit=most, size=number)


def check_whole(field: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(field, f"must be a whole number, not {type(value).__name__}")
    check_range(field, value, low, high)


def check_seconds(field: str, seconds: float, low_ms: int, high_ms: int) -> None:
    """A duration in seconds, as callers pass it, checked against limits in milliseconds."""
    low, high = low_ms // 1_000, high_ms // 1_000
    if type(seconds) not in _PLAIN_NUMBERS or not low <= seconds <= high:
        check_range(field, seconds, low, high, unit=" seconds")


def check_max_run(seconds: float) -> None:
    check_seconds("max_run", seconds, 0, TTL_MAX_MS)
    if not seconds:
        raise InvalidInput("max_run", "is 0, which would stop every job; leave it out for no limit")
