"""Rows of a database and rows of the model, in the order of the columns in `queries.sql`."""

from typing import Any

import msgspec

from octostore.core.events import LogEntry
from octostore.core.model import Claim, EndedRequest, Job, Progress, Session, Token

Row = tuple[Any, ...]

_JOB_COLUMNS = 16
_NO_CLAIM = (None,) * 19
JOB_WIDTH = _JOB_COLUMNS + len(_NO_CLAIM)
_encode_progress = msgspec.json.Encoder().encode
_decode_progress = msgspec.json.Decoder(Progress).decode


def job_from_row(row: Row) -> Job:
    job = Job(*row[:_JOB_COLUMNS])
    if job.status == "claimed":
        claim = job.claim = Claim(*row[_JOB_COLUMNS:-1])
        # SQLite has no truth values, and rows of earlier versions have nothing here.
        claim.is_lock, claim.is_replayed, claim.was_done = map(bool, (claim.is_lock, claim.is_replayed, claim.was_done))
        if row[-1] is not None:
            claim.progress = _decode_progress(row[-1])
    return job


def job_to_row(job: Job) -> Row:
    *own, claim = msgspec.structs.astuple(job)
    if claim is None:
        return (*own, *_NO_CLAIM)
    *values, progress = msgspec.structs.astuple(claim)
    return (*own, *values, None if progress is None else _encode_progress(progress))


def job_to_renewal(job: Job) -> Row:
    """What a heartbeat changes, and the name of the job."""
    claim = job.claim
    if claim is None:
        raise ValueError(f"job {job.job_id!r} has no claim to renew")
    progress = None if claim.progress is None else _encode_progress(claim.progress)
    numbers = claim.heartbeat_number, claim.checkpoint_number
    return claim.ttl_ms, claim.heartbeat_at, claim.expires_at, progress, *numbers, job.job_id


def session_from_row(row: Row) -> Session:
    session = Session(*row)
    session.resumed, session.offered, session.is_replayed = map(
        bool, (session.resumed, session.offered, session.is_replayed)
    )
    return session


def entry_from_row(row: Row) -> LogEntry:
    return LogEntry(*row)


def ended_request_from_row(row: Row) -> EndedRequest:
    return EndedRequest(*row)


def token_from_row(row: Row) -> Token:
    token = Token(*row)
    token.scopes = tuple(row[2].split())
    return token


def token_to_row(token: Token) -> Row:
    return to_row(msgspec.structs.replace(token, scopes=" ".join(token.scopes)))


to_row = msgspec.structs.astuple
"""For sessions, events and ended requests, whose columns are the model's fields."""
