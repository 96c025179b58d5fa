"""Verifying a store while others write to it."""

from typing import Any

from octostore import OctoStore
from octostore.client.embedded import EmbeddedPort
from octostore.core.questions import GetJob, GetSession, ListJobs, ListSessions, Question
from octostore.stores.memory import MemoryBackend
from octostore.stores.store import LocalStore


class BusyPort(EmbeddedPort):
    """Whenever jobs or sessions have been read, someone else changes one of each."""

    def __init__(self, store: LocalStore) -> None:
        super().__init__(store)
        self._other = OctoStore(EmbeddedPort(store))
        self._session = self._other.open_session("ann", session_id="busy")

    def ask(self, question: Question[Any]) -> Any:
        reply = super().ask(question)
        if isinstance(question, GetJob | GetSession | ListJobs | ListSessions):
            claimed = self._other.claim_job("busy")
            self._other.release_job("busy", claimed.lease_id or "")
            self._session.save("x")
        return reply


def test_what_keeps_changing_is_skipped_and_not_counted_as_checked() -> None:
    with OctoStore(BusyPort(LocalStore(MemoryBackend))) as store:
        for name in ("quiet", "busy"):
            store.enqueue("import", job_id=name)
        store.open_session("eve", session_id="quiet")
        verdict = store.verify()
    assert verdict.is_sound
    assert (verdict.jobs, verdict.sessions, verdict.skipped) == (1, 1, 2)
