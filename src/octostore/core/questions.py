"""Every question about the store, as values. The reply to a `Question[A]` is an `A`."""

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
    from octostore.core.claim_replies import ClaimsPage  # noqa: F401  # below, in quotes: rarely needed

Order: TypeAlias = Literal["name", "run"]
A_co = TypeVar("A_co", bound=Reply, covariant=True)


class Question(SecretFree, Checked, Generic[A_co], frozen=True, kw_only=True):
    """Answered from one consistent snapshot of the store; no reply ever shows an expired lease as an owner."""


class GetJob(Question[JobView], frozen=True, kw_only=True):
    job_id: str


class FindSimilar(Question[SimilarNames], frozen=True, kw_only=True):
    """Which names resemble this one, among those that start with `prefix`."""

    job_id: str
    prefix: str = ""


class ListJobs(Question[JobPage], frozen=True, kw_only=True):
    """Jobs by name, or those of a queue in `run` order. `cursor` continues after a page; documents are left out."""

    prefix: str | None = None
    status: Status | None = None
    queue: str | None = None
    limit: int = limits.PAGE_DEFAULT
    cursor: str | None = None
    order: Order = "name"
    owner: str | None = None
    """Their current owner."""
    kind: str | None = None

    CHECKS: ClassVar = {"status": against(check_word, get_args(Status)), "order": against(check_word, get_args(Order))}

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.order == "run" and self.queue is None:
            raise InvalidInput("order", "'run' needs a queue: jobs run in the order of their queue")
        if self.cursor is not None:
            _check_cursor(self.order, self.cursor)

    @property
    def is_searching(self) -> bool:
        """Whether it filters by something without an index: a page may then be short, yet have a cursor."""
        return self.owner is not None or self.kind is not None

    @property
    def stored_status(self) -> Status | None:
        """The stored status to search; a job with an owner is claimed."""
        return self.status if self.owner is None else "claimed"

    def matches(self, job: Job) -> bool:
        """Whether a job matches, as of now."""
        return (
            self.status in {None, job.status}
            and self.kind in {None, job.kind}
            and (self.owner is None or (job.claim is not None and job.claim.owner == self.owner))
        )


def _check_cursor(order: Order, cursor: str) -> None:
    if order == "name":
        check_job_id("cursor", cursor)
        return
    from octostore.core.run_order import parse_position  # noqa: PLC0415  # rarely needed

    parse_position(cursor)


class ListHeartbeats(Question[Heartbeats], frozen=True, kw_only=True):
    """The live claims on these jobs, in this order: alive since when, until when, and their progress."""

    job_ids: tuple[str, ...]


class ListClaims(Question["ClaimsPage"], frozen=True, kw_only=True):
    """Claims that were live in the last `window` seconds, by job, the most urgent first.

    `owner` has or had one of them; `status` is the job's current status. With `lost`, only jobs that someone lost in
    that time, newest loss first.
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
    """What a queue contains, among jobs whose names start with `prefix`."""

    queue: str
    prefix: str = ""


class ListQueues(Question[QueueList], frozen=True, kw_only=True):
    """What each queue contains, and its recent activity; among jobs whose names start with `prefix`."""

    prefix: str = ""


class CountClaimed(Question[ClaimedCount], frozen=True, kw_only=True):
    """How many jobs are claimed. An expired lease counts until its expiry is recorded."""

    prefix: str = ""


def _check_types(field: str, types: tuple[str, ...]) -> None:
    unknown = next((word for word in types if word not in DETAILS), None)
    if unknown is not None:
        raise InvalidInput(field, f"has {unknown!r}, which is not an event type; use: {', '.join(DETAILS)}")
    if not types:
        raise InvalidInput(field, f"is empty; name at least one of: {', '.join(DETAILS)}")


class ListEvents(Question[EventPage], frozen=True, kw_only=True):
    """The log after an event and since a moment, oldest first; all conditions must hold.

    `session_id` is the id of a session, or `principal/id`, here and below; without a principal it is `LOCAL`'s.
    """

    after: int = 0
    job_id: str | None = None
    prefix: str | None = None
    session_id: str | None = None
    limit: int = limits.PAGE_DEFAULT
    principal: str | None = None
    """Show session events of this principal only; events about jobs are not affected."""
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
            and (self.principal is None or self._is_visible(entry))
        )

    def _is_visible(self, entry: LogEntry) -> bool:
        if entry.job_id is not None or entry.session_id is None:
            return True
        return self.principal == (whose(entry.session_id) or entry.actor)


class GetSession(Question[SessionView], frozen=True, kw_only=True):
    session_id: str


class ListSessions(Question[SessionPage], frozen=True, kw_only=True):
    """Sessions by id. `cursor` continues after a page; contexts are left out."""

    status: SessionStatus | None = None
    limit: int = limits.PAGE_DEFAULT
    cursor: str | None = None
    principal: str | None = None
    """Only this principal's sessions."""

    CHECKS: ClassVar = {"status": against(check_word, get_args(SessionStatus)), "cursor": check_session_name}


class WhoAmI(Question[PrincipalView], frozen=True, kw_only=True):
    """Who the caller is, and what it may do. Anyone who opens a store directly may do everything."""


class ListTokens(Question[TokenList], frozen=True, kw_only=True):
    """All tokens, including revoked and expired ones; newest first."""


class FindToken(Question[TokenView], frozen=True, kw_only=True):
    """The token whose secret has this SHA-256, valid or not."""

    digest: bytes


class FindTokens(Question[FoundTokens], frozen=True, kw_only=True):
    """`FindToken` for many digests."""

    digests: tuple[bytes, ...]


class FindLease(Question[FoundLease], frozen=True, kw_only=True):
    """The secret of a claim, live or remembered as an earlier attempt, by its fencing token. Only for a server."""

    job_id: str
    fencing_token: int


class FindSessionLease(Question[FoundLease], frozen=True, kw_only=True):
    """The lease of a session: its current one, or the last if it has ended."""

    session_id: str


class GetStoreKey(Question[StoreKey], frozen=True, kw_only=True):
    """The secret that pseudonyms are derived from."""


class GetFigures(Question[Figures], frozen=True, kw_only=True):
    """Totals of everything. A server may reply with figures up to `max_age` seconds old, because counting is expensive.

    A store always counts.
    """

    max_age: float = 0

    CHECKS: ClassVar = {"max_age": between(check_seconds, 0, limits.FIGURES_AGE_MAX_MS)}
