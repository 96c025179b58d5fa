"""Replay the log: it reproduces the stored state, except for what is durable without being an event."""

from collections import defaultdict

import msgspec

from octostore.core.events import LogEntry, Restored, SessionOpened, decode_details
from octostore.core.evolve import evolve
from octostore.core.session_keys import session_key, whose
from octostore.core.working_set import WorkingSet


class GapInLog(ValueError):
    """An event is missing, or out of order."""


class Replay:
    """`ws` holds the rows that result from the part of the log that was replayed."""

    def __init__(self) -> None:
        self.ws = WorkingSet(now=0, seq=0)
        self.ws.jobs = defaultdict(lambda: None)
        self.ws.sessions = defaultdict(lambda: None)
        self.ws.queues = defaultdict(lambda: None)
        self.ws.tokens = defaultdict(lambda: None)
        self._principals: dict[str, str] = {}
        """Session id -> its principal: in events from earlier versions, an id belonged to one principal forever."""

    def take(self, entry: LogEntry, *, past_a_gap: bool = False) -> None:
        """Raises `GapInLog`, except for the gap that restoring a backup leaves."""
        details = decode_details(entry)
        completed = self.completed(entry)
        if completed is not entry and isinstance(details, SessionOpened):
            details = msgspec.structs.replace(details, without_lease=details.agent == entry.actor)
        before = details.after if isinstance(details, Restored) else entry.seq - 1
        if self.ws.seq != before and not past_a_gap:
            raise GapInLog(f"the log has a gap: event {entry.seq} follows event {self.ws.seq}")
        self.ws.seq, self.ws.now = entry.seq, entry.at
        evolve(self.ws, completed, details)

    def completed(self, entry: LogEntry) -> LogEntry:
        """With its session's principal, also for events from earlier versions: the principal that opened it."""
        key = entry.session_id
        if key is None or whose(key) is not None:
            return entry
        if entry.type == "session_opened":
            self._principals[key] = entry.actor
        return msgspec.structs.replace(entry, session_id=session_key(self._principals.get(key, ""), key))
