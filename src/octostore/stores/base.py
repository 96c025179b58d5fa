"""What a backend must provide. Everything else (batching, wake-ups, reading) is the same for all of them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec

from octostore.core.errors import Unreachable
from octostore.core.events import LogEntry
from octostore.core.model import Job, Session, SessionStatus, Token
from octostore.core.needs import JobFilter, Needs, Selection
from octostore.core.questions import ListEvents
from octostore.core.replies import Figures
from octostore.core.working_set import WorkingSet
from octostore.stores.clock import Mark

if TYPE_CHECKING:
    from octostore.core.claims_window import Glance
    from octostore.core.queue_counts import LookBack
    from octostore.core.run_order import RunPosition

OnStep: TypeAlias = Callable[[int, int], None]
"""Called with how much of the work is done, and the total."""


class Counters(NamedTuple):
    """The store's position: its last event, the latest moment it has used, and its id."""

    seq: int
    mark: Mark
    store_id: str
    next_expiry: int = 0
    """Nothing expires before this moment; 0 if unknown."""


class QueueFilter(msgspec.Struct, frozen=True):
    """Which jobs of a queue to list: those after `after` in run order, in the same part."""

    queue: str
    prefix: str
    after: "RunPosition"
    limit: int


class SessionFilter(msgspec.Struct, frozen=True):
    """Which sessions to list: in id order after `after`, those whose status is now `status` (None: any).

    A session stored as open whose TTL has passed counts as expired. `principal` limits the list to that principal's.
    """

    status: SessionStatus | None
    principal: str | None
    after: str
    limit: int


class ClaimsFilter(msgspec.Struct, frozen=True):
    """Where to look for claims that were live after `since`: on jobs with this prefix.

    `queue` and `owner` filter live claims; `only_lost` limits ended claims to lost ones.
    """

    since: int
    prefix: str
    queue: str | None
    owner: str | None
    only_lost: bool


class ClaimsFound(NamedTuple):
    live: "list[Glance]"
    """Includes claims that have expired but whose expiry is not recorded yet."""
    ends: list[LogEntry]
    """The events that ended claims, in log order."""
    last_claim_at: int | None
    before: int
    """The last event before `since`."""
    is_all: bool
    """False if the scan stopped at its limit."""


class Reading(Protocol):
    """A consistent snapshot of the store."""

    def counters(self) -> Counters: ...

    def load(self, ws: WorkingSet, needs: Needs) -> None:
        """Load everything `needs` names into `ws`; jobs and sessions that do not exist are loaded as None.

        A claimed job comes with the session its claim is bound to, an enqueued job with its queue.
        """

    def list_jobs(self, ws: WorkingSet, wanted: JobFilter, limit: int) -> list[Job]:
        """The first `limit` matching jobs, also loaded into `ws` with their sessions and queues."""

    def claimed_jobs(self, ws: WorkingSet, job_ids: Sequence[str]) -> list[Job]:
        """Those of these jobs that are stored as claimed, in any order, also loaded into `ws` with their sessions.

        Contexts, documents and queues may be missing.
        """

    def names_near(self, places: Sequence[str], within: str, limit: int) -> list[str]:
        """Up to `limit` names at or after each of `places`, and before the first; only those starting with `within`."""

    def list_queue(self, ws: WorkingSet, wanted: QueueFilter) -> list[Job]:
        """Like `list_jobs`, for one part of a queue in run order."""

    def queue_names(self, ws: WorkingSet, prefix: str, limit: int) -> list[str]:
        """Up to `limit` queues with jobs whose names start with `prefix`, the longest first.

        Without a prefix, queues that are limited or paused are included even if empty.
        """

    def count_queues(self, ws: WorkingSet, queues: Sequence[str], selection: Selection) -> None:
        """Fill `ws.queue_counts` for these queues."""

    def look_back(self, now: int, prefix: str) -> "LookBack":
        """What happened in queues during the last `LOOK_BACK_EVENTS`, to jobs whose names start with `prefix`."""

    def count_claimed(self, prefix: str) -> int:
        """The number of claimed jobs whose names start with `prefix`."""

    def list_sessions(self, ws: WorkingSet, wanted: SessionFilter) -> list[Session]:
        """The sessions, also loaded into `ws`; of their contexts, only the size is needed."""

    def list_events(self, wanted: ListEvents) -> tuple[list[LogEntry], int]:
        """The events, and the seq up to which the log was scanned for them."""

    def find_claims(self, ws: WorkingSet, wanted: ClaimsFilter) -> ClaimsFound:
        """The newest claims and events, up to a limit of each."""

    def last_ends(self, job_ids: Sequence[str], after: int) -> list[LogEntry]:
        """The newest events after `after` that ended claims on these jobs: as many per job as are shown, plus one."""

    def next_ends(self, ends: Sequence[LogEntry], /) -> list[LogEntry]:
        """For each of these events that ended a claim: the next event that ended a claim on the same job, if any."""

    def events_at(self, seqs: Sequence[int]) -> list[LogEntry]: ...

    def list_tokens(self) -> list[Token]:
        """Newest first."""

    def find_tokens(self, digests: Sequence[bytes]) -> list[Token]: ...

    def store_key(self) -> bytes: ...

    def figures(self, now: int) -> Figures: ...


class Writing(Reading, Protocol):
    """A transaction that holds the store's write lock from the start."""

    def save(self, ws: WorkingSet, mark: Mark) -> None:
        """Write the rows that changed in `ws`, the new events, and the counters."""


class TryAgain(Exception):  # never leaves the library
    """The call failed with `fault` but may succeed if repeated, after `pause_ms` if that is set.

    `was_taken` is False if certainly nothing was done.
    """

    def __init__(self, fault: Unreachable, pause_ms: int = 0, *, was_taken: bool = False) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.pause_ms = pause_ms
        self.was_taken = was_taken


class Backend(Protocol):
    """Where the rows live. Methods raise `Unreachable` if the store fails; nothing is half done then."""

    def create(self) -> None:
        """Create the store if it does not exist. Until then, every other method raises `Unreachable` (`no_store`).

        Raises `TryAgain` if a retry may succeed.
        """

    def writing(self, needs: Needs) -> AbstractContextManager[Writing]:
        """A transaction: durable when the block ends, rolled back if it raises. Only one at a time.

        `needs` is what will be loaded first. Raises `TryAgain` if a retry may succeed.
        """

    @property
    def writing_at_once(self) -> "Callable[[Needs], AbstractContextManager[Writing]] | None":
        """Like `writing`, but raises `Unreachable` (`busy`) instead of waiting for other processes.

        None if a transaction can be slow anyway, because it goes over a network.
        """

    def reading(self) -> AbstractContextManager[Reading]:
        """A consistent snapshot; usable from any thread, and never waits for a writer."""

    def back_up(self, copy: str, on_step: OnStep | None) -> int:
        """Copy a snapshot of everything to a new file, and return the `seq` of its last event.

        Raises `InvalidInput` if this kind of store has its own backup tool.
        """

    def on_foreign_commit(self, ring: Callable[[], None]) -> None:
        """Call `ring`, from any thread, after each commit of another process, if the database can report them."""

    @property
    def poll_seconds(self) -> float:
        """How often to poll for other processes' commits as well, while someone waits for them."""

    def pause(self) -> None:
        """Before a fork: wait until the backend is idle, and keep everyone out until `resume`."""

    def resume(self) -> None: ...

    def close(self) -> None: ...
