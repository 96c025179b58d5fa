"""Loading and saving inside one transaction. SQL, and no rules."""

from collections.abc import Iterable
from functools import partial
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import apsw

from octostore.core.events import LogEntry
from octostore.core.health import LATE_SHARE, TAKEN_BACK_MS
from octostore.core.limits import FIGURES_QUEUES, PRIORITY_MIN, REQUESTS_KEPT, REQUESTS_KEPT_MS, SWEEP_LIMIT
from octostore.core.model import Job, Queue, Session, SessionStatus, Status, Token, read_in_flight
from octostore.core.moments import earliest, to_datetime, to_datetime_or_none
from octostore.core.needs import LineNeed, Needs, Selection
from octostore.core.replies import Figures
from octostore.core.working_set import WorkingSet
from octostore.stores.base import Counters, EventFilter, JobFilter, SessionFilter
from octostore.stores.clock import Mark
from octostore.stores.listing import LAST_NAME, Log, page_of_log, span_of, to_forget
from octostore.stores.named_sql import load_queries
from octostore.stores.rows import (
    ended_request_from_row,
    job_from_row,
    job_to_renewal,
    job_to_row,
    session_from_row,
    to_row,
    token_from_row,
    token_to_row,
)

SQL = load_queries(Path(__file__).with_name("queries.sql"))

NO_LIMIT = -1


class Transaction:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.has_saved = False

    def counters(self) -> Counters:
        seq, *mark = self._one("counters")
        return Counters(seq, Mark(*mark))

    # Loading

    def load(self, ws: WorkingSet, needs: Needs) -> None:
        ws.jobs.update(dict.fromkeys(needs.jobs))
        ws.sessions.update(dict.fromkeys(needs.sessions))
        for session_id in needs.sessions:
            self._add_session(ws, session_id)
        for name in needs.queues:
            self._add_queue(ws, name, count=name in needs.counted_queues)
        self._add_jobs(ws, self._many("job", ((job_id,) for job_id in needs.jobs)))
        self._add_claims_of(ws, needs.claims_of)
        with_documents = needs.documents_of | self._add_in_flight(ws, needs.in_flight_of)
        self._add_expired(ws, needs.sweep_limit)
        for request in needs.requests:
            for claimed in self._add_jobs(ws, self._all("job_of_request", *request)):
                ws.requests[request] = claimed.job_id
        for principal, request_id in needs.ended:
            rows = self._all("ended_requests", principal, request_id)
            ws.ended[principal, request_id] = list(map(ended_request_from_row, rows))
        for queue, line in needs.lines.items():
            if not ws.has_all_expired:
                self._add_jobs(ws, self._all("expired_in_queue", queue, ws.now, SWEEP_LIMIT))
            self._add_line(ws, queue, line)
        self._add_rights(ws, needs)
        ws.checkpoints.update(dict.fromkeys(needs.documents_of))
        for job in ws.jobs.values():
            if job is not None and (job.job_id in with_documents or job.queue in needs.lines):
                self._add_documents(ws, job)

    def _add_claims_of(self, ws: WorkingSet, session_ids: set[str]) -> None:
        for session_id in session_ids:
            self._add_jobs(ws, self._all("claims_of_session", session_id, NO_LIMIT))
        ws.sessions_with_all_claims |= session_ids

    def _add_in_flight(self, ws: WorkingSet, session_ids: set[str]) -> set[str]:
        """What these sessions have and had: the names of these jobs."""
        names: set[str] = set()
        for session_id in session_ids:
            session = ws.sessions[session_id]
            if session is not None:
                names |= {job.job_id for job in ws.claims_of(session_id)}
                names |= {
                    job.job_id
                    for job in self._add_jobs(ws, self._many("job", ((name,) for name in read_in_flight(session))))
                }
        return names

    def _add_rights(self, ws: WorkingSet, needs: Needs) -> None:
        for token_id in needs.tokens:
            row = self._one_or_none("token", token_id)
            ws.tokens[token_id] = token_from_row(row) if row else None
        for digest in needs.digests:
            token = self.find_token(digest)
            if token is not None:
                ws.tokens.setdefault(token.token_id, token)
        for principal, is_lock in needs.claim_counts:
            if not ws.has_all_expired:
                self._add_jobs(ws, self._all("expired_of_principal", principal, is_lock, ws.now, SWEEP_LIMIT))
            ws.claim_counts[principal, is_lock] = self._one("claims_of_principal", principal, is_lock)[0]

    def _add_jobs(self, ws: WorkingSet, rows: Iterable[Any]) -> list[Job]:
        """Put jobs into the working set, each with its session and queue; those there already stay as they are."""
        jobs = []
        # All rows are fetched before anything else is asked: the connection's cursors share statements.
        for row in list(rows):
            job = ws.jobs.get(row[0])
            if job is None:
                job = job_from_row(row)
                ws.add_job(job)
                if job.claim is not None and job.claim.session_id is not None:
                    self._add_session(ws, job.claim.session_id)
                if job.queue is not None and job.queue not in ws.queues:
                    self._add_queue(ws, job.queue, count=False)
            jobs.append(job)
        return jobs

    def _add_session(self, ws: WorkingSet, session_id: str) -> None:
        if ws.sessions.get(session_id) is None:
            row = self._one_or_none("session", session_id)
            if row is not None:
                self._put_session(ws, session_from_row(row))

    def _put_session(self, ws: WorkingSet, session: Session) -> None:
        ws.sessions[session.session_id] = session
        if session.context_seq is not None:
            ws.documents[session.context_seq] = self._one("document", session.context_seq)[0]

    def _add_queue(self, ws: WorkingSet, name: str, *, count: bool) -> None:
        row = self._one_or_none("queue", name)
        max_claimed = row[0] if row else None
        ws.queues[name] = None
        if max_claimed is not None or count:
            ws.queues[name] = Queue(name, max_claimed, self._one("claimed_in_queue", name)[0])

    def _add_documents(self, ws: WorkingSet, job: Job) -> None:
        for seq in (job.payload_seq, job.result_seq):
            if seq is not None:
                ws.documents[seq] = self._one("document", seq)[0]
        row = self._one_or_none("checkpoint", job.job_id)
        ws.checkpoints[job.job_id] = row[0] if row else None

    def _add_expired(self, ws: WorkingSet, limit: int) -> None:
        """Bring along what has run out, up to `limit` claims."""
        room = limit - len(self._add_jobs(ws, self._all("expired_claims", ws.now, limit)))
        # One more than there is room for tells whether these are all; sessions without claims take room, too.
        sessions = self._all("expired_sessions", ws.now, room + 1)
        ws.has_all_expired = room > 0 and len(sessions) <= room
        for row in sessions[:room]:
            session = session_from_row(row)
            if ws.sessions.get(session.session_id) is None:
                self._put_session(ws, session)
            bound = self._all("claims_of_session", session.session_id, room + 1)
            if len(bound) <= room:
                ws.sessions_with_all_claims.add(session.session_id)
            else:
                ws.has_all_expired = False
            room -= len(self._add_jobs(ws, bound[:room]))

    def _add_line(self, ws: WorkingSet, queue: str, line: LineNeed) -> None:
        """The front of a queue; and where that is not enough for everybody, when to look again."""
        is_enough = True
        for selection in line.selections:
            is_enough = self._add_selection(ws, queue, selection, line.count) >= line.count and is_enough
        if not is_enough:
            self._add_look_again(ws, queue)

    def _add_selection(self, ws: WorkingSet, queue: str, selection: Selection, count: int) -> int:
        kinds, prefix = selection
        if prefix:
            span = (queue, prefix, prefix + LAST_NAME)
            parts = [self._all("line_by_name", *span, kind, ws.now, count) for kind in kinds or (None,)]
            return sum(len(self._add_jobs(ws, rows)) for rows in parts)
        if kinds is None:
            return self._add_front(ws, count, ("next_priority", "line"), (queue,))
        queries = ("next_priority_of_kind", "line_of_kind")
        return sum(self._add_front(ws, count, queries, (queue, kind)) for kind in kinds)

    def _add_front(self, ws: WorkingSet, count: int, queries: tuple[str, str], which: tuple[str, ...]) -> int:
        """The first `count` jobs that are due; priority by priority, so as never to walk through those not due yet."""
        next_priority, line = queries
        found = 0
        for priority in self._priorities(next_priority, *which):
            found += len(self._add_jobs(ws, self._all(line, *which, priority, ws.now, count - found)))
            if found >= count:
                break
        return found

    def _add_look_again(self, ws: WorkingSet, queue: str) -> None:
        moments = [
            self._one("next_claim_expiry", ws.now)[0],
            self._one("next_session_expiry", ws.now)[0],
            *(self._one("next_due", queue, at, ws.now)[0] for at in self._priorities("next_priority", queue)),
        ]
        known = [moment for moment in moments if moment is not None]
        if known:
            ws.look_again_at[queue] = min(known)

    def _priorities(self, query: str, *which: str) -> Iterable[int]:
        priority = PRIORITY_MIN - 1
        while (priority := self._one(query, *which, priority)[0]) is not None:
            yield priority

    # Listing

    def list_jobs(self, ws: WorkingSet, wanted: JobFilter) -> list[Job]:
        span = span_of(wanted)
        if wanted.queue is not None:
            statuses = get_args(Status) if wanted.status is None else (wanted.status,)
            parts = [self._all("list_jobs_by_queue", wanted.queue, status, *span) for status in statuses]
        elif wanted.status is not None:
            parts = [self._all("list_jobs_by_status", wanted.status, *span)]
        else:
            parts = [self._all("list_jobs", *span)]
        if wanted.status not in {None, "claimed"}:
            parts.append(self._all("list_expired_claims", ws.now, wanted.queue, *span))
            parts.append(self._all("list_expired_with_session", ws.now, wanted.queue, *span))
        return self._add_jobs(ws, islice(merge(*parts), wanted.limit))

    def list_sessions(self, ws: WorkingSet, wanted: SessionFilter) -> list[Session]:
        if wanted.status is None and wanted.principal is None:
            parts = [self._all("list_sessions", wanted.after, wanted.limit)]
        else:
            statuses = get_args(SessionStatus) if wanted.status is None else (wanted.status,)
            parts = [part for status in statuses for part in self._sessions_that_are(status, ws.now, wanted)]
        sessions = [session_from_row(row) for row in islice(merge(*parts), wanted.limit)]
        for session in sessions:
            ws.sessions[session.session_id] = session
        return sessions

    def _sessions_that_are(self, status: SessionStatus, now: int, wanted: SessionFilter) -> list[list[Any]]:
        span = (wanted.after, wanted.limit)
        if status == "open":
            return [self._all("list_open_sessions", now, wanted.principal, *span)]
        if wanted.principal is None:
            parts = [self._all("list_ended_sessions", status, *span)]
        else:
            parts = [self._all("list_ended_sessions_by_principal", wanted.principal, status, *span)]
        if status == "expired":
            parts.append(self._all("list_expired_sessions", now, wanted.principal, *span))
        return parts

    def list_events(self, wanted: EventFilter) -> tuple[list[LogEntry], int]:
        log = Log(
            after=partial(self._all, "list_events"),
            of_job=partial(self._all, "list_events_by_job"),
            of_session=partial(self._all, "list_events_by_session"),
        )
        return page_of_log(wanted, self.counters().seq, log)

    def list_tokens(self) -> list[Token]:
        return [token_from_row(row) for row in self._all("list_tokens")]

    def find_token(self, digest: bytes) -> Token | None:
        row = self._one_or_none("token_by_digest", digest)
        return token_from_row(row) if row else None

    def store_key(self) -> bytes:
        key: bytes = self._one("store_key")[0]
        return key

    def figures(self, now: int) -> Figures:
        waiting, due_at = self._one("waiting_jobs", now)
        run_out, of_queues, ended_at = self._one("run_out", now)
        return Figures(
            claimed=self._one("claimed_jobs")[0] - run_out,
            late=self._one("late_claims", now, LATE_SHARE)[0],
            dead=self._one("dead_jobs")[0],
            open_sessions=self._one("open_sessions", now)[0],
            waiting=waiting + of_queues,
            oldest_due_at=to_datetime_or_none(earliest(due_at, ended_at)),
            taken_back=self._one("taken_back", now - TAKEN_BACK_MS)[0] + run_out,
            queued=dict(self._all("queued_jobs", FIGURES_QUEUES)),
            seq=self.counters().seq,
            at=to_datetime(now),
        )

    # Saving

    def save(self, ws: WorkingSet, mark: Mark) -> None:
        self.has_saved = True
        run = self._connection.executemany
        if ws.changed_jobs:
            run(SQL["save_job"], map(job_to_row, ws.changed_jobs.values()))
        renewed = [job_to_renewal(job) for job_id, job in ws.renewed_jobs.items() if job_id not in ws.changed_jobs]
        if renewed:
            run(SQL["renew_job"], renewed)
        if ws.entries:
            run(SQL["append_event"], map(to_row, ws.entries))
        if ws.new_documents:
            run(SQL["append_document"], ws.new_documents.items())
        if ws.changed_sessions:
            run(SQL["save_session"], map(to_row, ws.changed_sessions.values()))
        if ws.changed_queues:
            run(SQL["save_queue"], ((queue.name, queue.max_claimed) for queue in ws.changed_queues.values()))
        if ws.changed_tokens:
            # All of them first: of two in a batch, one may have got the digest that the other had.
            run(SQL["drop_token"], ((token_id,) for token_id in ws.changed_tokens))
            run(SQL["save_token"], map(token_to_row, ws.changed_tokens.values()))
        if ws.new_ended:
            run(SQL["remember_request"], map(to_row, ws.new_ended))
            old = ws.now - REQUESTS_KEPT_MS
            run(SQL["forget_requests"], ((whose, REQUESTS_KEPT, old, limit) for whose, limit in to_forget(ws)))
        self._save_checkpoints(ws.changed_checkpoints)
        self._connection.execute(SQL["save_counters"], (ws.seq, *mark))

    def _save_checkpoints(self, changed: dict[str, bytes | None]) -> None:
        for job_id, data in changed.items():
            if data is None:
                self._connection.execute(SQL["drop_checkpoint"], (job_id,))
            else:
                self._connection.execute(SQL["save_checkpoint"], (job_id, data))

    # Asking

    def _all(self, query: str, *values: Any) -> list[Any]:
        return self._connection.execute(SQL[query], values).fetchall()

    def _many(self, query: str, bindings: Iterable[tuple[Any, ...]]) -> list[Any]:
        return self._connection.executemany(SQL[query], bindings).fetchall()

    def _one(self, query: str, *values: Any) -> Any:
        return self._connection.execute(SQL[query], values).fetchone()

    def _one_or_none(self, query: str, *values: Any) -> Any | None:
        return self._connection.execute(SQL[query], values).fetchone()
