"""Loading and saving inside one transaction. SQL, and no rules.

A batch of any size takes three round trips at most: one to lock, look at the clock and find the jobs that it needs, one
for what else belongs to these jobs, if anything does, and one to save and commit. What a round trip asks is collected
first (`Pipeline`).
"""

from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import groupby, islice
from typing import Any, get_args

from octostore.core.events import LogEntry
from octostore.core.health import LATE_SHARE, TAKEN_BACK_MS
from octostore.core.limits import FIGURES_QUEUES, REQUESTS_KEPT, REQUESTS_KEPT_MS, SWEEP_LIMIT
from octostore.core.model import Job, Queue, Session, SessionStatus, Status, Token
from octostore.core.moments import earliest, to_datetime, to_datetime_or_none
from octostore.core.needs import LineNeed, Needs, Selection
from octostore.core.replies import Figures
from octostore.core.working_set import WorkingSet
from octostore.stores.base import Counters, EventFilter, JobFilter, SessionFilter
from octostore.stores.clock import Mark
from octostore.stores.listing import LAST_NAME, Log, page_of_log, span_of, to_forget
from octostore.stores.postgres.connection import Connection
from octostore.stores.postgres.pipeline import Answer, Pipeline, Statement
from octostore.stores.rows import (
    JOB_WIDTH,
    Row,
    ended_request_from_row,
    job_from_row,
    job_to_renewal,
    job_to_row,
    session_from_row,
    to_row,
    token_from_row,
    token_to_row,
)


class Finding:
    """The first round trip of `load`: asks for the jobs that `needs` names, directly or not."""

    def __init__(self, asking: Pipeline, needs: Needs) -> None:
        self.needs = needs
        limit = needs.sweep_limit
        with_documents = needs.documents_of or needs.lines
        self.by_name = asking.unless_empty("jobs_with_documents" if with_documents else "jobs", jobs=needs.jobs)
        self.sessions = asking.unless_empty("sessions", sessions=needs.sessions)
        self.queues = asking.unless_empty("queues", **_wanted_queues(needs.queues, needs))
        self.bound = asking.unless_empty("claims_of_sessions", sessions=needs.claims_of)
        self.in_flight = asking.unless_empty("jobs_in_flight", sessions=needs.in_flight_of)
        self.expired = asking.when(limit, "expired_claims", limit=limit)
        self.expired_sessions = asking.when(limit, "expired_sessions", limit=limit + 1)
        self.expired_bound = asking.when(limit, "claims_of_expired_sessions", limit=limit + 1)
        principals, requests, queues = _columns(needs.requests, 3)
        self.requested = asking.unless_empty(
            "jobs_of_requests", principals=principals, requests=requests, queues=queues
        )
        principals, requests = _columns(needs.ended, 2)
        self.ended = asking.unless_empty("ended_requests", principals=principals, requests=requests)
        names, locks = _columns(needs.claim_counts, 2)
        self.expired_of_principals = asking.unless_empty(
            "expired_of_principals", principals=names, locks=locks, limit=SWEEP_LIMIT
        )
        self.claim_counts = asking.unless_empty("claims_of_principals", principals=names, locks=locks)
        self.expired_in_queues = asking.unless_empty("expired_in_queues", queues=list(needs.lines), limit=SWEEP_LIMIT)
        self.lines = {queue: self._line(asking, queue, line) for queue, line in needs.lines.items()}
        self.tokens = asking.when(
            len(needs.tokens) + len(needs.digests), "tokens", tokens=list(needs.tokens), digests=list(needs.digests)
        )

    @staticmethod
    def _line(asking: Pipeline, queue: str, line: LineNeed) -> list[list[Answer]]:
        """For each selection, the parts that it consists of."""
        return [_selection(asking, queue, selection, line.count) for selection in line.selections]


def _selection(asking: Pipeline, queue: str, selection: Selection, count: int) -> list[Answer]:
    kinds, prefix = selection
    if prefix:
        span = {"queue": queue, "first": prefix, "last": prefix + LAST_NAME, "count": count}
        return [asking.ask("line_by_name", **span, kind=kind) for kind in kinds or (None,)]
    if kinds is None:
        return [asking.ask("line", queue=queue, count=count)]
    return [asking.ask("line_of_kind", queue=queue, kind=kind, count=count) for kind in kinds]


def _columns(rows: Iterable[tuple[Any, ...]], width: int) -> Sequence[list[Any]]:
    """Rows as the arrays that a statement takes."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def _wanted_queues(names: Iterable[str], needs: Needs) -> dict[str, list[Any]]:
    wanted = list(names)
    return {"names": wanted, "counted": [name in needs.counted_queues for name in wanted]}


class Transaction:
    """`found` is what was found while the transaction began, and its counters with it."""

    def __init__(
        self,
        connection: Connection,
        sql: dict[str, Statement],
        counters: Counters,
        found: Finding | None = None,
    ) -> None:
        self._connection = connection
        self._sql = sql
        self._counters = counters
        self._found = found
        self.saving: Pipeline | None = None
        """What is to be saved, sent together with the COMMIT."""
        self.has_news = False

    def counters(self) -> Counters:
        return self._counters

    def _asking(self) -> Pipeline:
        return Pipeline(self._connection, self._sql)

    # Loading

    def load(self, ws: WorkingSet, needs: Needs) -> None:
        found = self._found
        if found is None or found.needs is not needs:
            asking = self._asking()
            found = Finding(asking, needs)
            asking.run()
        ws.jobs.update(dict.fromkeys(needs.jobs))
        ws.checkpoints.update(dict.fromkeys(needs.documents_of))
        ws.sessions.update(dict.fromkeys(needs.sessions))
        sessions = set(needs.sessions) | self._take_jobs(ws, found)
        is_enough = {queue: _is_enough(ws, found, queue) for queue in needs.lines}
        _take_ended(ws, found)
        _take_rights(ws, found)
        _add_sessions(ws, found.sessions.rows)
        _add_queues(ws, found.queues.rows)
        in_flight = {row[0] for row in found.in_flight.rows}
        in_flight |= {job.job_id for session_id in needs.in_flight_of for job in ws.claims_of(session_id)}
        short_lines = [queue for queue, enough in is_enough.items() if not enough]
        self._complete(ws, needs, needs.documents_of | in_flight, sessions, short_lines)

    def _take_jobs(self, ws: WorkingSet, found: Finding) -> set[str]:
        """Gives the sessions that have run out."""
        _add_jobs(ws, found.by_name.rows)
        _add_jobs(ws, found.bound.rows)
        _add_jobs(ws, found.in_flight.rows)
        ws.sessions_with_all_claims |= found.needs.claims_of
        sessions = _add_expired(ws, found)
        for job in _add_jobs(ws, found.requested.rows):
            if job.claim is not None and job.queue is not None:
                ws.requests[job.claim.principal, job.claim.request_id or "", job.queue] = job.job_id
        _add_jobs(ws, found.expired_in_queues.rows)
        _add_jobs(ws, found.expired_of_principals.rows)
        return sessions

    def _complete(
        self, ws: WorkingSet, needs: Needs, documents_of: set[str], sessions: set[str], short_lines: list[str]
    ) -> None:
        """The second round trip: what belongs to the jobs and has not come with them."""
        jobs = [job for job in ws.jobs.values() if job is not None]
        sessions |= {job.claim.session_id for job in jobs if job.claim is not None and job.claim.session_id is not None}
        names = {job.queue for job in jobs if job.queue is not None} - ws.queues.keys()
        with_documents = [job for job in jobs if job.job_id in documents_of or job.queue in needs.lines]
        with_documents = [job for job in with_documents if job.job_id not in ws.checkpoints]
        seqs = [seq for job in with_documents for seq in (job.payload_seq, job.result_seq) if seq is not None]
        asking = self._asking()
        of_sessions = asking.unless_empty("sessions", sessions={name for name in sessions if not ws.sessions.get(name)})
        queues = asking.unless_empty("queues", **_wanted_queues(names, needs))
        documents = asking.unless_empty("documents", seqs=seqs)
        checkpoints = asking.unless_empty("checkpoints", jobs=[job.job_id for job in with_documents])
        again = {queue: asking.ask("look_again", queue=queue) for queue in short_lines}
        asking.run()
        _add_sessions(ws, of_sessions.rows)
        _add_queues(ws, queues.rows)
        ws.documents.update(documents.rows)
        ws.checkpoints.update({job.job_id: None for job in with_documents})
        ws.checkpoints.update(checkpoints.rows)
        ws.look_again_at.update({queue: at.rows[0][0] for queue, at in again.items() if at.rows[0][0] is not None})

    # Listing

    def list_jobs(self, ws: WorkingSet, wanted: JobFilter) -> list[Job]:
        span = span_of(wanted)._asdict()
        asking = self._asking()
        if wanted.queue is not None:
            statuses = get_args(Status) if wanted.status is None else (wanted.status,)
            parts = [asking.ask("list_jobs_by_queue", queue=wanted.queue, status=status, **span) for status in statuses]
        elif wanted.status is not None:
            parts = [asking.ask("list_jobs_by_status", status=wanted.status, **span)]
        else:
            parts = [asking.ask("list_jobs", **span)]
        if wanted.status not in {None, "claimed"}:
            parts.append(asking.ask("list_expired", queue=wanted.queue, **span))
        asking.run()
        jobs = _add_jobs(ws, islice(merge(*(part.rows for part in parts)), wanted.limit))
        self._complete(ws, Needs(), set(), set(), [])
        return jobs

    def list_sessions(self, ws: WorkingSet, wanted: SessionFilter) -> list[Session]:
        asking = self._asking()
        span = {"after": wanted.after, "limit": wanted.limit}
        if wanted.status is None and wanted.principal is None:
            parts = [asking.ask("list_sessions", **span)]
        else:
            statuses = get_args(SessionStatus) if wanted.status is None else (wanted.status,)
            parts = [part for status in statuses for part in _sessions_that_are(asking, status, wanted)]
        asking.run()
        sessions = [session_from_row(row) for row in islice(merge(*(part.rows for part in parts)), wanted.limit)]
        for session in sessions:
            ws.sessions[session.session_id] = session
        return sessions

    def list_events(self, wanted: EventFilter) -> tuple[list[LogEntry], int]:
        log = Log(
            lambda after, limit: self._one("list_events", after=after, limit=limit),
            lambda job, after, limit: self._one("list_events_by_job", job=job, after=after, limit=limit),
            lambda session, after, limit: self._one(
                "list_events_by_session", session=session, after=after, limit=limit
            ),
        )
        return page_of_log(wanted, self._counters.seq, log)

    def list_tokens(self) -> list[Token]:
        return [token_from_row(row) for row in self._one("list_tokens")]

    def find_token(self, digest: bytes) -> Token | None:
        rows = self._one("tokens", tokens=[], digests=[digest])
        return token_from_row(rows[0]) if rows else None

    def store_key(self) -> bytes:
        key: bytes = self._one("store_key")[0][0]
        return key

    def figures(self, now: int) -> Figures:
        asking = self._asking()  # in which `now` is that of the transaction
        counted = asking.ask("figures", late_share=LATE_SHARE, lately=TAKEN_BACK_MS)
        queued = asking.ask("queued_jobs", limit=FIGURES_QUEUES)
        asking.run()
        claimed, late, dead, open_sessions, taken_back, waiting, due_at, *unwritten = counted.rows[0]
        run_out, of_queues, ended_at = unwritten
        return Figures(
            claimed=claimed - run_out,
            late=late,
            dead=dead,
            open_sessions=open_sessions,
            waiting=waiting + of_queues,
            oldest_due_at=to_datetime_or_none(earliest(due_at, ended_at)),
            taken_back=taken_back + run_out,
            queued=dict(queued.rows),
            seq=self._counters.seq,
            at=to_datetime(now),
        )

    # Saving

    def save(self, ws: WorkingSet, mark: Mark) -> None:
        """Collected only: it goes with the COMMIT."""
        saving = self.saving = self._asking()
        self.has_news = bool(ws.entries)
        saving.write("save_jobs", map(job_to_row, ws.changed_jobs.values()))
        renewed = [job_to_renewal(job) for job_id, job in ws.renewed_jobs.items() if job_id not in ws.changed_jobs]
        saving.write("renew_jobs", renewed)
        saving.write("append_events", map(to_row, ws.entries))
        saving.write("append_documents", ws.new_documents.items())
        saving.write("save_sessions", map(to_row, ws.changed_sessions.values()))
        saving.write("save_queues", ((queue.name, queue.max_claimed) for queue in ws.changed_queues.values()))
        saving.write("drop_tokens", ((token_id,) for token_id in ws.changed_tokens))
        saving.write("save_tokens", map(token_to_row, ws.changed_tokens.values()))
        kept = [(job_id, data) for job_id, data in ws.changed_checkpoints.items() if data is not None]
        saving.write("save_checkpoints", kept)
        saving.write("drop_checkpoints", ((job_id,) for job_id, data in ws.changed_checkpoints.items() if data is None))
        saving.write("remember_requests", map(to_row, ws.new_ended))
        for principal, limit in to_forget(ws):
            saving.ask("forget_requests", principal=principal, limit=limit, age=REQUESTS_KEPT_MS, kept=REQUESTS_KEPT)
        saving.ask("save_counters", seq=ws.seq, now=mark.now)

    def _one(self, query: str, **values: Any) -> list[Row]:
        asking = self._asking()
        answer = asking.ask(query, **values)
        asking.run()
        return answer.rows


def _add_jobs(ws: WorkingSet, rows: Iterable[Row]) -> list[Job]:
    """Put jobs into the working set, with the documents that come with some; those there already stay as they are."""
    jobs = []
    for row in rows:
        job = ws.jobs.get(row[0])
        if job is None:
            job = job_from_row(row[:JOB_WIDTH])
            ws.add_job(job)
        if len(row) > JOB_WIDTH:
            _add_documents(ws, job, row[JOB_WIDTH:])
        jobs.append(job)
    return jobs


def _add_documents(ws: WorkingSet, job: Job, documents: Sequence[bytes | None]) -> None:
    payload, result, ws.checkpoints[job.job_id] = documents
    for seq, body in ((job.payload_seq, payload), (job.result_seq, result)):
        if seq is not None and body is not None:
            ws.documents[seq] = body


def _add_sessions(ws: WorkingSet, rows: Iterable[Row]) -> None:
    for row in rows:
        session = session_from_row(row[:-1])
        if ws.sessions.get(session.session_id) is None:
            ws.sessions[session.session_id] = session
            if session.context_seq is not None:
                ws.documents[session.context_seq] = row[-1]


def _add_queues(ws: WorkingSet, rows: Iterable[Row]) -> None:
    for name, max_claimed, claimed in rows:
        ws.queues[name] = None if claimed is None else Queue(name, max_claimed, claimed)


def _add_expired(ws: WorkingSet, found: Finding) -> set[str]:
    """What has run out, up to the limit of claims; sessions without claims take room, too."""
    room = found.needs.sweep_limit - len(_add_jobs(ws, found.expired.rows))
    ended = [row[0] for row in found.expired_sessions.rows]
    ws.has_all_expired = room > 0 and len(ended) <= room
    bound = {session: list(rows) for session, rows in groupby(found.expired_bound.rows, key=lambda row: row[24])}
    for session_id in ended[:room]:
        rows = bound.get(session_id, [])
        if len(rows) <= room:
            ws.sessions_with_all_claims.add(session_id)
        else:
            ws.has_all_expired = False
        room -= len(_add_jobs(ws, rows[:room]))
    return set(ended[: found.needs.sweep_limit])


def _is_enough(ws: WorkingSet, found: Finding, queue: str) -> bool:
    """Whether the front of the queue has a job for everybody who asks for one."""
    count = found.needs.lines[queue].count
    found_each = [sum(len(_add_jobs(ws, part.rows)) for part in parts) for parts in found.lines[queue]]
    return all(number >= count for number in found_each)


def _take_ended(ws: WorkingSet, found: Finding) -> None:
    ws.ended.update({request: [] for request in found.needs.ended})
    for row in found.ended.rows:
        ended = ended_request_from_row(row)
        ws.ended[ended.principal, ended.request_id].append(ended)


def _take_rights(ws: WorkingSet, found: Finding) -> None:
    ws.tokens.update(dict.fromkeys(found.needs.tokens))
    for row in found.tokens.rows:
        token = token_from_row(row)
        ws.tokens[token.token_id] = token
    for principal, is_lock, count in found.claim_counts.rows:
        ws.claim_counts[principal, is_lock] = count


def _sessions_that_are(asking: Pipeline, status: SessionStatus, wanted: SessionFilter) -> list[Answer]:
    which = {"principal": wanted.principal, "after": wanted.after, "limit": wanted.limit}
    if status == "open":
        return [asking.ask("list_open_sessions", **which)]
    parts = [asking.ask("list_ended_sessions", status=status, **which)]
    if status == "expired":
        parts.append(asking.ask("list_expired_sessions", **which))
    return parts
