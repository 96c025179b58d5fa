"""What callers get. The same types go out of the library and over HTTP, so a field has one name everywhere.

None of these carries a secret, except the `lease_id` in the reply to the call that made the claim or opened the
session.
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
    """The answer to a command or a question."""

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self))  # encoded documents have none


class ProgressView(Reply, frozen=True):
    note: str | None
    percent: float | None
    at: Moment


class StopView(Reply, frozen=True):
    """Somebody wants the owner to stop. With `cancels`, the job is dead once the claim ends, unless it is done then."""

    reason: str | None
    requested_at: Moment
    requested_by: str
    cancels: bool
    delivered_at: Moment | None
    """When the owner was first told."""


class JobOwner(Reply, frozen=True, dict=True):
    """Who has a job right now: alive as of `heartbeat_at`, moving as of `progress.at`."""

    job_id: str
    owner: str
    principal: str
    """Who it is by its token, where `owner` is what it calls itself."""
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
    """The process that made the claim, by its own account; of a plain HTTP client, the address it called from."""
    max_silence: float | None = None
    """For how many seconds it may go without reporting progress."""
    last_progress_at: Moment | None = None
    """When it last reported something, or got the job, where there is such a limit."""
    stuck: bool = False
    """Alive, and silent for longer than that."""
    stop_requested: StopView | None = None
    traceparent: str | None = None
    """The trace context of this attempt."""

    metadata = Decoded()


class Heartbeat(Reply, frozen=True):
    """A live claim: its owner was alive at `heartbeat_at`, and has until `expires_at` to send the next heartbeat.

    A claim that is bound to a session lives by the session's heartbeats.
    """

    job_id: str
    fencing_token: int
    heartbeat_at: Moment
    expires_at: Moment
    progress: ProgressView | None
    late_at: Moment
    """From then on two heartbeats are missing, and it is `late`."""
    late: bool
    stuck: bool
    """Alive, but it has reported no progress for longer than its `max_silence`."""


class Heartbeats(Reply, frozen=True):
    """The live claims on some jobs at the store's time `at`. A job that nobody has is not among them."""

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
    error: str | None
    note: str | None
    reason: str | None = None
    traceparent: str | None = None
    """The trace context of that attempt."""


class ClaimReply(Reply, frozen=True, dict=True):
    """The answer to a claim; `status` tells which of the fields below it speak.

    - `claimed`: it is yours. `lease_id` authorises every later write; `fencing_token` guards what you write elsewhere.
      `payload`, `checkpoint`, `note` and `previous` are what came with the job and what earlier attempts left;
      `traceparent` is the trace in which the job was enqueued, and `attempt_traceparent` that of this attempt.
    - `held`: `owner` has it (process `pid` on `host`), since `claimed_at`, alive at `heartbeat_at`, until `expires_at`
      unless it heartbeats; `stuck` if it does nothing else.
    - `done`: finished before, with `result`.
    - `delayed`: nobody has it, but it cannot be claimed before `available_at` (backoff, schedule, lock-delay, full
      queue), or not at all while its queue is paused; `pause` says who did that.
    - `dead`: out of attempts or cancelled; it waits for a person (`requeue`).
    - `empty` (claim_next and claim_task): nothing in the queue can be claimed now. `queue_status` says what else is in
      it, `available_at` when the first of its jobs is due (None if none is scheduled), and `all_done` whether every job
      is settled, so that nothing will come unless somebody enqueues, requeues or claims again.

    For claim_task, `session` is what was acquired, and `held` is about the session. With the `lease_id` of a session,
    nothing is acquired besides the task, and `held` is about the task that the session has already.
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
    replayed: bool = False
    ttl: float | None = None
    remaining_ms: int | None = None
    renew_after_ms: int | None = None
    raw_payload: msgspec.Raw = raw("payload")
    raw_checkpoint: msgspec.Raw = raw("checkpoint")
    note: str | None = None
    previous: list[AttemptView] = []

    progress: ProgressView | None = None
    retry_after_ms: int | None = None
    available_at: Moment | None = None
    raw_result: msgspec.Raw = raw("result")
    error: str | None = None
    session: "SessionReply | None" = None
    host: str | None = None
    pid: int | None = None
    max_silence: float | None = None
    stuck: bool = False
    all_done: bool | None = None
    queue_status: "QueueStatus | None" = None
    pause: "PauseView | None" = None
    traceparent: str | None = None
    attempt_traceparent: str | None = None

    metadata = Decoded()
    payload = Decoded()
    checkpoint = Decoded()
    result = Decoded()


class HeartbeatReply(Reply, frozen=True):
    job_id: str
    expires_at: Moment
    remaining_ms: int
    renew_after_ms: int
    number: int | None = None
    """The newest numbered write of this kind, here and below. If it is above yours, yours came late."""
    stuck: bool = False
    """You have not reported progress for as long as the claim's `max_silence`."""
    stop_requested: StopView | None = None
    """Finish what must not be left half done, and release the job."""


class CheckpointReply(Reply, frozen=True):
    job_id: str
    saved_at: Moment
    number: int | None = None


class ReleaseReply(Reply, frozen=True):
    """How the claim ended, and what became of the job. A repeated release gets exactly this again."""

    job_id: str
    outcome: Outcome
    status: Status
    attempt: int
    fencing_token: int
    released_at: Moment
    available_at: Moment
    traceparent: str | None = None
    """The trace context of the attempt that this ended."""


class UndoReply(Reply, frozen=True):
    """`undone` is False where the claim or session had ended, or was told to somebody who may be relying on it."""

    undone: bool


class EnqueueReply(Reply, frozen=True):
    """`created` is False where the job had been enqueued before: nothing changed then, and this tells how it stands."""

    job_id: str
    created: bool
    status: Status
    queue: str | None
    kind: str | None
    priority: int
    max_attempts: int
    available_at: Moment


class JobView(Reply, frozen=True, dict=True):
    """A job as it stands now. A name that nobody has ever claimed or enqueued is free, and not `is_known`."""

    job_id: str
    status: Status
    queue: str | None
    kind: str | None
    priority: int | None
    attempts: int
    max_attempts: int | None
    available_at: Moment | None
    created_at: Moment | None
    claim: JobOwner | None
    owner: str | None
    last_outcome: LastOutcome | None
    error: str | None
    note: str | None
    raw_payload: msgspec.Raw = raw("payload")
    raw_result: msgspec.Raw = raw("result")
    raw_checkpoint: msgspec.Raw = raw("checkpoint")
    previous: list[AttemptView] = []
    is_known: bool = True
    traceparent: str | None = None
    """The trace context in which it was enqueued."""

    payload = Decoded()
    result = Decoded()
    checkpoint = Decoded()


class SimilarNames(Reply, frozen=True):
    """Whether there is a job of this name, and which ones may have been meant if not; the best first, three at most."""

    job_id: str
    is_known: bool
    similar: list[str]


class JobPage(Reply, frozen=True):
    """`cursor` continues the listing; None means that this was the last page."""

    jobs: list[JobView]
    cursor: str | None

    def __iter__(self) -> Iterator[JobView]:
        return iter(self.jobs)


class EventPage(Reply, frozen=True):
    """`after` is where the next page begins, also when this one is empty."""

    events: list[Event]
    after: int

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)


class InFlight(Reply, frozen=True, dict=True):
    """What a session was working on before it was resumed or handed over, as it stands now.

    `is_ours`: it was handed over alive, and the session's lease is that of its claim, too. Otherwise it was taken back
    when the session was lost; it is to be claimed again, unless `owner` has it now or it is `done` or `dead`.
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
    session_id: str
    agent: str
    lease_id: str
    resumed: bool
    replayed: bool
    ttl: float
    opened_at: Moment
    expires_at: Moment
    remaining_ms: int
    renew_after_ms: int
    raw_context: msgspec.Raw = msgspec.field(name="context")
    context_seq: int | None
    phase: Phase = "idle"
    note: str | None = None
    """What the agent that handed it over had to say."""
    in_flight: list[InFlight] = []

    context = Decoded()


class KeepaliveReply(Reply, frozen=True):
    session_id: str
    expires_at: Moment
    remaining_ms: int
    renew_after_ms: int
    stuck_jobs: list[str] = []
    """The jobs bound to the session that have not moved for as long as their `max_silence`."""
    stop_requested: dict[str, StopView] = {}
    """Of the jobs whose claims are bound to the session: those that are to be stopped."""


class SavedReply(Reply, frozen=True):
    session_id: str
    context_seq: int
    phase: Phase = "idle"
    number: int | None = None


class HandedOverReply(Reply, frozen=True):
    """`agent` has until `expires_at` to open the session; `jobs` are the claims that went with it."""

    session_id: str
    agent: str
    expires_at: Moment
    jobs: list[str]


class ClosedReply(Reply, frozen=True):
    session_id: str


class SessionView(Reply, frozen=True, dict=True):
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
    """Handed over to `agent`, who has not opened it yet."""
    note: str | None = None
    in_flight: list[str] = []
    """What it was working on when it was lost, and has not claimed again since."""
    context_bytes: int | None = None
    """The size of its context, also where the context itself is left out; None if it has saved none."""

    context = Decoded()


class SessionPage(Reply, frozen=True):
    """`cursor` continues the listing; None means that this was the last page."""

    sessions: list[SessionView]
    cursor: str | None


class PauseView(Reply, frozen=True):
    """Since when a queue is paused, by which principal, and why."""

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
    """What is in a queue. Counts stop at `counted_to`, which means that many or more.

    `ready` jobs can be claimed now, unless `max_claimed` are claimed already; the oldest of them has been due since
    `oldest_due_at`. `later` ones are scheduled, deferred or waiting for a retry, the first of them until
    `available_at`. `owners` are some of those who hold the `claimed` ones. `all_done` is true if none is ready, later
    or claimed: also for a queue that never had a job. While it is `paused`, nothing can be claimed; `pause` says who
    wants it so, and why.
    """

    queue: str
    all_done: bool
    ready: int
    later: int
    available_at: Moment | None
    claimed: int
    owners: list[str]
    dead: int
    done: int
    max_claimed: int | None
    counted_to: int
    kinds: list[str] | None = None
    """Of which kinds `ready`, `later` and `claimed` are, where only some were asked for."""
    oldest_due_at: Moment | None = None
    paused: bool = False
    pause: PauseView | None = None


class QueueRates(Reply, frozen=True):
    """Counts for each minute, oldest first: jobs enqueued, jobs done, and attempts that failed or expired."""

    enqueued: list[int]
    done: list[int]
    failed: list[int]


class QueueFigures(QueueStatus, frozen=True, kw_only=True):
    """What is in a queue, and what happened in it of late."""

    last_claim_at: Moment | None
    """None if no job of the queue was claimed in the last 50,000 events of the log."""
    rates: QueueRates


class QueueList(Reply, frozen=True):
    """The longest queues first; `more` if there are others.

    A server counts them every 10 seconds at most: `counted_at` is when it did. Counts stop at `counted_to`, which means
    that many or more. Rates are per `bucket_seconds`, from `rates_since` on: an hour, or less if the log is that busy.
    Buckets begin at full minutes, so the first and the last may be shorter.
    """

    queues: list[QueueFigures]
    more: bool
    counted_at: Moment
    counted_to: int
    rates_since: Moment
    bucket_seconds: int


class TokenView(Reply, frozen=True):
    """What a token may do, and for whom. Its secret is in no answer but the one to the call that made it."""

    token_id: str
    name: str
    scopes: list[Scope]
    prefix: str
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None


class PrincipalView(Reply, frozen=True):
    """Who one is to the store. `prefix` limits it to names that begin with it."""

    name: str
    scopes: list[Scope]
    prefix: str
    expires_at: Moment | None


class TokenList(Reply, frozen=True):
    tokens: list[TokenView]


class ClaimedCount(Reply, frozen=True):
    number: int


class FoundTokens(Reply, frozen=True):
    """In the order of the digests; None where there is no such token."""

    tokens: list[TokenView | None]


class FoundLease(Reply, frozen=True):
    """None where none is remembered. A claim that is bound to a session comes with that, a session with its agent."""

    lease_id: str | None
    session_id: str | None = None
    session_lease_id: str | None = None
    agent: str | None = None


class StoreKey(Reply, frozen=True):
    """Drawn once for each store, so that all servers on it give everybody the same pseudonym; and which store it is."""

    key: bytes
    store_id: str


class Figures(Reply, frozen=True):
    """`status` is how it goes, by the usual thresholds, and `reasons` say why in words; see `health`.

    `queued` is by queue, and only the longest are told; `waiting` is the sum over all of them.

    `late` are the claims whose owners have missed heartbeats but still have time, `stuck` those whose owners heartbeat
    and report no progress for longer than their `max_silence`. `oldest_due_at` is since when the job
    that has waited longest could have been claimed. `taken_back` are the claims that expired or were taken away within
    the last hour. What has run out and is not written down yet is taken back, and its jobs wait. `store_id` was drawn
    when the store was made, and is the same for as long as it is that store.
    """

    claimed: int
    late: int
    dead: int
    open_sessions: int
    waiting: int
    oldest_due_at: Moment | None
    taken_back: int
    queued: dict[str, int]
    seq: int
    at: Moment
    store_id: str = ""
    stuck: int = 0
    status: HealthStatus = "ok"
    reasons: list[str] = []


class Recovery(Reply, frozen=True):
    """A claim that was taken back, with the evidence: what was missed, and how late that was noticed."""

    job_id: str
    owner: str
    fencing_token: int
    session_id: str | None
    claimed_at: Moment
    heartbeat_at: Moment
    ttl: float
    expired_at: Moment
    late_ms: int
    status: Status
    available_at: Moment


class ProbeReply(Reply, frozen=True):
    """The store was written to, durably. `version` is that of the OctoStore that did it."""

    seq: int
    at: Moment
    version: str = __version__


class ChangedReply(Reply, frozen=True):
    """One batch of the jobs that match. The next call goes on `after` this name; null means there are no more."""

    changed: int
    after: str | None


class RecoverReply(Reply, frozen=True):
    """One step of a recovery; there is more to take back unless it `is_complete`."""

    recovered: list[Recovery]
    is_complete: bool
