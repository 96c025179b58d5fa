"""`Reader`: all that can be asked. By itself, because a process that only looks needs no more, and starts faster."""

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol, Self

import msgspec

from octostore.client.methods import Blocking, Steps, as_tuple, ask, ask_all, question_method, steps_method
from octostore.core import questions as q
from octostore.core.errors import InvalidInput
from octostore.core.events import Event
from octostore.core.health import Health, Thresholds, judge
from octostore.core.limits import CLAIM_ROWS_MAX, HEARTBEATS_MAX, PAGE_DEFAULT, PAGE_MAX, WINDOW_DEFAULT_SECONDS
from octostore.core.model import SessionStatus, Status
from octostore.core.moments import to_moment
from octostore.core.names import check_job_id
from octostore.core.paging import pages
from octostore.core.replies import Heartbeat, Heartbeats, JobOwner, JobPage, JobView, SessionView, TokenView
from octostore.stores.base import OnStep

NAMES_BYTES = 8 * 1_024
"""How much of an address may be names: servers and proxies do not take longer ones."""


class ReadingPort(Protocol):
    """Something that answers questions, here or over a network; raises `Unreachable` where there was no answer."""

    def ask(self, question: q.Question[q.A_co]) -> q.A_co: ...

    def follow(self, question: q.ListEvents) -> Iterator[Event]:
        """The events that `question` asks for, and then those to come, without end and without a gap."""

    def back_up(self, copy: str, on_step: OnStep | None) -> int: ...

    def close(self) -> None: ...


def follow_log(
    port: ReadingPort, question: q.ListEvents, bell: threading.Event, seconds: float | None = None
) -> Iterator[Event]:
    """The log without end. It is read again when `bell` is set, and every so many `seconds`."""
    while True:
        bell.clear()
        page = port.ask(question)
        yield from page.events
        if page.after == question.after:
            bell.wait(seconds)
        question = msgspec.structs.replace(question, after=page.after)


def log_question(
    since: datetime | None, types: Sequence[str] | None, limit: int = PAGE_MAX, **which: Any
) -> q.ListEvents:
    if isinstance(types, str):  # it would pass for a list of one-letter words
        raise InvalidInput("types", f"must be a list of types, such as [{types!r}]")
    since_ms = None if since is None else to_moment("since", since)
    return q.ListEvents(since=since_ms, types=None if types is None else tuple(types), limit=limit, **which)


class Questions:
    """All that can be asked, for `Reader` and `AsyncOctoStore`."""

    # Jobs

    @steps_method
    def get_job_owner(self, job_id: str) -> Steps[JobOwner | None]:
        """Who has the job right now; None if nobody does. A lease that has expired is nobody's at once."""
        return (yield from ask(q.GetJob(job_id=job_id))).claim

    @question_method
    def get_job(self, job_id: str) -> q.GetJob:
        """All about a job except secrets, with its payload, checkpoint and result.

        A name that nobody has ever claimed or enqueued is a free job, and not `is_known`; see `find_similar`.
        """
        return q.GetJob(job_id=job_id)

    @question_method
    def find_similar(self, job_id: str) -> q.FindSimilar:
        """Whether a job of this name exists, and up to three names that may have been meant if it does not."""
        return q.FindSimilar(job_id=job_id)

    @steps_method
    def list_claimed_jobs(self, prefix: str | None = None) -> Steps[list[JobOwner]]:
        """The owners of all claimed jobs whose name begins with `prefix`, by name."""
        found = yield from ask_all(q.ListJobs(prefix=prefix, status="claimed", limit=PAGE_MAX))
        return [job.claim for page in found for job in page.jobs if job.claim is not None]

    @steps_method
    def dead_jobs(self, prefix: str | None = None, *, queue: str | None = None) -> Steps[list[JobView]]:
        """The jobs that are out of attempts or cancelled, and wait for a person; without documents (see `get_job`)."""
        found = yield from ask_all(q.ListJobs(prefix=prefix, status="dead", queue=queue, limit=PAGE_MAX))
        return [job for page in found for job in page.jobs]

    @question_method
    def list_jobs(
        self,
        prefix: str | None = None,
        *,
        status: Status | None = None,
        queue: str | None = None,
        owner: str | None = None,
        kind: str | None = None,
        limit: int = PAGE_DEFAULT,
        cursor: str | None = None,
        order: q.Order = "name",
    ) -> q.ListJobs:
        """A page of jobs by name, without their documents; pass its `cursor` to get the next one.

        With a `queue` and `order="run"`, they come in the order in which they will run: ready, due later, and then
        those that do not wait (claimed, dead, done). `owner` is who has them now. With `owner` or `kind`, a page may
        have fewer jobs than the `limit`, or none, and a `cursor` all the same.
        """
        return q.ListJobs(
            prefix=prefix,
            status=status,
            queue=queue,
            owner=owner,
            kind=kind,
            limit=limit,
            cursor=cursor,
            order=order,
        )

    @steps_method
    def list_heartbeats(self, job_ids: Iterable[str]) -> Steps[Heartbeats]:
        """The live claims on these jobs: when each owner last proved it was alive, and how far it has come.

        Cheaper than `get_job` for each of them. A job that nobody has is not among them. Any number of names; a server
        takes 200 in a call, so more are asked for in several, and `at` is the time of the last.
        """
        claims: list[Heartbeat] = []
        for group in _groups(as_tuple("job_ids", job_ids)):
            answer = yield from ask(q.ListHeartbeats(job_ids=group))
            claims += answer.claims
        return Heartbeats(at=answer.at, claims=claims)

    @question_method
    def list_claims(
        self,
        window: float = WINDOW_DEFAULT_SECONDS,
        *,
        prefix: str | None = None,
        queue: str | None = None,
        owner: str | None = None,
        status: Status | None = None,
        lost: bool = False,
        limit: int = CLAIM_ROWS_MAX,
    ) -> q.ListClaims:
        """Claims that were live in the last `window` seconds, by job, the most urgent first.

        That is: lost and not taken up, stuck, late, asked to stop; then live ones, first those that were taken over;
        then failed, dead, and those that have ended. Each newest first. With `lost`, only jobs that somebody lost, the
        newest loss first. `owner` has or had one of the claims; `status` is that of the job now. Follow the log from
        the answer's `seq` to keep up.
        """
        return q.ListClaims(
            window=window, prefix=prefix, queue=queue, owner=owner, status=status, lost=lost, limit=limit
        )

    @question_method
    def queue_status(self, queue: str) -> q.GetQueue:
        """What is in a queue: how many jobs are ready, due later, claimed (by whom), dead and done; and if all is done.

        Counts stop at 10,000.
        """
        return q.GetQueue(queue=queue)

    # The log

    @question_method
    def list_events(
        self,
        after: int = 0,
        *,
        job_id: str | None = None,
        prefix: str | None = None,
        session_id: str | None = None,
        since: datetime | None = None,
        types: Sequence[str] | None = None,
        limit: int = PAGE_DEFAULT,
    ) -> q.ListEvents:
        """A page of `events`; pass its `after` to get the next one. The last page is where `after` stands still.

        With a `prefix` or `types`, a page may have fewer events than the `limit` or none: at most 10,000 are looked
        through for it.
        """
        return log_question(since, types, limit, after=after, job_id=job_id, prefix=prefix, session_id=session_id)

    @question_method
    def list_queues(self) -> q.ListQueues:
        """What is in each queue, as `queue_status` tells it, with the last claim and the rates of the last hour.

        The longest 200 queues, with the most jobs waiting first. A server counts at most every 10 seconds; `counted_at`
        says when it did.
        """
        return q.ListQueues()

    # Sessions

    @question_method
    def get_session(self, session_id: str) -> q.GetSession:
        """How a session stands, with its context and the jobs bound to it. Raises `NotFound`.

        To operators, `ci/main` is the session `main` of the principal `ci`.
        """
        return q.GetSession(session_id=session_id)

    @steps_method
    def list_sessions(self, *, status: SessionStatus | None = None) -> Steps[list[SessionView]]:
        """All sessions, with the jobs bound to them but without their contexts (see `get_session`).

        By principal and id. One that has expired is `expired` at once. A server tells only your own, unless the token
        is an operator's.
        """
        return (yield from _sessions(status))

    # Tokens

    @question_method
    def whoami(self) -> q.WhoAmI:
        """Who we are to the store, and what we may do there."""
        return q.WhoAmI()

    @steps_method
    def list_tokens(self) -> Steps[list[TokenView]]:
        """All tokens that were made, newest first, also those that are over. For operators."""
        return (yield from ask(q.ListTokens())).tokens

    # All of it together

    @question_method
    def figures(self, *, max_age: float = 0) -> q.GetFigures:
        """How much there is of everything, and how it goes; `at` says when it was counted.

        A server counts again only if its last figures are older than `max_age` seconds (0 to 60).
        """
        return q.GetFigures(max_age=max_age)

    @steps_method
    def health(self, thresholds: Thresholds | None = None) -> Steps[Health]:
        """Whether the work gets done: `ok`, `degraded` or `unhealthy`, with the reasons in words."""
        figures = yield from ask(q.GetFigures())
        return judge(figures, (yield from _sessions("open")), thresholds or Thresholds())


def _sessions(status: SessionStatus | None) -> Steps[list[SessionView]]:
    found = yield from ask_all(q.ListSessions(status=status, limit=PAGE_MAX))
    return [session for page in found for session in page.sessions]


def _groups(job_ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """As many names as fit into the address of a request. There is always one, so that none at all is refused."""
    from urllib.parse import quote  # noqa: PLC0415  # few ask for it

    group: list[str] = []
    size = 0
    for job_id in job_ids:
        check_job_id("job_ids", job_id)
        size += len(quote(job_id, safe="")) + len("%2C")
        if len(group) == HEARTBEATS_MAX or size > NAMES_BYTES:
            yield tuple(group)
            group, size = [], 0
        group.append(job_id)
    yield tuple(group)


class Reader(Blocking, Questions):
    """The half of `OctoStore` that changes nothing."""

    def __init__(self, port: ReadingPort) -> None:
        self._port = port

    def job_pages(
        self,
        prefix: str | None = None,
        *,
        status: Status | None = None,
        queue: str | None = None,
        owner: str | None = None,
        kind: str | None = None,
        limit: int = PAGE_MAX,
        order: q.Order = "name",
    ) -> Iterator[JobPage]:
        """All pages of `list_jobs`, each with up to `limit` jobs, as they are read."""
        question = q.ListJobs(
            prefix=prefix, status=status, queue=queue, owner=owner, kind=kind, limit=limit, order=order
        )
        return pages(self._port.ask, question)

    def events(
        self,
        after: int = 0,
        *,
        job_id: str | None = None,
        prefix: str | None = None,
        session_id: str | None = None,
        since: datetime | None = None,
        types: Sequence[str] | None = None,
        follow: bool = False,
    ) -> Iterator[Event]:
        """The log after event `after`, oldest first: all, or that of a job, a session, or of jobs by `prefix`.

        `since` is a time, by the store's clock; `types` are those wanted, such as `["expired", "force_released"]`.
        With `follow` it goes on with what happens next, for ever. `seq` has no gaps, so the last one seen is all that
        is needed to resume. A server leaves out what you may not see: jobs beyond your token's prefix, and what happens
        to the sessions of others, unless the token is an operator's.
        """
        question = log_question(since, types, after=after, job_id=job_id, prefix=prefix, session_id=session_id)
        if follow:
            return self._port.follow(question)
        return (event for page in pages(self._port.ask, question) for event in page.events)

    def backup(self, path: str | os.PathLike[str], on_step: OnStep | None = None) -> int:
        """Copy the embedded store, as it is now, to a new file while others keep writing.

        Returns the `seq` of the last event in the copy. `on_step` is called with the pages copied so far and their
        total. Raises `InvalidInput` if `path` exists, or if the store is not a file. `octostore restore` turns the copy
        into a store again.
        """
        return self._port.back_up(os.fspath(path), on_step)

    def close(self) -> None:
        """Let go of everything. What was answered is durable; calls after this raise `Unreachable`."""
        self._port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()
