"""Everything that can be asked without changing anything, as values. `Question[A]` is answered with an `A`."""

from typing import Any, Generic, TypeVar, get_args

import msgspec

from octostore.core import limits
from octostore.core.errors import InvalidInput
from octostore.core.events import LogEntry
from octostore.core.model import SessionStatus, Status
from octostore.core.names import check_job_id, check_name, check_prefix, check_session_id
from octostore.core.replies import (
    EventPage,
    Figures,
    JobPage,
    JobView,
    PrincipalView,
    Reply,
    SessionPage,
    SessionView,
    StoreKey,
    TokenList,
    TokenView,
)
from octostore.core.secret_free import SecretFree

A_co = TypeVar("A_co", bound=Reply, covariant=True)


class Question(SecretFree, msgspec.Struct, Generic[A_co], frozen=True, kw_only=True):
    """Answered from one consistent state of the store; an expired lease is no owner in any answer."""


class GetJob(Question[JobView], frozen=True, kw_only=True):
    job_id: str

    def __post_init__(self) -> None:
        check_job_id(self.job_id)


class ListJobs(Question[JobPage], frozen=True, kw_only=True):
    """Jobs by name. `cursor` is that of the page before; documents are left out."""

    prefix: str | None = None
    status: Status | None = None
    queue: str | None = None
    limit: int = limits.PAGE_DEFAULT
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_prefix(self.prefix)
        _check_status(self.status, Status)
        if self.queue is not None:
            check_name("queue", self.queue)
        limits.check_whole("limit", self.limit, 1, limits.PAGE_MAX)
        if self.cursor is not None:
            check_job_id(self.cursor)


class ListEvents(Question[EventPage], frozen=True, kw_only=True):
    """The log after an event, oldest first; of what is given, all has to be so."""

    after: int = 0
    job_id: str | None = None
    prefix: str | None = None
    session_id: str | None = None
    limit: int = limits.PAGE_DEFAULT

    def __post_init__(self) -> None:
        limits.check_whole("after", self.after, 0, limits.SEQ_MAX)
        if self.job_id is not None:
            check_job_id(self.job_id)
        if self.session_id is not None:
            check_session_id(self.session_id)
        check_prefix(self.prefix)
        limits.check_whole("limit", self.limit, 1, limits.PAGE_MAX)

    def matches(self, entry: LogEntry) -> bool:
        return (
            self.job_id in {None, entry.job_id}
            and self.session_id in {None, entry.session_id}
            and (not self.prefix or (entry.job_id or "").startswith(self.prefix))
        )


class GetSession(Question[SessionView], frozen=True, kw_only=True):
    session_id: str
    principal: str | None = None
    """Whose session it must be; that of anybody else is as good as none."""

    def __post_init__(self) -> None:
        check_session_id(self.session_id)


class ListSessions(Question[SessionPage], frozen=True, kw_only=True):
    """Sessions by id. `cursor` is that of the page before; contexts are left out."""

    status: SessionStatus | None = None
    limit: int = limits.PAGE_DEFAULT
    cursor: str | None = None
    principal: str | None = None
    """Whose sessions; those of anybody else are left out."""

    def __post_init__(self) -> None:
        _check_status(self.status, SessionStatus)
        limits.check_whole("limit", self.limit, 1, limits.PAGE_MAX)
        if self.cursor is not None:
            check_session_id(self.cursor)


class WhoAmI(Question[PrincipalView], frozen=True, kw_only=True):
    """Who asks, and what they may do. Whoever can open a store by themselves may do everything."""


class ListTokens(Question[TokenList], frozen=True, kw_only=True):
    """All tokens that were made, also those that are over; newest first."""


class FindToken(Question[TokenView], frozen=True, kw_only=True):
    """The token whose secret has this SHA-256, valid or not."""

    digest: bytes


class GetStoreKey(Question[StoreKey], frozen=True, kw_only=True):
    """The secret from which pseudonyms are made."""


class GetFigures(Question[Figures], frozen=True, kw_only=True):
    """How much there is of everything."""


def _check_status(status: str | None, known: Any) -> None:
    words = get_args(known)
    if status is not None and status not in words:
        raise InvalidInput("status", f"is {status!r}; it must be one of {', '.join(words)}")
