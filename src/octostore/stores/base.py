"""What a store has to be able to do. The rest (batching, waking, reading) is the same for all of them."""

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
"""Told how much of something has been done, and of how much."""


class Counters(NamedTuple):
    """Where the store stands: the last event, the latest moment it has ever used, and which store it is."""

    seq: int
    mark: Mark
    store_id: str
    next_expiry: int = 0
    """Before this moment nothing runs out; 0 where that is not known."""


class QueueFilter(msgspec.Struct, frozen=True):
    """Which jobs of a queue to list: those stored in the part of `after`, in run order after it."""

    queue: str
    prefix: str
    after: "RunPosition"
    limit: int


class SessionFilter(msgspec.Struct, frozen=True):
    """Which sessions to list: in the order of their ids after `after`, those that have `status` now (None: any).

    One that is stored as open but has run out is expired. `principal` is whose they must be (None: anybody's).
    """

    status: SessionStatus | None
    principal: str | None
    after: str
    limit: int


class ClaimsFilter(msgspec.Struct, frozen=True):
    """Where to look for claims that were live after the moment `since`: on jobs of these names.

    Of live ones, only those in `queue` and of `owner` are needed; of those that ended, `only_lost` ones, if it says so.
    """

    since: int
    prefix: str
    queue: str | None
    owner: str | None
    only_lost: bool


class ClaimsFound(NamedTuple):
    live: "list[Glance]"
    """Also claims that have run out, and that is not written down yet."""
    ends: list[LogEntry]
    """In the order of the log: with these, claims ended."""
    last_claim_at: int | None
    before: int
    """The last event before `since`."""
    is_all: bool
    """Whether everything was looked at."""


class Reading(Protocol):
    """One consistent state of the store."""

    def counters(self) -> Counters: ...

    def load(self, ws: WorkingSet, needs: Needs) -> None:
        """Put everything that `needs` names into `ws`; a job or session that does not exist as None.

        A claimed job comes with the session its claim is bound to, an enqueued one with its queue.
        """

    def list_jobs(self, ws: WorkingSet, wanted: JobFilter, limit: int) -> list[Job]:
        """The first of these jobs, also put into `ws`, with the sessions and queues that belong to them."""

    def claimed_jobs(self, ws: WorkingSet, job_ids: Sequence[str]) -> list[Job]:
        """Those of these jobs that are stored as claimed, also put into `ws`, with their sessions; in any order.

        Contexts, documents and queues need not be there.
        """

    def names_near(self, places: Sequence[str], within: str, limit: int) -> list[str]:
        """Up to `limit` names from each place on, and before the first; only those that begin with `within`."""

    def list_queue(self, ws: WorkingSet, wanted: QueueFilter) -> list[Job]:
        """The same for a part of a queue, in run order."""

    def queue_names(self, ws: WorkingSet, prefix: str, limit: int) -> list[str]:
        """Up to `limit` queues that have jobs whose names begin with `prefix`, those in which most wait first.

        Without a prefix, also those that have a limit or are paused.
        """

    def count_queues(self, ws: WorkingSet, queues: Sequence[str], selection: Selection) -> None:
        """Fill `ws.queue_counts` for these queues."""

    def look_back(self, now: int, prefix: str) -> "LookBack":
        """What happened in queues in the last `LOOK_BACK_EVENTS`, to jobs whose names begin with `prefix`."""

    def count_claimed(self, prefix: str) -> int:
        """How many claimed jobs have a name that begins with `prefix`."""

    def list_sessions(self, ws: WorkingSet, wanted: SessionFilter) -> list[Session]:
        """The sessions, also put into `ws`; their contexts need not be there, only how long they are."""

    def list_events(self, wanted: ListEvents) -> tuple[list[LogEntry], int]:
        """The events, and the seq up to which the log was looked through for them."""

    def find_claims(self, ws: WorkingSet, wanted: ClaimsFilter) -> ClaimsFound:
        """Among a limited number of claims and events, the newest of each."""

    def last_ends(self, job_ids: Sequence[str], after: int) -> list[LogEntry]:
        """The events after `after` that ended claims on these jobs: the last of each, and one more than are shown."""

    def next_ends(self, ends: Sequence[LogEntry], /) -> list[LogEntry]:
        """For each of these events that ended claims: the next one that ended a claim on the same job, if any."""

    def events_at(self, seqs: Sequence[int]) -> list[LogEntry]: ...

    def list_tokens(self) -> list[Token]:
        """Newest first."""

    def find_tokens(self, digests: Sequence[bytes]) -> list[Token]: ...

    def store_key(self) -> bytes: ...

    def figures(self, now: int) -> Figures: ...


class Writing(Reading, Protocol):
    """A transaction that holds the store's write lock from its beginning."""

    def save(self, ws: WorkingSet, mark: Mark) -> None:
        """Write what `ws` says has changed, the new events, and the counters."""


class TryAgain(Exception):  # never leaves the library
    """There was no answer, because of `fault`, but there may be one soon: after `pause_ms`, where that is said.

    `was_taken` is False where surely nothing has been done.
    """

    def __init__(self, fault: Unreachable, pause_ms: int = 0, *, was_taken: bool = False) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.pause_ms = pause_ms
        self.was_taken = was_taken


class Backend(Protocol):
    """Where the rows are. Methods raise `Unreachable` when the place fails; nothing is half done then."""

    def found(self) -> None:
        """Make the store, where there is none yet. Before that, all others raise `Unreachable`, reason `no_store`.

        Raises `TryAgain` where the same may succeed if it is tried again.
        """

    def writing(self, needs: Needs) -> AbstractContextManager[Writing]:
        """A transaction: durable when the block has ended, undone when it raises. Only ever one at a time.

        `needs` is what will be loaded first. Raises `TryAgain` where the same may succeed if it is tried again.
        """

    @property
    def writing_at_once(self) -> "Callable[[Needs], AbstractContextManager[Writing]] | None":
        """The same without waiting for other processes: raises `Unreachable`, with `busy` as its reason, instead.

        None where a transaction may take longer than a moment even so, because it goes over a network.
        """

    def reading(self) -> AbstractContextManager[Reading]:
        """A consistent view, from any thread, that waits for nobody."""

    def back_up(self, copy: str, on_step: OnStep | None) -> int:
        """Copy everything, as it is at this moment, to a new file; gives the `seq` of the last event in it.

        Raises `InvalidInput` where this is not done by us.
        """

    def on_foreign_commit(self, ring: Callable[[], None]) -> None:
        """From now on, call `ring`, from any thread, when another process has committed, where that can be known."""

    @property
    def poll_seconds(self) -> float:
        """How often to look for other processes' commits as well, while somebody waits for them."""

    def pause(self) -> None:
        """Before a fork: wait until nobody uses the backend, and let nobody in until `resume`."""

    def resume(self) -> None: ...

    def close(self) -> None: ...
