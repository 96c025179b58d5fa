"""What callers get. The library and HTTP return the same types, so a field has one name everywhere.

Only the reply that makes a claim or opens a session carries a secret: its `lease_id`.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from octostore._version import __version__
from octostore.core.documents import Decoded, raw
from octostore.core.events import Event
from octostore.core.model import HealthStatus, HowEnded, LastOutcome, Outcome, Phase, Scope, SessionStatus, Status
from octostore.core.moments import Moment
from octostore.core.secret_free import SecretFree


class Reply(SecretFree, msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a command or a question."""

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self))  # encoded documents have none


class ProgressView(Reply, frozen=True):
    """What an owner last said it was doing, and when."""

    note: str | None
    percent: float | None
    at: Moment


class StopView(Reply, frozen=True):
    """A request to the owner to stop."""

    reason: str | None
    requested_at: Moment
    requested_by: str
    cancels: bool
    """Whether the job will be dead once the claim ends, unless the outcome is `done`."""
    delivered_at: Moment | None
    """When the owner first learned of it."""


class JobOwner(Reply, frozen=True, dict=True):
    """The current owner of a job. It was alive at `heartbeat_at`, and last reported progress at `progress.at`."""

    job_id: str
    owner: str
    principal: str
    """The identity that its token belongs to; `owner` is the name it chose."""
    raw_metadata: msgspec.Raw = msgspec.field(name="metadata")
    claimed_at: Moment
    heartbeat_at: Moment
    expires_at: Moment
    fencing_token: int
    attempt: int
    progress: ProgressView | None
    session_id: str | None
    host: str | None = None
    pid: int | None = None
    """The process that made the claim, as reported by the owner. For a plain HTTP client, `host` is its address."""
    max_silence: float | None = None
    """How many seconds it may go without reporting progress."""
    last_progress_at: Moment | None = None
    """When it last reported progress, or claimed the job; only with `max_silence`."""
    stuck: bool = False
    """Whether it sends heartbeats, but has reported no progress for longer than `max_silence`."""
    stop_requested: StopView | None = None
    traceparent: str | None = None
    """The W3C trace context of this attempt, as the caller passed it."""

    metadata = Decoded()


class Heartbeat(Reply, frozen=True):
    """A live claim: its owner was alive at `heartbeat_at` and has until `expires_at` to send the next heartbeat.

    A claim bound to a session is kept alive by the session's heartbeats.
    """

    job_id: str
    fencing_token: int
    heartbeat_at: Moment
    expires_at: Moment
    progress: ProgressView | None
    late_at: Moment
    """When the owner will have missed two heartbeats, which makes the claim `late`."""
    late: bool
    stuck: bool
    """Whether it sends heartbeats, but has reported no progress for longer than `max_silence`."""


class Heartbeats(Reply, frozen=True):
    """The live claims of the jobs you named, as of `at`. Jobs without an owner are left out."""

    at: Moment
    claims: list[Heartbeat]


class AttemptView(Reply, frozen=True):
    """An earlier claim on the job, and how it ended."""

    owner: str
    attempt: int
    fencing_token: int
    claimed_at: Moment
    ended_at: Moment
    how: HowEnded
    """An outcome, or `expired`, `force_released`, `cancelled` or `undone`."""
    error: str | None
    note: str | None
    """Its owner's note for the next owner."""
    reason: str | None = None
    """Why it ended, if an operator, its session or an undo ended it."""
    traceparent: str | None = None
    """The W3C trace context of that attempt."""


class ClaimReply(Reply, frozen=True, dict=True):
    """The reply to a claim. Its `status` says which fields are set.

    - `claimed`: the job is yours. `lease_id` authorises your writes; send `fencing_token` with your writes to other
      systems. `payload` came with the job; `checkpoint`, `note` and `previous` are what earlier attempts left.
    - `held`: `owner` has had it since `claimed_at`, was alive at `heartbeat_at`, and keeps it until `expires_at`, or
      longer if it sends another heartbeat.
    - `done`: finished, with `result`.
    - `delayed`: no one owns the job, but it cannot be claimed before `available_at` (backoff, schedule, lock delay),
      while its queue is paused (`pause`), or while as many of its queue's jobs are claimed as may be (`max_claimed`).
    - `dead`: it exhausted its attempts or was cancelled, and waits for a person to requeue it.
    - `empty` (`claim_next`, `claim_task`): nothing in the queue can be claimed now. `queue_status` says what else is in
      it, and `available_at` says when the next job is due.

    For `claim_task`, `session` is the session that was opened, and `held` is about the session. If you passed the
    session's `lease_id`, `session` is None, and `held` is about the task that the session already has.
    """

    status: Literal["claimed", "held", "done", "delayed", "dead", "empty"]
    job_id: str | None
    queue: str | None = None
    kind: str | None = None

    owner: str | None = None
    principal: str | None = None
    raw_metadata: msgspec.Raw = raw("metadata")
    fencing_token: int | None = None
    attempt: int | None = None
    claimed_at: Moment | None = None
    heartbeat_at: Moment | None = None
    expires_at: Moment | None = None
    session_id: str | None = None

    lease_id: str | None = None
    """The secret that authorises writes under this claim."""
    replayed: bool = False
    """Whether this is the claim of an earlier call with the same `request_id`."""
    ttl: float | None = None
    remaining_ms: int | None = None
    """How long the lease lasts, from the time you sent the request."""
    renew_after_ms: int | None = None
    """How long until the next heartbeat is due."""
    raw_payload: msgspec.Raw = raw("payload")
    raw_checkpoint: msgspec.Raw = raw("checkpoint")
    note: str | None = None
    previous: list[AttemptView] = []
    """Earlier attempts, newest first."""

    progress: ProgressView | None = None
    retry_after_ms: int | None = None
    """How long until a new claim may succeed."""
    available_at: Moment | None = None
    raw_result: msgspec.Raw = raw("result")
    error: str | None = None
    session: "SessionReply | None" = None
    host: str | None = None
    pid: int | None = None
    max_silence: float | None = None
    stuck: bool = False
    all_done: bool | None = None
    """Whether every job in the queue is done or dead."""
    queue_status: "QueueStatus | None" = None
    pause: "PauseView | None" = None
    max_claimed: int | None = None
    """The limit of the job's queue, if that is why the job cannot be claimed."""
    traceparent: str | None = None
    """The W3C trace context in which the job was enqueued."""
    attempt_traceparent: str | None = None
    """The W3C trace context of this attempt."""

    metadata = Decoded()
    payload = Decoded()
    checkpoint = Decoded()
    result = Decoded()


class HeartbeatReply(Reply, frozen=True):
    """The lease was extended."""

    job_id: str
    expires_at: Moment
    remaining_ms: int
    """How long the lease lasts, from the time you sent the request."""
    renew_after_ms: int
    """How long until the next heartbeat is due."""
    number: int | None = None
    """The number of the newest write of this kind. If it is higher than yours, your write came too late."""
    stuck: bool = False
    """Whether you have reported no progress for `max_silence` seconds."""
    stop_requested: StopView | None = None
    """Someone wants you to stop: finish what must not be left half done, and release the job."""


class CheckpointReply(Reply, frozen=True):
    """The checkpoint was saved."""

    job_id: str
    saved_at: Moment
    number: int | None = None


class ReleaseReply(Reply, frozen=True):
    """How the claim ended, and the job's new `status`. A repeated release gets the same reply."""

    job_id: str
    outcome: Outcome
    status: Status
    attempt: int
    fencing_token: int
    released_at: Moment
    available_at: Moment
    """When the job can be claimed again."""
    traceparent: str | None = None
    """The W3C trace context of the attempt that ended."""


class UndoReply(Reply, frozen=True):
    """`undone` is false if the claim or session had already ended, or if a caller may rely on it."""

    undone: bool


class EnqueueReply(Reply, frozen=True):
    """A job in its queue. `created` is true if this call enqueued it; otherwise, nothing changed."""

    job_id: str
    created: bool
    status: Status
    queue: str | None
    kind: str | None
    priority: int
    max_attempts: int
    available_at: Moment


class JobView(Reply, frozen=True, dict=True):
    """A job as it is now. A name that no one has ever claimed or enqueued is `free`, and its `is_known` is false."""

    job_id: str
    status: Status
    queue: str | None
    kind: str | None
    priority: int | None
    attempts: int
    max_attempts: int | None
    available_at: Moment | None
    """When it can be claimed, if it is free or queued."""
    created_at: Moment | None
    claim: JobOwner | None
    """The live claim, if any."""
    owner: str | None
    last_outcome: LastOutcome | None
    """How the last claim ended, unless an operator has `cancelled` or `discarded` the job since."""
    error: str | None
    note: str | None
    raw_payload: msgspec.Raw = raw("payload")
    raw_result: msgspec.Raw = raw("result")
    raw_checkpoint: msgspec.Raw = raw("checkpoint")
    previous: list[AttemptView] = []
    is_known: bool = True
    traceparent: str | None = None
    """The W3C trace context in which it was enqueued."""

    payload = Decoded()
    result = Decoded()
    checkpoint = Decoded()


class SimilarNames(Reply, frozen=True):
    """Whether there is a job with this name; if not, up to three similar names, best first."""

    job_id: str
    is_known: bool
    similar: list[str]


class JobPage(Reply, frozen=True):
    """One page of jobs. Pass its `cursor` to get the next page; the last page has none."""

    jobs: list[JobView]
    cursor: str | None

    def __iter__(self) -> Iterator[JobView]:
        return iter(self.jobs)


class EventPage(Reply, frozen=True):
    """One page of events. `after` is where the next page starts, even if this one is empty."""

    events: list[Event]
    after: int

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)


class InFlight(Reply, frozen=True, dict=True):
    """The current state of a job that a session was working on before the session was resumed or handed over.

    If `is_ours` is true, the job was handed over with its live claim, which the session's lease covers. Otherwise, it
    was taken back when the session was lost: claim it again, unless `owner` has it now or it is `done` or `dead`.
    """

    job_id: str
    status: Status
    is_ours: bool
    owner: str | None
    fencing_token: int | None
    queue: str | None
    kind: str | None
    attempts: int
    available_at: Moment | None
    raw_payload: msgspec.Raw = msgspec.field(name="payload")
    raw_checkpoint: msgspec.Raw = msgspec.field(name="checkpoint")
    note: str | None

    payload = Decoded()
    checkpoint = Decoded()


class SessionReply(Reply, frozen=True, dict=True):
    """The session is open, and yours."""

    session_id: str
    agent: str
    lease_id: str
    """The secret that authorises writes under this session."""
    resumed: bool
    """Whether a session with this id existed before."""
    replayed: bool
    """Whether this is the session of an earlier call with the same `request_id`."""
    ttl: float
    opened_at: Moment
    expires_at: Moment
    remaining_ms: int
    renew_after_ms: int
    raw_context: msgspec.Raw = msgspec.field(name="context")
    context_seq: int | None
    """The event that saved the context."""
    phase: Phase = "idle"
    note: str | None = None
    """The note from the agent that handed it over."""
    in_flight: list[InFlight] = []
    """The jobs it was working on before it was resumed or handed over."""

    context = Decoded()


class KeepaliveReply(Reply, frozen=True):
    """The session and every claim bound to it were extended."""

    session_id: str
    expires_at: Moment
    remaining_ms: int
    renew_after_ms: int
    stuck_jobs: list[str] = []
    """Its jobs for which you have reported no progress for `max_silence` seconds."""
    stop_requested: dict[str, StopView] = {}
    """Its jobs that someone wants stopped."""


class SavedReply(Reply, frozen=True):
    """The context was saved."""

    session_id: str
    context_seq: int
    """The event that saved it."""
    phase: Phase = "idle"
    number: int | None = None


class HandedOverReply(Reply, frozen=True):
    """The session was handed over: `agent` has until `expires_at` to open it. `jobs` went with it."""

    session_id: str
    agent: str
    expires_at: Moment
    jobs: list[str]


class ClosedReply(Reply, frozen=True):
    """The session was closed."""

    session_id: str


class SessionView(Reply, frozen=True, dict=True):
    """A session as it is now."""

    session_id: str
    agent: str
    principal: str
    status: SessionStatus
    opened_at: Moment
    heartbeat_at: Moment
    expires_at: Moment
    raw_context: msgspec.Raw = msgspec.field(name="context")
    context_seq: int | None
    jobs: list[str]
    phase: Phase = "idle"
    offered: bool = False
    """Handed over to `agent`, which has not opened it yet."""
    note: str | None = None
    in_flight: list[str] = []
    """Jobs it had when it was lost, and has not claimed again."""
    context_bytes: int | None = None
    """The size of its context, even if the context is left out; None if none was saved."""

    context = Decoded()


class SessionPage(Reply, frozen=True):
    """One page of sessions. Pass `cursor` for the next page; None means that this was the last."""

    sessions: list[SessionView]
    cursor: str | None


class PauseView(Reply, frozen=True):
    """When a queue was paused, by which principal, and why."""

    at: Moment
    by: str
    reason: str | None


class QueueView(Reply, frozen=True):
    """The settings of a queue."""

    queue: str
    max_claimed: int | None
    paused: bool = False
    pause: PauseView | None = None


class QueueStatus(Reply, frozen=True):
    """What is in a queue. A count of `counted_to` means that many or more."""

    queue: str
    all_done: bool
    """Whether no job is ready, due later or claimed. Also true for a queue that never had a job."""
    ready: int
    """Jobs that can be claimed now, unless the queue is paused or `max_claimed` jobs are already claimed."""
    later: int
    """Jobs that are scheduled, deferred or waiting for a retry."""
    available_at: Moment | None
    """When the first of the `later` jobs is due."""
    claimed: int
    owners: list[str]
    """Some of the owners of the `claimed` jobs."""
    dead: int
    done: int
    max_claimed: int | None
    counted_to: int
    kinds: list[str] | None = None
    """The kinds that `ready`, `later` and `claimed` count, if you asked for specific kinds."""
    oldest_due_at: Moment | None = None
    """When the oldest `ready` job became due."""
    paused: bool = False
    """If true, nothing can be claimed; `pause` says who paused the queue, and why."""
    pause: PauseView | None = None


class QueueRates(Reply, frozen=True):
    """Counts for each minute, oldest first: jobs enqueued, jobs done, and attempts that failed or expired."""

    enqueued: list[int]
    done: list[int]
    failed: list[int]


class QueueFigures(QueueStatus, frozen=True, kw_only=True):
    """What is in a queue, and what happened in it recently."""

    last_claim_at: Moment | None
    """None if none of the last 50,000 events is a claim in this queue."""
    rates: QueueRates


class QueueList(Reply, frozen=True):
    """Queues, the longest first. `more` is true if there are others.

    A server's counts are at most 10 seconds old; they were made at `counted_at`. A count of `counted_to` means that
    many or more. Rates are counts per `bucket_seconds` since `rates_since`, which is an hour ago, or later if the log
    is very busy. Buckets start at full minutes, so the first and the last may be shorter.
    """

    queues: list[QueueFigures]
    more: bool
    counted_at: Moment
    counted_to: int
    rates_since: Moment
    bucket_seconds: int


class TokenView(Reply, frozen=True):
    """What a token permits, and to whom it belongs. Only the call that creates it returns its secret."""

    token_id: str
    name: str
    scopes: list[Scope]
    prefix: str
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None


class PrincipalView(Reply, frozen=True):
    """Who you are to the store. `prefix` limits you to names that begin with it."""

    name: str
    scopes: list[Scope]
    prefix: str
    expires_at: Moment | None


class TokenList(Reply, frozen=True):
    tokens: list[TokenView]


class ClaimedCount(Reply, frozen=True):
    number: int


class FoundTokens(Reply, frozen=True):
    """In the order of the digests; None if there is no such token."""

    tokens: list[TokenView | None]


class FoundLease(Reply, frozen=True):
    """None if none is remembered. A claim bound to a session comes with it, a session with its agent."""

    lease_id: str | None
    session_id: str | None = None
    session_lease_id: str | None = None
    agent: str | None = None


class StoreKey(Reply, frozen=True):
    """A store's key, generated once, so that all its servers use the same pseudonyms; and the store's id."""

    key: bytes
    store_id: str


class Figures(Reply, frozen=True):
    """Counts of everything, and the resulting health `status`."""

    claimed: int
    late: int
    """Live claims whose owners have missed two heartbeats."""
    dead: int
    open_sessions: int
    waiting: int
    """Queued jobs, in all queues."""
    oldest_due_at: Moment | None
    """When the job that has waited longest became due."""
    taken_back: int
    """Claims that expired or were taken away in the last hour."""
    queued: dict[str, int]
    """Queued jobs by queue, for the longest queues."""
    seq: int
    at: Moment
    """When everything was counted."""
    store_id: str = ""
    """Generated when the store was created."""
    stuck: int = 0
    """Claims whose owners send heartbeats, but have reported no progress for longer than `max_silence`."""
    status: HealthStatus = "ok"
    reasons: list[str] = []


class Recovery(Reply, frozen=True):
    """A claim that was taken back after it expired, with the evidence."""

    job_id: str
    owner: str
    fencing_token: int
    session_id: str | None
    claimed_at: Moment
    heartbeat_at: Moment
    """The last heartbeat."""
    ttl: float
    expired_at: Moment
    late_ms: int
    """How long after `expired_at` the expiry was noticed."""
    status: Status
    """The job's status now."""
    available_at: Moment


class ProbeReply(Reply, frozen=True):
    """The store accepted a durable write. `version` is the version of OctoStore that made it."""

    seq: int
    at: Moment
    version: str = __version__


class ChangedReply(Reply, frozen=True):
    """One batch of matching jobs. Pass `after` to the next call; null means that there are no more."""

    changed: int
    after: str | None


class RecoverReply(Reply, frozen=True):
    """One step of a recovery; call again until `is_complete` is true."""

    recovered: list[Recovery]
    is_complete: bool
