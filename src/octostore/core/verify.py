"""Whether a log and the stored state are sound: nothing is missing, and each claim began and ended once.

It uses only what any reader can see, so that it can run from outside: events, and the state of jobs and sessions.
"""

from collections.abc import Set as AbstractSet

from octostore.core import views
from octostore.core.events import Ended, Event, LogEntry, decode_details, stored_event
from octostore.core.model import Job
from octostore.core.replay import GapInLog, Replay
from octostore.core.replies import JobView, Reply, SessionView
from octostore.core.session_keys import SessionKey, session_key

PROBLEMS_SHOWN = 100
_UNLOGGED = {"claim", "expires_at", "heartbeat_at", "raw_context", "raw_payload", "raw_result"}
"""Not compared: heartbeats are not events, and lists leave documents out."""


class Verification(Reply, frozen=True):
    """What was checked, up to event `last_seq`, and the first hundred problems, if any."""

    events: int
    claims: int
    jobs: int
    sessions: int
    skipped: int
    """Jobs and sessions that kept changing, so they could not be compared with the log."""
    last_seq: int
    problems: list[str]

    @property
    def is_sound(self) -> bool:
        """Whether no problems were found."""
        return not self.problems


class Verifier:
    """Feed it the log from the beginning, in order, then check jobs and sessions."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.last_change: dict[str, int] = {}
        """Job, or `named` session -> the event that last changed it."""
        self._replay = Replay()
        self._live: dict[str, int] = {}
        self._events = self._claims = self._jobs = self._sessions = self._skipped = 0

    @property
    def last_seq(self) -> int:
        return self._replay.ws.seq

    def take(self, event: Event) -> None:
        self._events += 1
        entry = stored_event(event)
        try:
            self._follow(entry)
        except (ValueError, LookupError, AttributeError) as error:
            self._report(f"event {event.seq} ({event.type}) does not fit the events before it: {error}")
            self._replay.ws.seq = event.seq
        if event.job_id is not None:
            self.last_change[event.job_id] = event.seq
        key = self._replay.completed(entry).session_id
        if key is not None:
            self.last_change[named(key)] = event.seq

    def check_job(self, stored: JobView) -> None:
        self._jobs += 1
        job = self._replay.ws.jobs[stored.job_id]
        if job is None:
            self._report(f"job {stored.job_id!r} is stored, but no event mentions it")
        elif not self._is_unwritten_expiry(job, stored):
            self._compare(f"job {stored.job_id!r}", views.job_view(self._replay.ws, job, with_documents=False), stored)

    def check_session(self, stored: SessionView) -> None:
        self._sessions += 1
        key = key_of(stored)
        session = self._replay.ws.sessions[key]
        if session is None:
            self._report(f"session {key!r} is stored, but no event mentions it")
        elif not (session.status == "open" and stored.status == "expired"):  # expiry not recorded yet
            expected = views.session_view(self._replay.ws, session, with_context=False)
            self._compare(f"session {key!r}", expected, stored)

    def skip(self) -> None:
        """Count a job or session that cannot be checked."""
        self._skipped += 1

    def logged_jobs(self) -> set[str]:
        return {name for name, job in self._replay.ws.jobs.items() if job is not None}

    def logged_sessions(self) -> set[SessionKey]:
        return {name for name, session in self._replay.ws.sessions.items() if session is not None}

    def report_missing(self, what: str, names: AbstractSet[str]) -> None:
        for name in sorted(names):
            self._report(f"the log mentions {what} {name!r}, which is not stored")

    def verdict(self) -> Verification:
        return Verification(
            events=self._events,
            claims=self._claims,
            jobs=self._jobs,
            sessions=self._sessions,
            skipped=self._skipped,
            last_seq=self.last_seq,
            problems=self.problems,
        )

    def _follow(self, entry: LogEntry) -> None:
        self._check_claim(entry)
        try:
            self._replay.take(entry)
        except GapInLog as gap:
            self._report(str(gap))
            self._replay.take(entry, past_a_gap=True)

    def _check_claim(self, entry: LogEntry) -> None:
        job_id = entry.job_id or ""
        if entry.type == "claimed":
            self._claims += 1
            if job_id in self._live:
                self._report(f"event {entry.seq} claims {job_id!r}, which has a live claim ({self._live[job_id]})")
            self._live[job_id] = entry.seq
            return
        details = decode_details(entry)
        if isinstance(details, Ended):
            live = self._live.pop(job_id, None)
            if live != details.fencing_token:
                self._report(
                    f"event {entry.seq} ends claim {details.fencing_token} on {job_id!r}, "
                    + ("which has no live claim" if live is None else f"whose live claim is {live}")
                )

    def _is_unwritten_expiry(self, job: Job, stored: JobView) -> bool:
        """An expired lease has no owner immediately; the next write or sweep records it."""
        if job.claim is None or stored.claim is not None or not stored.previous:
            return False
        last = stored.previous[0]
        return last.how == "expired" and last.fencing_token == job.claim.fencing_token

    def _compare(self, what: str, expected: JobView | SessionView, stored: JobView | SessionView) -> None:
        for field in sorted({*expected.__struct_fields__} - _UNLOGGED):
            logged, kept = getattr(expected, field), getattr(stored, field)
            if logged != kept:
                self._report(f"{what}: according to the log, {field} is {logged!r}, but {kept!r} is stored")

    def _report(self, problem: str) -> None:
        if len(self.problems) < PROBLEMS_SHOWN:
            self.problems.append(problem)


def key_of(session: SessionView) -> SessionKey:
    return session_key(session.principal, session.session_id)


def named(key: SessionKey) -> str:
    """A session may have the same name as a job; a job name never contains a space."""
    return f"session {key}"
