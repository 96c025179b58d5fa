"""Verifying a store from outside, while others use it."""

from octostore.client.reader import OnEvent, Reader
from octostore.core.errors import NotAllowed
from octostore.core.replies import JobView, SessionView
from octostore.core.verify import Verification, Verifier, key_of, named

LOOKS = 20
"""How many times to reread a job or session that keeps changing before it can be compared with the log."""


def verify(store: Reader, on_event: OnEvent | None = None) -> Verification:
    """Call `on_event` with the `seq` of each event."""
    who = store.whoami()
    if who.prefix or "admin" not in who.scopes:
        raise NotAllowed("verifying the log means reading all of it, which needs an admin token without a prefix")
    return _Verifying(store, on_event or (lambda _seq: None)).run()


class _Verifying:
    def __init__(self, store: Reader, on_event: OnEvent) -> None:
        self._store = store
        self._on_event = on_event
        self._verifier = Verifier()

    def run(self) -> Verification:
        self._catch_up()
        self._check_jobs()
        self._check_sessions()
        return self._verifier.verdict()

    def _catch_up(self) -> int:
        """Read the new events. Returns how far the log had been read before."""
        before = self._verifier.last_seq
        for event in self._store.events(before):
            self._verifier.take(event)
            self._on_event(event.seq)
        return before

    def _check_jobs(self) -> None:
        logged = self._verifier.logged_jobs()
        names: set[str] = set()
        for page in self._store.job_pages():
            read_before = self._catch_up()
            for job in page.jobs:
                self._check_job(job, read_before)
            names |= {job.job_id for job in page.jobs}
        self._verifier.report_missing("job", logged - names)

    def _check_job(self, job: JobView, read_before: int) -> None:
        """What changed meanwhile is read again."""
        for _ in range(LOOKS):
            if self._verifier.last_change.get(job.job_id, 0) <= read_before:
                self._verifier.check_job(job)
                return
            job = self._store.get_job(job.job_id)
            read_before = self._catch_up()
        self._verifier.skip()

    def _check_sessions(self) -> None:
        logged = self._verifier.logged_sessions()
        sessions = self._store.list_sessions()
        read_before = self._catch_up()
        for session in sessions:
            self._check_session(session, read_before)
        self._verifier.report_missing("session", logged - {key_of(session) for session in sessions})

    def _check_session(self, session: SessionView, read_before: int) -> None:
        key = key_of(session)
        for _ in range(LOOKS):
            if self._verifier.last_change.get(named(key), 0) <= read_before:
                self._verifier.check_session(session)
                return
            session = self._store.get_session(key)
            read_before = self._catch_up()
        self._verifier.skip()
