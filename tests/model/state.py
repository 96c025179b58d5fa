"""The model's state: one plain class for each concept of the documents.

Moments are milliseconds since 1970, durations are milliseconds, documents are decoded. The model makes up names for
leases; `comparing.py` pairs them with the real secrets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Fields = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What a command returns: the class of the reply or error, and its fields. Missing fields have their defaults."""

    kind: str
    fields: Fields


class Refused(Exception):  # a reply, not an error of the model
    def __init__(self, kind: str, **fields: Any) -> None:
        super().__init__(kind, fields)
        self.reply = Reply(kind, fields)


@dataclass
class Event:
    seq: int
    at: int
    type: str
    actor: str
    job_id: str | None
    queue: str | None
    session_id: str | None
    details: Fields


@dataclass
class Claim:
    owner: str
    principal: str
    token: int
    lease: str
    ttl_ms: int
    claimed_at: int
    heartbeat_at: int
    expires_at: int | None
    """None if it is bound to `session_id`, and expires with it."""
    session_id: str | None = None
    """Here and below, `principal/id`, as in events."""
    request_id: str | None = None
    metadata: Any = None
    lock_delay_ms: int = 0
    is_lock: bool = False
    progress: Fields | None = None
    holder: str | None = None
    in_session: str | None = None
    """The session named when the lock was acquired, whether or not it is bound to it."""
    is_replayed: bool = False
    before: tuple[str, int] = ("free", 0)
    """The job's status and attempts when it was claimed."""
    stop: Fields | None = None
    """The request to stop, as readers see it."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The newest number of each kind of write."""
    host: str | None = None
    pid: int | None = None
    max_silence_ms: int | None = None
    progress_at: int = 0
    """When the owner last reported progress, or claimed the job."""
    is_logged_stuck: bool = False
    """Whether the current stall is in the log."""
    trace: str | None = None


@dataclass
class Past:
    """A claim that has ended."""

    owner: str
    token: int
    lease: str | None
    attempt: int
    claimed_at: int
    ended_at: int
    how: str
    status: str
    available_at: int
    error: str | None
    note: str | None
    reason: str | None
    trace: str | None


@dataclass
class Job:
    name: str
    created_at: int
    status: str = "free"
    available_at: int = 0
    attempts: int = 0
    last_outcome: str | None = None
    error: str | None = None
    note: str | None = None
    result: Any = None
    checkpoint: Any = None
    queue: str | None = None
    kind: str | None = None
    priority: int = 0
    max_attempts: int = 0
    payload: Any = None
    enqueuer: str | None = None
    enqueued: int = 0
    """The `seq` of its `enqueued` event, which breaks ties in the queue."""
    trace: str | None = None
    """The traceparent, here and in a claim (docs/decisions/0051)."""
    past: list[Past] = field(default_factory=list)
    claim: Claim | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        """Lowest priority, then earliest due, then oldest (docs/how-to/queues.md)."""
        return self.priority, self.available_at, self.enqueued


@dataclass
class Session:
    id: str
    agent: str
    principal: str
    lease: str
    request_id: str | None
    ttl_ms: int
    opened_at: int
    heartbeat_at: int
    expires_at: int
    status: str = "open"
    resumed: bool = False
    context: Any = None
    context_seq: int | None = None
    context_bytes: int | None = None
    phase: str = "idle"
    offered: bool = False
    note: str | None = None
    in_flight: list[str] = field(default_factory=list)
    giver_lease: str | None = None
    is_replayed: bool = False
    save_number: int | None = None
    without_lease: bool = False

    @property
    def name(self) -> str:
        return f"{self.principal}/{self.id}"


@dataclass(frozen=True)
class EndedRequest:
    """A request id whose claim or session has ended."""

    principal: str
    request_id: str
    job_id: str | None
    queue: str | None
    session_id: str | None
    past: Past | None


@dataclass
class Token:
    name: str
    principal: str
    digest: bytes
    scopes: tuple[str, ...]
    prefix: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None = None

    def is_valid(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True)
class Backoff:
    """The default of docs/how-to/queues.md: 2 s, doubling, up to 15 minutes; without jitter."""

    base_ms: int = 2_000
    factor: float = 2
    cap_ms: int = 900_000

    def after(self, failures: int) -> int:
        delay: float = self.base_ms
        for _ in range(failures - 1):
            delay = min(delay * self.factor, self.cap_ms)
        return round(min(delay, self.cap_ms))


def session_key(command: Any) -> str:
    """The session that a command means: its own principal's, unless it names another (docs/decisions/0035)."""
    name = command.session_id or ""
    return name if "/" in name else f"{command.principal}/{name}"


def session_id_of(name: str | None) -> str | None:
    return None if name is None else name.split("/")[-1]


Rule = Callable[[Any], Reply]
