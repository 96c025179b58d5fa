"""What the model keeps: one plain value for each thing that the documents talk about.

Moments are milliseconds since 1970, durations milliseconds, documents decoded. A lease is a name that the model makes
up; `comparing.py` learns which real secret stands for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Fields = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """An answer: what kind of reply or error it is, and what it says. A field that is left out has its default."""

    kind: str
    fields: Fields


class Refused(Exception):  # it is an answer, too
    def __init__(self, kind: str, **fields: Any) -> None:
        super().__init__(kind, fields)
        self.told = Told(kind, fields)


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
    """None: it is bound to `session_id`, and lives as long as that."""
    session_id: str | None = None
    """Here and below, with whose it is: `principal/id`, as events have it."""
    request_id: str | None = None
    metadata: Any = None
    lock_delay_ms: int = 0
    is_lock: bool = False
    progress: Fields | None = None
    holder: str | None = None
    in_session: str | None = None
    """The session that whoever acquired the lock named, whether or not it is bound to it."""
    is_replayed: bool = False
    before: tuple[str, int] = ("free", 0)
    """The status of the job when it was claimed, and its attempts."""
    stop: Fields | None = None
    """What it was asked, as readers see it."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The newest number of each kind of write."""
    host: str | None = None
    pid: int | None = None
    max_silence_ms: int | None = None
    progress_at: int = 0
    """When the owner last reported something, or got the job."""
    is_told_stuck: bool = False
    """The log says so, and the owner has reported nothing since."""
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
    """The event that put it in its queue: the older one is first, where all else is equal."""
    trace: str | None = None
    """Here and in a claim, what it came with (docs/decisions/0051)."""
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
    """A request id that made a claim or opened a session, which has ended."""

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
    """The default of docs/how-to/queues.md: 2 s, doubling, at most 15 minutes. There is no chance in the model."""

    base_ms: int = 2_000
    factor: float = 2
    cap_ms: int = 900_000

    def after(self, failures: int) -> int:
        delay: float = self.base_ms
        for _ in range(failures - 1):
            delay = min(delay * self.factor, self.cap_ms)
        return round(min(delay, self.cap_ms))


def named_in(command: Any) -> str:
    """Which session a command means: its principal's, unless it says whose (docs/decisions/0035)."""
    name = command.session_id or ""
    return name if "/" in name else f"{command.principal}/{name}"


def id_in(name: str | None) -> str | None:
    return None if name is None else name.split("/")[-1]


Rule = Callable[[Any], Told]
