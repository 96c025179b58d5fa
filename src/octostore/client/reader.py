"""`Reader`: all that can be asked. By itself, because a process that only looks needs no more, and starts faster."""

import os
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from octostore.core import questions as q
from octostore.core.events import Event
from octostore.core.health import Health, Thresholds, judge
from octostore.core.limits import PAGE_DEFAULT, PAGE_MAX
from octostore.core.model import SessionStatus, Status
from octostore.core.paging import pages
from octostore.core.replies import Figures, JobOwner, JobPage, JobView, PrincipalView, SessionView, TokenView
from octostore.stores.base import OnStep


class ReadingPort(Protocol):
    """Something that answers questions, here or over a network; raises `Unreachable` where there was no answer."""

    def ask(self, question: q.Question[q.A_co]) -> q.A_co: ...

    def follow(self, question: q.ListEvents) -> Iterator[Event]:
        """The events that `question` asks for, and then those to come, without end and without a gap."""

    def back_up(self, copy: str, on_step: OnStep) -> int: ...

    def close(self) -> None: ...


class Reader:
    """The half of `OctoStore` that changes nothing."""

    def __init__(self, port: ReadingPort) -> None:
        self._port = port

    # Jobs

    def get_job_owner(self, job_id: str) -> JobOwner | None:
        """Who has the job right now; None if nobody does. A lease that has run out is nobody's at once."""
        return self.get_job(job_id).claim

    def get_job(self, job_id: str) -> JobView:
        """All about a job but secrets and its checkpoint, which is the next owner's. An unknown name is a free job."""
        return self._port.ask(q.GetJob(job_id=job_id))

    def list_claimed_jobs(self, prefix: str | None = None) -> list[JobOwner]:
        """The owners of all claimed jobs whose name begins with `prefix`, by name."""
        found = self.job_pages(prefix, status="claimed")
        return [job.claim for page in found for job in page.jobs if job.claim is not None]

    def dead_jobs(self, prefix: str | None = None, *, queue: str | None = None) -> list[JobView]:
        """The jobs that are out of attempts or cancelled, and wait for a person; without documents (see `get_job`)."""
        return [job for page in self.job_pages(prefix, status="dead", queue=queue) for job in page.jobs]

    def list_jobs(
        self,
        prefix: str | None = None,
        *,
        status: Status | None = None,
        queue: str | None = None,
        limit: int = PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> JobPage:
        """A page of jobs by name, without their documents; pass its `cursor` to get the next one."""
        return self._port.ask(q.ListJobs(prefix=prefix, status=status, queue=queue, limit=limit, cursor=cursor))

    def job_pages(
        self,
        prefix: str | None = None,
        *,
        status: Status | None = None,
        queue: str | None = None,
        limit: int = PAGE_MAX,
    ) -> Iterator[JobPage]:
        """All pages of `list_jobs`, each with up to `limit` jobs, as they are read."""
        return pages(self._port.ask, q.ListJobs(prefix=prefix, status=status, queue=queue, limit=limit))

    # Sessions

    def get_session(self, session_id: str) -> SessionView:
        """How a session stands, with its context and the jobs bound to it. Raises `NotFound`."""
        return self._port.ask(q.GetSession(session_id=session_id))

    def list_sessions(self, *, status: SessionStatus | None = None) -> list[SessionView]:
        """All sessions by id, with the jobs bound to them but without their contexts (see `get_session`).

        One that has run out is `expired` at once. A server tells only your own, unless the token is an operator's.
        """
        found = pages(self._port.ask, q.ListSessions(status=status, limit=PAGE_MAX))
        return [session for page in found for session in page.sessions]

    # Tokens

    def whoami(self) -> PrincipalView:
        """Who we are to the store, and what we may do there."""
        return self._port.ask(q.WhoAmI())

    def list_tokens(self) -> list[TokenView]:
        """All tokens that were made, newest first, also those that are over. For operators."""
        return self._port.ask(q.ListTokens()).tokens

    # The log, and all of it together

    def events(
        self,
        after: int = 0,
        *,
        job_id: str | None = None,
        prefix: str | None = None,
        session_id: str | None = None,
        follow: bool = False,
    ) -> Iterator[Event]:
        """The log after event `after`, oldest first: all, or that of a job, a session, or of jobs by `prefix`.

        With `follow` it goes on with what happens next, for ever. `seq` has no gaps, so the last one seen is all that
        is needed to resume.
        """
        question = q.ListEvents(after=after, job_id=job_id, prefix=prefix, session_id=session_id, limit=PAGE_MAX)
        if follow:
            return self._port.follow(question)
        return (event for page in pages(self._port.ask, question) for event in page.events)

    def figures(self) -> Figures:
        """How much there is of everything, and how it goes."""
        return self._port.ask(q.GetFigures())

    def health(self, thresholds: Thresholds | None = None) -> Health:
        """Whether the work gets done: `ok`, `degraded` or `unhealthy`, with the reasons in words."""
        return judge(self.figures(), self.list_sessions(status="open"), thresholds or Thresholds())

    def backup(self, path: str | os.PathLike[str], on_step: OnStep = lambda _done, _all: None) -> int:
        """Copy the embedded store, as it is now, to a new file, while others go on writing.

        Gives the `seq` of the last event in the copy. `on_step` is told how much has been copied, and of how much.
        Raises `InvalidInput` if there is something at `path`, or if the store is not a file. `octostore restore` makes
        a store of it.
        """
        return self._port.back_up(os.fspath(path), on_step)

    def close(self) -> None:
        """Let go of everything. What was answered is durable; calls after this raise `Unreachable`."""
        self._port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()
