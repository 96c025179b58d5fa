"""Everything that can be asked without changing anything, as values. `Question[A]` is answered with an `A`."""

from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeAlias, TypeVar, get_args

from octostore.core import limits
from octostore.core.checks import Checked, against, between, check_session_name, check_word
from octostore.core.errors import InvalidInput
from octostore.core.events import DETAILS, LogEntry
from octostore.core.limits import check_seconds, check_whole
from octostore.core.model import LOCAL, Job, SessionStatus, Status
from octostore.core.names import check_job_id
from octostore.core.replies import (
    ClaimedCount,
    EventPage,
    Figures,
    FoundLease,
    FoundTokens,
    Heartbeats,
    JobPage,
    JobView,
    PrincipalView,
    QueueList,
    QueueStatus,
    Reply,
    SessionPage,
    SessionView,
    SimilarNames,
    StoreKey,
    TokenList,
    TokenView,
)
from octostore.core.secret_free import SecretFree
from octostore.core.session_keys import session_key, whose

if TYPE_CHECKING:
    from octostore.core.claim_replies import ClaimsPage  # noqa: F401  # below, in quotes: few ask for it

Order: TypeAlias = Literal["name", "run"]
A_co = TypeVar("A_co", bound=Reply, covariant=True)


class Question(SecretFree, Checked, Generic[A_co], frozen=True, kw_only=True):
    """Answered from one consistent state of the store; an expired lease is no owner in any answer."""


class GetJob(Question[JobView], frozen=True, kw_only=True):
    job_id: str


class FindSimilar(Question[SimilarNames], frozen=True, kw_only=True):
    """Which names are like this one, of those that begin with `prefix`."""

    job_id: str
    prefix: str = ""


class ListJobs(Question[JobPage], frozen=True, kw_only=True):
    """Jobs by name, or those of a queue in `run` order. `cursor` is that of the page before; documents are left out."""

    prefix: str | None = None
    status: Status | None = None
    queue: str | None = None
    limit: int = limits.PAGE_DEFAULT
    cursor: str | None = None
    order: Order = "name"
    owner: str | None = None
    """Who holds them now."""
    kind: str | None = None

    CHECKS: ClassVar = {"status": against(check_word, get_args(Status)), "order": against(check_word, get_args(Order))}

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.order == "run" and self.queue is None:
            raise InvalidInput("order", "is run, which needs a queue: jobs run in the order of their queue")
        if self.cursor is not None:
            _check_cursor(self.order, self.cursor)

    @property
    def is_searching(self) -> bool:
        """Whether it asks for what no index has: a page may be short then, and have a cursor all the same."""
        return self.owner is not None or self.kind is not None

    @property
    def stored_status(self) -> Status | None:
        """Under which they are to be found; what somebody holds is claimed."""
        return self.status if self.owner is None else "claimed"

    def matches(self, job: Job) -> bool:
        """Of a job as it stands now."""
        return (
            self.status in {None, job.status}
            and self.kind in {None, job.kind}
            and (self.owner is None or (job.claim is not None and job.claim.owner == self.owner))
        )


def _check_cursor(order: Order, cursor: str) -> None:
    if order == "name":
        check_job_id("cursor", cursor)
        return
    from octostore.core.run_order import parse_position  # noqa: PLC0415  # few ask for it

    parse_position("cursor", cursor)


class ListHeartbeats(Question[Heartbeats], frozen=True, kw_only=True):
    """The live claims on these jobs, in this order: alive since when, until when, and how far."""

    job_ids: tuple[str, ...]


class ListClaims(Question["ClaimsPage"], frozen=True, kw_only=True):
    """Claims that were live in the last `window` seconds, by job, the most urgent first.

    `owner` has or had one of them, `status` is that of the job now. With `lost`, only jobs that somebody lost in that
    time, the newest loss first.
    """

    window: float = limits.WINDOW_DEFAULT_SECONDS
    prefix: str | None = None
    queue: str | None = None
    owner: str | None = None
    status: Status | None = None
    lost: bool = False
    limit: int = limits.CLAIM_ROWS_MAX

    CHECKS: ClassVar = {
        "window": between(check_seconds, 1_000, limits.WINDOW_MAX_MS),
        "status": against(check_word, get_args(Status)),
        "limit": between(check_whole, 1, limits.CLAIM_ROWS_MAX),
    }


class GetQueue(Question[QueueStatus], frozen=True, kw_only=True):
    """What there is in a queue, of jobs whose names begin with `prefix`."""

    queue: str
    prefix: str = ""


class ListQueues(Question[QueueList], frozen=True, kw_only=True):
    """What there is in each queue, and what happened in it of late; of jobs whose names begin with `prefix`."""

    prefix: str = ""


class CountClaimed(Question[ClaimedCount], frozen=True, kw_only=True):
    """How many jobs are claimed. One whose lease has run out counts until that is written down."""

    prefix: str = ""


def _check_types(field: str, types: tuple[str, ...]) -> None:
    unknown = next((word for word in types if word not in DETAILS), None)
    if unknown is not None:
        raise InvalidInput(field, f"has {unknown!r}, which is not a type of event; use: {', '.join(DETAILS)}")
    if not types:
        raise InvalidInput(field, f"is empty; name at least one of: {', '.join(DETAILS)}")


class ListEvents(Question[EventPage], frozen=True, kw_only=True):
    """The log after an event and from the moment `since` on, oldest first; all that is given must hold.

    `session_id` is the id of a session, or `principal/id`, here and below; without a principal it is `LOCAL`'s.
    """

    after: int = 0
    job_id: str | None = None
    prefix: str | None = None
    session_id: str | None = None
    limit: int = limits.PAGE_DEFAULT
    principal: str | None = None
    """Whose sessions it tells of; what is about those of anybody else, and about no job, is left out."""
    since: int | None = None
    types: tuple[str, ...] | None = None

    CHECKS: ClassVar = {"since": between(check_whole, 0, limits.RUN_AT_MAX_MS), "types": _check_types}

    def matches(self, entry: LogEntry) -> bool:
        return (
            self.job_id in {None, entry.job_id}
            and (self.since is None or entry.at >= self.since)
            and (self.types is None or entry.type in self.types)
            and (self.session_id is None or entry.session_id == session_key(LOCAL, self.session_id))
            and (not self.prefix or (entry.job_id or "").startswith(self.prefix))
            and (self.principal is None or self._may_be_told(entry))
        )

    def _may_be_told(self, entry: LogEntry) -> bool:
        if entry.job_id is not None or entry.session_id is None:
            return True
        return self.principal == (whose(entry.session_id) or entry.actor)


class GetSession(Question[SessionView], frozen=True, kw_only=True):
    session_id: str


class ListSessions(Question[SessionPage], frozen=True, kw_only=True):
    """Sessions by id. `cursor` is that of the page before; contexts are left out."""

    status: SessionStatus | None = None
    limit: int = limits.PAGE_DEFAULT
    cursor: str | None = None
    principal: str | None = None
    """Whose sessions; those of anybody else are left out."""

    CHECKS: ClassVar = {"status": against(check_word, get_args(SessionStatus)), "cursor": check_session_name}


class WhoAmI(Question[PrincipalView], frozen=True, kw_only=True):
    """Who asks, and what they may do. Whoever can open a store by themselves may do everything."""


class ListTokens(Question[TokenList], frozen=True, kw_only=True):
    """All tokens that were made, also those that are over; newest first."""


class FindToken(Question[TokenView], frozen=True, kw_only=True):
    """The token whose secret has this SHA-256, valid or not."""

    digest: bytes


class FindTokens(Question[FoundTokens], frozen=True, kw_only=True):
    """The same for many at once."""

    digests: tuple[bytes, ...]


class FindLease(Question[FoundLease], frozen=True, kw_only=True):
    """The secret of a claim, live or remembered as an earlier attempt, by its fencing token. Only for a server."""

    job_id: str
    fencing_token: int


class FindSessionLease(Question[FoundLease], frozen=True, kw_only=True):
    """The same of a session: of whoever had it last, if nobody has it now."""

    session_id: str


class GetStoreKey(Question[StoreKey], frozen=True, kw_only=True):
    """The secret from which pseudonyms are made."""


class GetFigures(Question[Figures], frozen=True, kw_only=True):
    """How much there is of everything. A server may answer with figures of up to `max_age` seconds ago: counting costs.

    A store counts anew.
    """

    max_age: float = 0

    CHECKS: ClassVar = {"max_age": between(check_seconds, 0, limits.FIGURES_AGE_MAX_MS)}
