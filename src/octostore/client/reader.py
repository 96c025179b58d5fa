"""`Reader`: all questions. In its own module, because a process that only reads starts faster without the rest."""

import math
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, Protocol, Self, TypeAlias

import msgspec

from octostore.client.methods import (
    Awaited,
    Blocking,
    Method,
    P,
    Steps,
    as_tuple,
    ask,
    ask_all,
    iterator_method,
    port_method,
    port_thread_method,
    question_method,
    returning,
    steps_method,
)
from octostore.core import questions as q
from octostore.core.events import Event
from octostore.core.health import Health, Thresholds, judge
from octostore.core.limits import CLAIM_ROWS_MAX, HEARTBEATS_MAX, PAGE_DEFAULT, PAGE_MAX, WINDOW_DEFAULT_SECONDS
from octostore.core.model import SessionStatus, Status
from octostore.core.moments import to_moment
from octostore.core.names import check_job_id
from octostore.core.paging import pages, pages_async
from octostore.core.replies import Heartbeat, Heartbeats, JobOwner, JobPage, JobView, SessionView, TokenView
from octostore.stores.base import OnStep

if TYPE_CHECKING:
    from octostore.core.verify import Verification

OnEvent: TypeAlias = Callable[[int], None]

NAMES_BYTES = 8 * 1_024
"""How many bytes of a URL may be names: servers and proxies refuse longer URLs."""


class ReadingPort(Protocol):
    """Replies to questions, here or over a network. Raises `Unreachable` if there is no reply."""

    def ask(self, question: q.Question[q.A_co]) -> q.A_co: ...

    def follow(self, question: q.ListEvents, wait: float = math.inf) -> Iterator[Event]:
        """The events that `question` asks for, then new ones as they happen, without a gap, for `wait` seconds."""

    def back_up(self, copy: str, on_step: OnStep | None) -> int: ...

    def close(self) -> None: ...


def follow_log(
    port: ReadingPort, question: q.ListEvents, bell: threading.Event, wait: float, poll_seconds: float = math.inf
) -> Iterator[Event]:
    """Read the log for `wait` seconds, again when `bell` is set and every `poll_seconds`."""
    deadline = time.monotonic() + wait
    while True:
        bell.clear()
        page = port.ask(question)
        yield from page.events
        if page.after == question.after:
            pause = min(deadline - time.monotonic(), poll_seconds)
            if pause <= 0:
                return
            bell.wait(None if math.isinf(pause) else pause)
        question = msgspec.structs.replace(question, after=page.after)


def log_question(
    since: datetime | None, types: Sequence[str] | None, limit: int = PAGE_MAX, **which: Any
) -> q.ListEvents:
    since_ms = None if since is None else to_moment("since", since)
    return q.ListEvents(since=since_ms, types=None if types is None else as_tuple("types", types), limit=limit, **which)


class EventsCall(NamedTuple):
    question: q.ListEvents
    follow: bool


def _read_events(port: Any, call: EventsCall) -> Iterator[Event]:
    if call.follow:
        followed: Iterator[Event] = port.follow(call.question)
        return followed
    return (event for page in pages(port.ask, call.question) for event in page.events)


def _read_events_async(port: Any, call: EventsCall) -> AsyncIterator[Event]:
    if call.follow:
        followed: AsyncIterator[Event] = port.follow(call.question)
        return followed
    return (event async for page in pages_async(port.ask, call.question) for event in page.events)


def events_method(
    build: Callable[Concatenate[Any, P], EventsCall],
) -> Method[P, EventsCall, Iterator[Event], AsyncIterator[Event]]:
    return iterator_method(returning(Iterator[Event], build), _read_events, _read_events_async)


def pages_method(
    build: Callable[Concatenate[Any, P], q.ListJobs],
) -> Method[P, q.ListJobs, Iterator[JobPage], AsyncIterator[JobPage]]:
    return iterator_method(
        returning(Iterator[JobPage], build),
        lambda port, question: pages(port.ask, question),
        lambda port, question: pages_async(port.ask, question),
    )


def _verify(port: Any, on_event: OnEvent | None) -> "Verification":
    from octostore.client.verification import verify  # noqa: PLC0415  # few processes verify

    return verify(Reader(port), on_event)


def verify_method(
    build: Callable[Concatenate[Any, P], OnEvent | None],
) -> "Awaited[P, OnEvent | None, Verification]":
    return port_thread_method(returning("Verification", build), _verify)


def backup_method(
    build: Callable[Concatenate[Any, P], tuple[str, OnStep | None]],
) -> Awaited[P, tuple[str, OnStep | None], int]:
    return port_thread_method(returning(int, build), lambda port, call: port.back_up(*call))


class SettledCall(NamedTuple):
    job_id: str
    wait: float | None


def _wait_for_job(port: Any, call: SettledCall) -> JobView:
    from octostore.client.settled import wait_for_job  # noqa: PLC0415  # few processes wait

    return wait_for_job(port, *call)


async def _wait_for_job_async(port: Any, call: SettledCall) -> JobView:
    from octostore.client.async_settled import wait_for_job_async  # noqa: PLC0415

    return await wait_for_job_async(port, *call)


def settled_method(build: Callable[Concatenate[Any, P], SettledCall]) -> Awaited[P, SettledCall, JobView]:
    return port_method(returning(JobView, build), _wait_for_job, _wait_for_job_async)


class Questions:
    """All questions, for `Reader` and `AsyncOctoStore`."""

    # Jobs

    @steps_method
    def get_job_owner(self, job_id: str) -> Steps[JobOwner | None]:
        """Get the current owner of a job.

        Args:
            job_id: The job's name.

        Returns:
            The owner, with its last heartbeat and progress, or None. A job whose lease has expired has no owner.

        Example:
            >>> _ = store.claim_job("deploy", owner="agent-3")
            >>> store.get_job_owner("deploy").owner
            'agent-3'
            >>> store.get_job_owner("rollback") is None
            True
        """
        return (yield from ask(q.GetJob(job_id=job_id))).claim

    @question_method
    def get_job(self, job_id: str) -> q.GetJob:
        """Read everything about a job: status, owner, payload, checkpoint, result and earlier attempts.

        Args:
            job_id: The job's name.

        Returns:
            The job. If no one has ever claimed or enqueued it, it is `free`, and `is_known` is False.

        Example:
            >>> _ = store.enqueue("test", {"commit": "4f2a"}, job_id="test-1")
            >>> job = store.get_job("test-1")
            >>> job.status, job.payload, job.attempts
            ('queued', {'commit': '4f2a'}, 0)
        """
        return q.GetJob(job_id=job_id)

    @settled_method
    def wait_for_job(self, job_id: str, *, wait: float | None = None) -> SettledCall:
        """Wait until a job is done or dead.

        It also waits for a job that nobody has enqueued yet.

        Args:
            job_id: The job's name.
            wait: Seconds to wait. None waits forever.

        Returns:
            The job as it is then. If `wait` seconds passed first, it is neither done nor dead: check its `status`.

        Example:
            >>> _ = store.enqueue("double", {"number": 21}, job_id="sum-1")
            >>> _ = store.work("default", lambda claim: claim.payload["number"] * 2, until_empty=True)
            >>> job = store.wait_for_job("sum-1", wait=30)
            >>> job.status, job.result
            ('done', 42)
        """
        return SettledCall(job_id, wait)

    @question_method
    def find_similar(self, job_id: str) -> q.FindSimilar:
        """Check whether a job exists, and suggest names if it does not.

        Args:
            job_id: The name to look for.

        Returns:
            `is_known`, and up to three `similar` names.

        Example:
            >>> _ = store.claim_job("nightly-report")
            >>> store.find_similar("nightly-reprot").similar
            ['nightly-report']
        """
        return q.FindSimilar(job_id=job_id)

    @steps_method
    def list_claimed_jobs(self, prefix: str | None = None) -> Steps[list[JobOwner]]:
        """List the owners of all claimed jobs, sorted by job.

        Args:
            prefix: Only jobs whose name begins with this.

        Returns:
            One owner per claimed job.

        Example:
            >>> _ = store.claim_many(["build/1", "build/2", "deploy"], owner="ci")
            >>> [job.job_id for job in store.list_claimed_jobs(prefix="build/")]
            ['build/1', 'build/2']
        """
        found = yield from ask_all(q.ListJobs(prefix=prefix, status="claimed", limit=PAGE_MAX))
        return [job.claim for page in found for job in page.jobs if job.claim is not None]

    @steps_method
    def dead_jobs(self, prefix: str | None = None, *, queue: str | None = None) -> Steps[list[JobView]]:
        """List dead letters: jobs that exhausted their attempts or were cancelled, and wait for a person.

        Args:
            prefix: Only jobs whose name begins with this.
            queue: Only jobs in this queue.

        Returns:
            The jobs, sorted by name, without payload, checkpoint or result; `get_job` returns those.

        Example:
            >>> _ = store.enqueue("import", job_id="import-1")
            >>> _ = store.cancel("import-1")
            >>> [job.job_id for job in store.dead_jobs()]
            ['import-1']
        """
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
        """List jobs, one page at a time. `job_pages` reads all pages.

        Args:
            prefix: Only jobs whose name begins with this.
            status: Only `free`, `queued`, `claimed`, `done` or `dead` jobs.
            queue: Only jobs in this queue.
            owner: Only jobs claimed by this owner.
            kind: Only jobs of this kind.
            limit: Jobs per page, 1 to 1,000. With `owner` or `kind`, a page may have fewer without being the last.
            cursor: The `cursor` of the previous page.
            order: `name`, or `run` with a `queue`: first the jobs that will run, in that order, then the others.

        Returns:
            A page to iterate over, without payloads, checkpoints or results. The `cursor` of the last page is None.

        Example:
            >>> _ = store.enqueue_many([{"job_id": f"crawl-{n}"} for n in range(3)], kind="crawl")
            >>> page = store.list_jobs(prefix="crawl-", limit=2)
            >>> [job.job_id for job in page]
            ['crawl-0', 'crawl-1']
            >>> [job.job_id for job in store.list_jobs(prefix="crawl-", cursor=page.cursor)]
            ['crawl-2']
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

    @pages_method
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
    ) -> q.ListJobs:
        """Read all pages of `list_jobs`, one at a time as you iterate.

        Args:
            prefix: See `list_jobs` for this and the other arguments.
            status: Only jobs with this status.
            queue: Only jobs in this queue.
            owner: Only jobs claimed by this owner.
            kind: Only jobs of this kind.
            limit: Jobs per page, 1 to 1,000.
            order: `name` or `run`.

        Returns:
            An iterator of pages.

        Example:
            >>> _ = store.enqueue_many([{"job_id": f"crawl-{n}"} for n in range(3)], kind="crawl")
            >>> [job.job_id for page in store.job_pages(limit=2) for job in page]
            ['crawl-0', 'crawl-1', 'crawl-2']
        """
        return q.ListJobs(prefix=prefix, status=status, queue=queue, owner=owner, kind=kind, limit=limit, order=order)

    @steps_method
    def list_heartbeats(self, job_ids: Iterable[str]) -> Steps[Heartbeats]:
        """Read the last heartbeat of each job's owner. Cheaper than calling `get_job` for each.

        Args:
            job_ids: Any number of job names. A server takes 200 per request, so more need several requests.

        Returns:
            The live claims of these jobs. Jobs without an owner are left out.

        Example:
            >>> _ = store.claim_job("deploy")
            >>> [claim.job_id for claim in store.list_heartbeats(["deploy", "rollback"]).claims]
            ['deploy']
        """
        claims: list[Heartbeat] = []
        for group in _groups(as_tuple("job_ids", job_ids)):
            reply = yield from ask(q.ListHeartbeats(job_ids=group))
            claims += reply.claims
        return Heartbeats(at=reply.at, claims=claims)

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
        """List claims that were live recently, grouped by job, the most urgent job first.

        The order of jobs is: lost and not taken over, stuck, late, asked to stop, taken over by a live owner, other
        live claims, failed, dead, ended. Within each group, the newest come first.

        Args:
            window: How many seconds to look back.
            prefix: Only jobs whose name begins with this.
            queue: Only jobs in this queue.
            owner: Only jobs that this owner has, or had within the window.
            status: Only jobs with this status now.
            lost: Only jobs that an owner lost, the newest loss first.
            limit: Maximum number of jobs, up to 200.

        Returns:
            The claims as of event `seq`. Follow the log from there to stay up to date.

        Example:
            >>> _ = store.claim_job("deploy", owner="agent-3")
            >>> [row.claims[0].owner for row in store.list_claims().rows]
            ['agent-3']
        """
        return q.ListClaims(
            window=window, prefix=prefix, queue=queue, owner=owner, status=status, lost=lost, limit=limit
        )

    # Queues

    @question_method
    def queue_status(self, queue: str) -> q.GetQueue:
        """Count the jobs in a queue: ready, due later, claimed, dead and done. Counts stop at 10,000.

        Args:
            queue: The queue's name.

        Returns:
            The counts, some owners, and `all_done`: whether every job is done or dead.

        Example:
            >>> _ = store.enqueue("build", queue="ci")
            >>> status = store.queue_status("ci")
            >>> status.ready, status.all_done
            (1, False)
        """
        return q.GetQueue(queue=queue)

    @question_method
    def list_queues(self) -> q.ListQueues:
        """List the 200 longest queues, with their last claims and the rates of the last hour.

        Returns:
            The queues, the longest first. A server's counts are at most 10 seconds old.

        Example:
            >>> _ = store.enqueue("build", queue="ci")
            >>> [(queue.queue, queue.ready) for queue in store.list_queues().queues]
            [('ci', 1)]
        """
        return q.ListQueues()

    # The log

    @events_method
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
    ) -> EventsCall:
        """Read the log, oldest event first. To resume, pass the last `seq` you saw as `after`; `seq` only grows.

        A server leaves out events that your token may not see.

        Args:
            after: Only events after this `seq`.
            job_id: Only events about this job.
            prefix: Only events about jobs whose name begins with this.
            session_id: Only events about this session and its jobs.
            since: Only events since this time, by the store's clock.
            types: Only events of these types, for example `["expired", "force_released"]`.
            follow: Continue with new events as they happen, forever.

        Returns:
            An iterator of events.

        Example:
            >>> with store.hold("deploy"):
            ...     pass
            >>> [(event.seq, event.type) for event in store.events(job_id="deploy")]
            [(1, 'claimed'), (2, 'released')]
        """
        question = log_question(since, types, after=after, job_id=job_id, prefix=prefix, session_id=session_id)
        return EventsCall(question, follow)

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
        """Read one page of the log. `events` reads all of it.

        Args:
            after: Only events after this `seq`.
            job_id: See `events` for this and the other arguments.
            prefix: Only events about jobs whose name begins with this.
            session_id: Only events about this session and its jobs.
            since: Only events since this time.
            types: Only events of these types.
            limit: Events per page, 1 to 1,000. With `prefix` or `types`, a page may have fewer without being the last.

        Returns:
            A page to iterate over. Pass its `after` to get the next page, until `after` no longer changes.

        Example:
            >>> _ = store.claim_job("deploy")
            >>> page = store.list_events()
            >>> [event.type for event in page], page.after
            (['claimed'], 1)
        """
        return log_question(since, types, limit, after=after, job_id=job_id, prefix=prefix, session_id=session_id)

    # Sessions

    @question_method
    def get_session(self, session_id: str) -> q.GetSession:
        """Read a session, with its context and jobs.

        Args:
            session_id: The session. For operators, `ci/main` is the session `main` of the principal `ci`.

        Returns:
            The session.

        Raises:
            NotFound: There is no such session.

        Example:
            >>> session = store.open_session("agent-3", session_id="main")
            >>> store.get_session("main").status
            'open'
        """
        return q.GetSession(session_id=session_id)

    @steps_method
    def list_sessions(self, *, status: SessionStatus | None = None) -> Steps[list[SessionView]]:
        """List sessions with the jobs bound to them, sorted by principal and id. Only operators see all sessions.

        Args:
            status: Only `open`, `closed` or `expired` sessions.

        Returns:
            The sessions, without their contexts; `get_session` returns those.

        Example:
            >>> session = store.open_session("agent-3", session_id="main")
            >>> [session.session_id for session in store.list_sessions(status="open")]
            ['main']
        """
        return (yield from _sessions(status))

    # Tokens

    @question_method
    def whoami(self) -> q.WhoAmI:
        """Get your principal, and what it may do.

        Returns:
            Your principal, scopes and prefix.

        Example:
            >>> store.whoami().name
            'local'
        """
        return q.WhoAmI()

    @steps_method
    def list_tokens(self) -> Steps[list[TokenView]]:
        """List all access tokens, newest first, including expired and revoked ones. For operators.

        Returns:
            The tokens, without their secrets.

        Raises:
            NotAllowed: Your token is not an operator's.

        Example:
            >>> _ = store.create_token("ci")
            >>> [token.name for token in store.list_tokens()]
            ['ci']
        """
        return (yield from ask(q.ListTokens())).tokens

    # The store

    @question_method
    def figures(self, *, max_age: float = 0) -> q.GetFigures:
        """Count everything: claims, waiting and dead jobs, sessions and recent losses.

        Args:
            max_age: A server may return figures up to this many seconds old, 0 to 60.

        Returns:
            The counts, the time of counting (`at`), and the resulting health `status`.

        Example:
            >>> _ = store.claim_job("deploy")
            >>> store.figures().claimed
            1
        """
        return q.GetFigures(max_age=max_age)

    @steps_method
    def health(self, thresholds: Thresholds | None = None) -> Steps[Health]:
        """Judge whether work is getting done: `ok`, `degraded` or `unhealthy`, with the reasons.

        Args:
            thresholds: The counts at which the status changes.

        Returns:
            The status, its reasons, and the counts behind it.

        Example:
            >>> _ = store.enqueue("import", job_id="import-1")
            >>> _ = store.cancel("import-1")
            >>> health = store.health()
            >>> health.status, health.reasons
            ('degraded', ['1 dead job needs attention'])
        """
        figures = yield from ask(q.GetFigures())
        return judge(figures, (yield from _sessions("open")), thresholds or Thresholds())

    @verify_method
    def verify(self, on_event: OnEvent | None = None) -> OnEvent | None:
        """Check that the log has no gaps, matches what is stored, and ends each claim only once. For operators.

        Reads the whole log and every job while others continue to write.

        Args:
            on_event: Called with the `seq` of each event as it is read. `AsyncOctoStore` calls it from another thread.

        Returns:
            What was checked, and the problems found.

        Raises:
            NotAllowed: Your token is not an operator's, or is limited to a prefix.

        Example:
            >>> store.verify().is_sound
            True
        """
        return on_event

    @backup_method
    def backup(self, path: str | os.PathLike[str], on_step: OnStep | None = None) -> tuple[str, OnStep | None]:
        """Copy an embedded store to a new file while others keep writing. Restore the copy with `octostore restore`.

        Args:
            path: The file to create.
            on_step: Called with the number of pages copied and the total.

        Returns:
            The `seq` of the last event in the copy.

        Raises:
            InvalidInput: `path` already exists, or the store is not a file.

        Example:
            >>> store = octostore.connect(f"sqlite:///{tmp_path}/store.db")
            >>> _ = store.claim_job("deploy")
            >>> store.backup(tmp_path / "copy.db")
            1
        """
        return os.fspath(path), on_step

    @steps_method
    def close(self) -> Steps[None]:
        """Close the connection. Later calls raise `Unreachable`. Acknowledged writes are durable.

        Example:
            >>> with octostore.connect("memory:") as store:  # closes it at the end
            ...     _ = store.claim_job("deploy")
        """
        yield lambda port: port.close()


def _sessions(status: SessionStatus | None) -> Steps[list[SessionView]]:
    found = yield from ask_all(q.ListSessions(status=status, limit=PAGE_MAX))
    return [session for page in found for session in page.sessions]


def _groups(job_ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """As many names as fit into a URL. There is always one group, so that no names at all are refused."""
    from urllib.parse import quote  # noqa: PLC0415  # rarely needed

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()
