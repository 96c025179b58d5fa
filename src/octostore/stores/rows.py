"""Convert database rows to the model and back. Columns are the model's fields, in its order."""

from operator import attrgetter
from typing import Any

import msgspec

from octostore.core.events import LogEntry
from octostore.core.model import Claim, EndedRequest, Job, Progress, Session, Token

Row = tuple[Any, ...]

_OF_JOB = Job.__struct_fields__[:-1]
_OF_CLAIM = Claim.__struct_fields__
_OF_RENEWAL = ("ttl_ms", "heartbeat_at", "expires_at", "heartbeat_number", "checkpoint_number", "last_progress_at")
COLUMNS: dict[str, tuple[str, ...]] = {
    "job": (*_OF_JOB, *_OF_CLAIM),
    "renewal": ("job_id", *_OF_RENEWAL, "progress"),
    "session": Session.__struct_fields__,
    "request": EndedRequest.__struct_fields__,
    "token": Token.__struct_fields__,
    "event": LogEntry.__struct_fields__,
    "queue": ("name", "max_claimed", "pause"),
    "principal": ("principal", "queued"),
    "document": ("seq", "body"),
    "checkpoint": ("job_id", "data"),
    "context": ("session_id", "data"),
}
"""The columns read and written; the first is the key."""
JOB_WIDTH = len(COLUMNS["job"])
SESSION_OF_JOB = COLUMNS["job"].index("session_id")
_WIDTH_WITHOUT_CLAIM = len(_OF_JOB)
_NO_CLAIM = (None,) * len(_OF_CLAIM)
_renewal_of = attrgetter(*_OF_RENEWAL)
_encode_progress = msgspec.json.Encoder().encode
_decode_progress = msgspec.json.Decoder(Progress).decode


def job_from_row(row: Row) -> Job:
    job = Job(*row[:_WIDTH_WITHOUT_CLAIM])
    if job.status == "claimed":
        claim = job.claim = Claim(*row[_WIDTH_WITHOUT_CLAIM:JOB_WIDTH])
        # SQLite has no booleans, and rows from earlier versions have NULL here.
        claim.is_lock, claim.is_replayed, claim.was_done = map(bool, (claim.is_lock, claim.is_replayed, claim.was_done))
        if claim.progress is not None:
            claim.progress = _decode_progress(claim.progress)  # type: ignore[arg-type]  # still encoded
    return job


def job_to_row(job: Job) -> Row:
    *own, claim = msgspec.structs.astuple(job)
    if claim is None:
        return (*own, *_NO_CLAIM)
    *values, progress = msgspec.structs.astuple(claim)
    return (*own, *values, _progress_to_value(progress))


def job_to_renewal(job: Job) -> Row:
    """The columns a heartbeat changes, and the key."""
    claim = job.claim
    if claim is None:
        raise ValueError(f"job {job.job_id!r} has no claim to renew")
    return (job.job_id, *_renewal_of(claim), _progress_to_value(claim.progress))


def _progress_to_value(progress: Progress | None) -> bytes | None:
    return None if progress is None else _encode_progress(progress)


def session_from_row(row: Row) -> Session:
    session = Session(*row)
    for name in ("resumed", "offered", "is_replayed", "without_lease"):
        setattr(session, name, bool(getattr(session, name)))
    return session


def entry_from_row(row: Row) -> LogEntry:
    return LogEntry(*row)


def ended_request_from_row(row: Row) -> EndedRequest:
    return EndedRequest(*row)


def token_from_row(row: Row) -> Token:
    token = Token(*row)
    token.scopes = tuple(token.scopes.split())  # type: ignore[attr-defined]  # still text
    return token


def token_to_row(token: Token) -> Row:
    return to_row(msgspec.structs.replace(token, scopes=" ".join(token.scopes)))


to_row = msgspec.structs.astuple
"""For sessions, events and ended requests, whose columns are the model's fields."""
