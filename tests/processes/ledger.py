"""The replies that workers got, checked against the contents of the store."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from octostore import OctoStore
from octostore.core.events import Claimed, Ended, LogEntry, decode_details
from octostore.core.model import Job, Session
from octostore.core.session_keys import id_of
from tests.support.soundness import Contents

Ack = dict[str, Any]


class Ledger:
    """`check` reads the new events of the log, and checks that everything in `acks` is in the store.

    `look` reads the contents of the store, with the log after an event.
    """

    def __init__(self, look: Callable[[int], Contents]) -> None:
        self._look = look
        self.log: list[LogEntry] = []
        self.claims: dict[int, LogEntry] = {}
        self.endings: dict[int, LogEntry] = {}
        self.enqueued: dict[str | None, LogEntry] = {}
        self.last_token = 0
        self.jobs: dict[str, Job] = {}
        self.checkpoints: dict[str, Any] = {}
        self.documents: dict[int, Any] = {}
        self.sessions: dict[str, Session] = {}
        """By id; no two sessions share one here."""
        self.contexts: dict[str, Any] = {}

    def check(self, acks: list[Ack]) -> None:
        self._read()
        for ack in acks:
            getattr(self, f"_check_{ack['what']}")(ack)

    def check_tokens(self, acks: list[Ack]) -> None:
        """Tokens rise within a thread, are unique, and exceed those of all earlier workers."""
        tokens = [(ack["thread"], ack["token"]) for ack in acks if ack["what"] == "claimed"]
        for thread in {thread for thread, _ in tokens}:
            mine = [token for name, token in tokens if name == thread]
            assert all(earlier < later for earlier, later in pairwise(mine))
        assert len({token for _, token in tokens}) == len(tokens)
        assert all(token > self.last_token for _, token in tokens)
        self.last_token = max([self.last_token, *(token for _, token in tokens)])

    def _read(self) -> None:
        found = self._look(len(self.log))
        self.jobs, self.checkpoints, self.contexts = found.jobs, found.checkpoints, found.contexts
        self.sessions = {id_of(key): session for key, session in found.sessions.items()}
        self.documents |= found.documents
        self.log += found.log
        for entry in found.log:
            details = decode_details(entry)
            if isinstance(details, Claimed):
                self.claims[entry.seq] = entry
            elif isinstance(details, Ended):
                self.endings[details.fencing_token] = entry
            elif entry.type == "enqueued":
                self.enqueued[entry.job_id] = entry

    def _check_claimed(self, ack: Ack) -> None:
        entry = self.claims[ack["token"]]
        details = decode_details(entry)
        assert isinstance(details, Claimed)
        assert (entry.job_id, details.owner) == (ack["job"], ack["owner"])

    def _check_heartbeat(self, ack: Ack) -> None:
        """A heartbeat is in the row while the claim lives, and then in the event that ended the claim."""
        ending = self.endings.get(ack["token"])
        if ending is not None:
            details = decode_details(ending)
            assert isinstance(details, Ended)
            note, heartbeat_at = details.note, details.heartbeat_at
        else:
            claim = self.jobs[ack["job"]].claim
            assert claim is not None
            assert claim.fencing_token == ack["token"]
            assert claim.progress is not None
            note, heartbeat_at = claim.progress.note, claim.heartbeat_at
        assert note is not None
        assert int(note) >= ack["number"]
        assert heartbeat_at >= ack["at_ms"]

    def _check_checkpoint(self, ack: Ack) -> None:
        """This checkpoint or a later one is stored, or the job has been done since."""
        left = self.checkpoints.get(ack["job"])
        if left is None:
            done = [token for token, e in self.endings.items() if e.job_id == ack["job"] and e.type == "done"]
            assert max(done, default=0) >= ack["token"]
        else:
            assert (left["token"], left["number"]) >= (ack["token"], ack["number"])

    def _check_ended(self, ack: Ack) -> None:
        entry = self.endings[ack["token"]]
        assert (entry.job_id, entry.type) == (ack["job"], ack["how"])
        if ack["how"] == "done":
            assert self.documents[entry.seq] == {"number": ack["number"]}

    def _check_enqueued(self, ack: Ack) -> None:
        assert self.documents[self.enqueued[ack["job"]].seq] == {"number": ack["number"]}
        assert ack["job"] in self.jobs

    def _check_saved(self, ack: Ack) -> None:
        assert self.contexts[self.sessions[ack["session"]].session_id] == {"number": ack["number"]}

    def _check_closed(self, ack: Ack) -> None:
        assert self.sessions[ack["session"]].status == "closed"


def assert_all_recovered(store: OctoStore, ledger: Ledger) -> None:
    """In a store whose leases have all expired, every job can be claimed, with a new fencing token."""
    alive = {job.job_id for job in ledger.jobs.values() if job.claim is not None}
    assert {recovery.job_id for recovery in store.recover()} == alive
    assert store.list_claimed_jobs() == []
    for job_id in ledger.jobs:
        reply = store.claim_job(job_id, "successor", again=True)
        assert reply.status == "claimed"
        assert reply.fencing_token is not None
        assert reply.fencing_token > ledger.last_token
        ledger.last_token = reply.fencing_token
