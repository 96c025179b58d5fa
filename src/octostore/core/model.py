"""The rows that stores keep.

Only the core changes them, and they contain secrets (`lease_id`, `request_id`): callers get views of them
(`replies.py`). All moments (`_at`) are milliseconds since 1970, all durations (`_ms`) milliseconds. JSON values stay
encoded: the core measures them and passes them on, and never looks inside.
"""

from typing import Literal, TypeAlias

import msgspec

from octostore.core.secret_free import SecretFree
from octostore.core.session_keys import SessionKey

Status: TypeAlias = Literal["free", "queued", "claimed", "done", "dead"]
SessionStatus: TypeAlias = Literal["open", "closed", "expired"]
Phase: TypeAlias = Literal["idle", "planning", "executing", "blocked", "done", "error"]
Outcome: TypeAlias = Literal["released", "done", "failed", "deferred"]
HowEnded: TypeAlias = Literal[
    "released", "done", "failed", "deferred", "expired", "force_released", "cancelled", "undone"
]
LOSSES: tuple[HowEnded, ...] = ("expired", "force_released")
"""How an owner can lose a claim it has not released. Not `cancelled`: a cancelled job is not taken over."""
LastOutcome: TypeAlias = HowEnded | Literal["discarded"]
RequestEnd: TypeAlias = HowEnded | Literal["closed", "handed_over"]
Scope: TypeAlias = Literal["read", "claim", "admin"]
HealthStatus: TypeAlias = Literal["ok", "degraded", "unhealthy"]

LOCAL = "local"
"""The principal of everyone who opens the store directly: anyone who can write the file may do anything in it."""
SYSTEM = "octostore"
"""The actor of events caused only by the passage of time, like an expiry."""
SERVER = "server"
"""The principal for what a server does on its own."""
RESERVED = {LOCAL, SYSTEM, SERVER}
"""Reserved: in the log, a token with such a name would look like one of these."""


class Progress(msgspec.Struct, frozen=True):
    """What the owner last said it was doing. Heartbeats show life; this shows movement."""

    note: str | None
    percent: float | None
    at: int


class StopRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to the owner to stop. With `cancels`, the job is dead once the claim ends, unless it is done."""

    at: int
    by: str
    reason: str | None = None
    cancels: bool = False
    delivered_at: int | None = None


class Claim(SecretFree, msgspec.Struct):
    """A live claim. It belongs to the call that made it; only that caller knows `lease_id`."""

    owner: str
    principal: str
    fencing_token: int
    ttl_ms: int
    lock_delay_ms: int
    claimed_at: int
    heartbeat_at: int
    expires_at: int | None
    """None for a claim bound to a session: it lives as long as the session."""
    session_id: SessionKey | None
    metadata: bytes | None
    lease_id: str = ""
    request_id: str | None = None
    is_lock: bool = False
    """Acquired through the lock routes; its holder may acquire it again."""
    holder: str | None = None
    """Which of several agents that share a principal holds the lock, if they say so."""
    is_replayed: bool = False
    """Returned more than once, so someone knows of it even if the first caller is gone."""
    was_done: bool = False
    """The job was already `done` when it was claimed, and will be `done` again if the claim is undone."""
    heartbeat_number: int | None = None
    checkpoint_number: int | None = None
    """The newest write of each kind, as numbered by the owner; older ones are late."""
    host: str | None = None
    pid: int | None = None
    """The process that made it, if known."""
    max_silence_ms: int | None = None
    last_progress_at: int | None = None
    """When the owner last reported progress, or got the job; None if no `max_silence` was set."""
    stuck_at: int | None = None
    """When the log last recorded it as stuck."""
    stop_request: bytes | None = None
    """As JSON, because few claims ever have a stop request."""
    attempt_traceparent: str | None = None
    """The trace of this attempt. Like the job's `traceparent`, it is only carried along."""
    progress: Progress | None = None


class Attempt(SecretFree, msgspec.Struct, frozen=True, omit_defaults=True):
    """An ended claim: what its successor sees, and enough to repeat the reply to a repeated release."""

    owner: str
    fencing_token: int
    attempt: int
    claimed_at: int
    ended_at: int
    how: HowEnded
    status: Status
    available_at: int
    error: str | None = None
    note: str | None = None
    reason: str | None = None
    """Why it ended, if an operator, its session or an undo ended it."""
    traceparent: str | None = None
    lease_id: str = ""


class EndedRequest(SecretFree, msgspec.Struct, frozen=True):
    """A `request_id` whose claim or session has ended: it must not make another.

    `job_id` is None for a session's.
    """

    principal: str
    request_id: str
    job_id: str | None
    queue: str | None
    session_id: SessionKey | None
    how: RequestEnd
    ended_at: int
    owner: str
    claimed_at: int
    fencing_token: int = 0
    attempt: int = 0


class Job(msgspec.Struct):
    """A name, at most one live claim, and a history. `claim` is set exactly if `status` is `claimed`."""

    job_id: str
    status: Status = "free"
    created_at: int = 0
    available_at: int = 0
    """Not claimable before this moment: a retry's backoff, a scheduled start, or a lock-delay."""
    attempts: int = 0
    """Attempts used up: failures and expiries since the last clean end. The running one is `attempts + 1`."""
    last_outcome: LastOutcome | None = None
    error: str | None = None
    note: str | None = None
    result_seq: int | None = None
    """The event that carried the result; the document is stored with it."""

    queue: str | None = None
    """None if nobody enqueued it: it is a lock, and is never retried."""
    kind: str | None = None
    priority: int = 0
    max_attempts: int = 0
    enqueued_seq: int = 0
    enqueued_by: str | None = None
    """The principal that enqueued it, whose queued jobs are counted."""
    payload_seq: int | None = None
    traceparent: str | None = None
    """The trace in which it was enqueued."""

    history: bytes = b"[]"
    """The last attempts, oldest first, as JSON: most commands only pass it along."""

    claim: Claim | None = None

    @property
    def is_enqueued(self) -> bool:
        return self.queue is not None


class Session(SecretFree, msgspec.Struct):
    """A worker's own heartbeat, which claims can be bound to, and the context that outlives it."""

    session_id: SessionKey
    agent: str
    principal: str
    status: SessionStatus
    ttl_ms: int
    opened_at: int
    heartbeat_at: int
    expires_at: int
    """Once it is closed or expired: when it ended."""
    resumed: bool = False
    context_seq: int | None = None
    """The event with which its context was saved; the document is stored with the session."""
    lease_id: str = ""
    request_id: str | None = None
    phase: Phase = "idle"
    offered: bool = False
    """Handed over to `agent`, who has not opened it yet."""
    note: str | None = None
    """The note from the agent that handed it over."""
    in_flight: bytes = b"[]"
    """The jobs it held when it was lost and has not claimed since, as JSON."""
    giver_lease_id: str | None = None
    """The lease that handed it over: a secret, to recognise a repeat of that call."""
    is_replayed: bool = False
    """Returned more than once, so someone knows of it even if the first caller is gone."""
    save_number: int | None = None
    """The newest context, as numbered by the holder; older ones are late."""
    without_lease: bool = False
    """A lock client's session: its principal may write to it without its lease."""


class Pause(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a queue hands out no jobs: since when, by whose order, and the reason."""

    at: int
    by: str
    reason: str | None = None


class Queue(msgspec.Struct):
    """A queue with settings. `claimed` is counted when the row is loaded, and kept current within a batch."""

    name: str
    max_claimed: int | None = None
    pause: bytes | None = None
    """As JSON, because few queues are paused."""
    claimed: int = 0

    @property
    def is_full(self) -> bool:
        """Whether as many of its jobs are claimed as may be."""
        return self.max_claimed is not None and self.claimed >= self.max_claimed

    @property
    def hands_out(self) -> bool:
        """Whether its jobs, if any, can be claimed."""
        return self.pause is None and not self.is_full


class Token(SecretFree, msgspec.Struct):
    """A right to act, for anyone who knows its secret; only the secret's digest is stored."""

    token_id: str
    principal: str
    scopes: tuple[Scope, ...]
    prefix: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    digest: bytes = b""

    def is_valid(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


_decode_history = msgspec.json.Decoder(tuple[Attempt, ...]).decode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_stop_request = msgspec.json.Decoder(StopRequest).decode
_decode_pause = msgspec.json.Decoder(Pause).decode


def read_history(job: Job) -> tuple[Attempt, ...]:
    return _decode_history(job.history)


def read_stop_request(claim: Claim) -> StopRequest | None:
    return None if claim.stop_request is None else _decode_stop_request(claim.stop_request)


def read_pause(queue: Queue | None) -> Pause | None:
    return None if queue is None or queue.pause is None else _decode_pause(queue.pause)


def read_in_flight(session: Session) -> tuple[str, ...]:
    return _decode_names(session.in_flight)
