"""The second round trip of a batch: rows that belong to the jobs loaded in the first."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from octostore.core.model import Job
from octostore.core.needs import Selection
from octostore.core.session_keys import SessionKey
from octostore.core.working_set import WorkingSet
from octostore.stores.database import NO_ROWS, Database
from octostore.stores.taking import add_queues, add_sessions

if TYPE_CHECKING:
    from octostore.stores.counting import Counting


def count_lines(
    database: Database, ws: WorkingSet, lines: Collection[tuple[str, Selection]]
) -> "dict[tuple[str, Selection], Counting]":
    from octostore.stores.counting import Counting  # noqa: PLC0415  # not needed by readers

    return {line: Counting(database, ws, *line) for line in lines}


class Completing:
    """The sessions of claims, the queues of jobs, and the documents of jobs in `with_documents` or in one of `lines`.

    Also expired `sessions`, and, for claims that find nothing in one of `short_lines`, what else is in the queue.
    """

    def __init__(
        self,
        ws: WorkingSet,
        sessions: Collection[SessionKey] = (),
        lines: Collection[str] = (),
        short_lines: Collection[tuple[str, Selection]] = (),
        with_documents: Collection[str] = (),
    ) -> None:
        self._ws = ws
        self._sessions = {name for name in sessions if ws.sessions.get(name) is None} if sessions else set()
        self._queues: set[str] = set()
        self._bare: list[Job] = []
        """Jobs whose documents are still to be loaded."""
        self._short_lines = short_lines
        for job in ws.jobs.values():
            if job is None:
                continue
            claim, queue = job.claim, job.queue
            if claim is not None and claim.session_id is not None and ws.sessions.get(claim.session_id) is None:
                self._sessions.add(claim.session_id)
            if queue is not None and queue not in ws.queues:
                self._queues.add(queue)
            if (queue in lines or job.job_id in with_documents) and job.job_id not in ws.checkpoints:
                self._bare.append(job)

    @property
    def is_needed(self) -> bool:
        return bool(self._sessions or self._queues or self._bare or self._short_lines)

    def run(self, database: Database) -> None:
        ws, bare = self._ws, self._bare
        seqs = [seq for job in bare for seq in (job.payload_seq, job.result_seq) if seq is not None]
        sessions = database.query("sessions", sessions=self._sessions) if self._sessions else NO_ROWS
        queues = database.query("queues", names=self._queues) if self._queues else NO_ROWS
        documents = database.query("documents", seqs=seqs) if seqs else NO_ROWS
        checkpoints = database.query("checkpoints", jobs=[job.job_id for job in bare]) if bare else NO_ROWS
        expiry = database.query("next_expiry") if self._short_lines else NO_ROWS
        counted = count_lines(database, ws, self._short_lines) if self._short_lines else {}
        database.run()
        add_sessions(ws, sessions.rows)
        add_queues(ws, self._queues, queues.rows)
        ws.documents.update(documents.rows)
        ws.checkpoints.update({job.job_id: None for job in bare})
        ws.checkpoints.update(checkpoints.rows)
        for (ws.next_expiry,) in expiry.rows:
            ws.queue_counts.update({line: counting.counts for line, counting in counted.items()})
