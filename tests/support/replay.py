"""The state that a log leads to, and rows without what is not in the log."""

from collections.abc import Iterable

import msgspec

from octostore.core.events import LogEntry
from octostore.core.model import Job, Session, Token, read_history
from octostore.core.replay import Replay
from octostore.core.working_set import WorkingSet


def replay(entries: Iterable[LogEntry]) -> WorkingSet:
    """Replay the log, and return the rows."""
    replayed = Replay()
    for entry in entries:
        replayed.take(entry)
    return replayed.ws


def logged_job(job: Job) -> Job:
    """A copy of `job` without what is not in the log: secrets, heartbeat times and progress."""
    history = [msgspec.structs.replace(attempt, lease_id="") for attempt in read_history(job)]
    claim = job.claim and msgspec.structs.replace(
        job.claim,
        lease_id="",
        request_id=None,
        holder=None,
        is_replayed=False,
        heartbeat_number=None,
        checkpoint_number=None,
        progress=None,
        last_progress_at=None,
        ttl_ms=0,
        heartbeat_at=0,
        expires_at=None,
    )
    return msgspec.structs.replace(job, history=msgspec.json.encode(history), claim=claim)


def logged_session(session: Session) -> Session:
    """The same for a session."""
    expires_at = 0 if session.status == "open" else session.expires_at
    return msgspec.structs.replace(
        session,
        lease_id="",
        request_id=None,
        giver_lease_id=None,
        is_replayed=False,
        save_number=None,
        heartbeat_at=0,
        expires_at=expires_at,
    )


def logged_token(token: Token) -> Token:
    """The same for a token."""
    return msgspec.structs.replace(token, digest=b"")
