"""Fresh names and secrets."""

import secrets
import time
import uuid


def new_lease_id() -> str:
    return str(uuid.uuid4())


def new_request_id() -> str:
    return uuid.uuid4().hex


def new_session_id() -> str:
    return str(uuid.uuid4())


def new_job_id() -> str:
    """Unique, and growing with time, so that a million of them are not a million places in an index."""
    return f"job-{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def new_token_id() -> str:
    """Not secret: it names a token in lists."""
    return f"tok-{secrets.token_hex(8)}"
