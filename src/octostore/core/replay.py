"""The log, replayed: it gives the stored state, but for what is durable without being an event."""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from octostore.core.events import LogEntry, Restored, decode_details
from octostore.core.evolve import evolve
from octostore.core.model import Job, Session, Token, read_history
from octostore.core.working_set import WorkingSet


class GapInLog(ValueError):
    """Something is missing, or out of order."""


class Replay:
    """`ws` holds the rows that the log leads to, as far as it has been taken."""

    def __init__(self) -> None:
        self.ws = WorkingSet(now=0, seq=0)
        self.ws.jobs = defaultdict(lambda: None)
        self.ws.sessions = defaultdict(lambda: None)
        self.ws.queues = defaultdict(lambda: None)
        self.ws.tokens = defaultdict(lambda: None)

    def take(self, entry: LogEntry, *, past_a_gap: bool = False) -> None:
        """Raises `GapInLog`, but for the gap that a restored backup leaves."""
        details = decode_details(entry)
        before = details.after if isinstance(details, Restored) else entry.seq - 1
        if self.ws.seq != before and not past_a_gap:
            raise GapInLog(f"the log has a gap: event {entry.seq} follows event {self.ws.seq}")
        self.ws.seq, self.ws.now = entry.seq, entry.at
        evolve(self.ws, entry, details)


def replay(entries: Iterable[LogEntry]) -> WorkingSet:
    """The rows that the log leads to."""
    replayed = Replay()
    for entry in entries:
        replayed.take(entry)
    return replayed.ws


def logged_job(job: Job) -> Job:
    """A copy of `job` without what the log does not hold: secrets, heartbeat times and progress."""
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
