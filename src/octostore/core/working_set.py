"""The rows that a batch of commands needs, in memory, with a record of what changed.

A store fills it (`add_*`), `decide` works on it, and the store saves what changed. Asking for a row that was not loaded
is an error, never "does not exist": that mistake would hand a job to two owners.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from octostore.core.events import Details, LogEntry, encode_details
from octostore.core.evolve import evolve
from octostore.core.limits import EMPTY_COUNT_MAX
from octostore.core.line import Line
from octostore.core.model import EndedRequest, Job, Queue, Session, Token
from octostore.core.needs import JobFilter, Selection
from octostore.core.replies import Recovery
from octostore.core.session_keys import SessionKey

if TYPE_CHECKING:
    from octostore.core.queue_counts import QueueCounts


class WorkingSet(msgspec.Struct):
    now: int
    seq: int
    jobs: dict[str, Job | None] = {}
    sessions: dict[SessionKey, Session | None] = {}
    queues: dict[str, Queue | None] = {}
    tokens: dict[str, Token | None] = {}
    claim_counts: dict[tuple[str, bool], int] = {}
    """(principal, True for its locks or False for its other claims) -> how many it has, if needed."""
    session_counts: dict[str, int] = {}
    """Principal -> its number of live sessions, if needed."""
    queued_counts: dict[str, int] = {}
    """Principal -> its number of queued jobs before this batch, if needed."""
    documents: dict[int, bytes] = {}
    checkpoints: dict[str, bytes | None] = {}
    contexts: dict[SessionKey, bytes] = {}
    context_sizes: dict[SessionKey, int] = {}
    """In bytes, including contexts that are not loaded."""
    requests: dict[tuple[str, str, str], str] = {}
    """(principal, request id, queue) of live claims -> the job."""
    ended: dict[tuple[str, str], list[EndedRequest]] = {}
    """(principal, request id) -> its ended claims and sessions, if needed."""
    listed_to: dict[JobFilter, str | None] = {}
    """The name up to which each list is complete; None if all of it is."""
    sessions_with_all_claims: set[SessionKey] = set()
    has_all_expired: bool = False
    """Whether everything that has expired was loaded; if not, there is more to sweep."""
    next_expiry: int | None = None
    """When the next claim or session expires; loaded only if needed."""
    queue_counts: "dict[tuple[str, Selection], QueueCounts]" = {}
    """Queue counts so far."""
    count_to: int = EMPTY_COUNT_MAX
    """The limit of these counts."""
    count_queue: "Callable[[WorkingSet, str, Selection], QueueCounts] | None" = None
    """Counts a selection of a queue as the store's transaction sees it, without the jobs loaded here."""
    line: Line = msgspec.field(default_factory=Line)
    _bound: dict[SessionKey, set[str]] = {}
    """Session -> the jobs whose claims were bound to it; some of these claims may have ended by now."""

    entries: list[LogEntry] = []
    new_documents: dict[int, bytes] = {}
    changed_jobs: dict[str, Job] = {}
    renewed_jobs: dict[str, Job] = {}
    """Jobs for which only the heartbeat changed: by far the most frequent write, and far smaller than the row."""
    queued_changes: dict[str, int] = {}
    """Principal -> the change in its number of queued jobs."""
    changed_sessions: dict[SessionKey, Session] = {}
    changed_queues: dict[str, Queue] = {}
    changed_tokens: dict[str, Token] = {}
    changed_checkpoints: dict[str, bytes | None] = {}
    changed_contexts: dict[SessionKey, bytes] = {}
    new_ended: list[EndedRequest] = []
    is_probed: bool = False
    recovered: list[Recovery] = []
    hastened: list[Job] = []
    """Jobs that will be free earlier than expected, so their waiters must be woken."""

    # Filled by stores

    def add_job(self, job: Job) -> None:
        self.jobs[job.job_id] = job
        self.line.add(job, self.now)
        self._bind(job)

    # Used by the core

    def job(self, job_id: str) -> Job:
        """The job; a new, free one if the name is unknown. It is only created by its first event."""
        return self.jobs[job_id] or Job(job_id, created_at=self.now)

    def session(self, session_id: SessionKey) -> Session | None:
        return self.sessions[session_id]

    def claims_of(self, session_id: SessionKey) -> Iterator[Job]:
        """The loaded jobs whose claims are bound to the session; all of them if `sessions_with_all_claims` says so.

        By name, because the log's order must not depend on the order in which a store finds them.
        """
        for job_id in sorted(self._bound.get(session_id, ())):
            job = self.jobs[job_id]
            if job is not None and job.claim is not None and job.claim.session_id == session_id:
                yield job

    def token(self, token_id: str) -> Token | None:
        return self.tokens[token_id]

    def count_claim(self, principal: str, *, is_lock: bool, change: int) -> None:
        whose = principal, is_lock
        if whose in self.claim_counts:
            self.claim_counts[whose] += change

    def count_session(self, principal: str, change: int) -> None:
        if principal in self.session_counts:
            self.session_counts[principal] += change

    def count_queued(self, principal: str, change: int) -> None:
        self.queued_changes[principal] = self.queued_changes.get(principal, 0) + change

    def counts_of(self, queue: str, selection: Selection) -> "QueueCounts":
        """For jobs that are not loaded. None of these changes in this transaction, so they are counted once."""
        key = queue, selection
        if key not in self.queue_counts:
            if self.count_queue is None:
                raise LookupError(f"queue {queue!r} cannot be counted")
            self.queue_counts[key] = self.count_queue(self, queue, selection)
        return self.queue_counts[key]

    def document(self, seq: int | None) -> bytes | None:
        return None if seq is None else self.documents[seq]

    def context(self, session: Session) -> bytes | None:
        return None if session.context_seq is None else self.contexts[session.session_id]

    def context_bytes(self, session: Session) -> int | None:
        if session.context_seq is None:
            return None
        context = self.contexts.get(session.session_id)
        return self.context_sizes[session.session_id] if context is None else len(context)

    def touch_job(self, job: Job) -> None:
        self.jobs[job.job_id] = self.changed_jobs[job.job_id] = job
        self._bind(job)

    def renew_job(self, job: Job) -> None:
        self.renewed_jobs[job.job_id] = job

    def touch_session(self, session: Session) -> None:
        self.changed_sessions[session.session_id] = session

    def touch_token(self, token: Token) -> None:
        self.tokens[token.token_id] = self.changed_tokens[token.token_id] = token

    def set_checkpoint(self, job_id: str, data: bytes | None) -> None:
        if data is not None or self.checkpoints.get(job_id, b"") is not None:  # unless there is known to be none
            self.checkpoints[job_id] = self.changed_checkpoints[job_id] = data

    def set_context(self, session: Session, context: bytes) -> None:
        self.contexts[session.session_id] = self.changed_contexts[session.session_id] = context

    def remember(self, ended: EndedRequest) -> None:
        self.new_ended.append(ended)
        self.ended.setdefault((ended.principal, ended.request_id), []).append(ended)

    def record(
        self,
        event_type: str,
        details: Details,
        *,
        actor: str,
        job: Job | None = None,
        session_id: SessionKey | None = None,
        queue: str | None = None,
        document: bytes | None = None,
    ) -> LogEntry:
        """Append an event and apply it to the rows: nothing that is an event changes them in any other way."""
        self.seq += 1
        if document is not None:
            self.documents[self.seq] = self.new_documents[self.seq] = document
        entry = LogEntry(
            self.seq,
            self.now,
            event_type,
            actor,
            job.job_id if job else None,
            job.queue if job and job.queue else queue,
            session_id,
            encode_details(details),
        )
        self.entries.append(entry)
        if job is not None:
            self.jobs[job.job_id] = job
        evolve(self, entry, details)
        if job is not None:
            self.line.add(job, self.now)
        return entry

    def _bind(self, job: Job) -> None:
        if job.claim is not None and job.claim.session_id is not None:
            self._bound.setdefault(job.claim.session_id, set()).add(job.job_id)

    @property
    def has_changes(self) -> bool:
        return bool(
            self.entries
            or self.changed_jobs
            or self.renewed_jobs
            or self.changed_sessions
            or self.changed_checkpoints
            or self.is_probed
        )
