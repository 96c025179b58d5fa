"""Put query results into the working set. Rows that are already there stay as they are."""

from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from operator import itemgetter

from octostore.core.limits import SWEEP_LIMIT
from octostore.core.model import Job, Queue
from octostore.core.needs import JobFilter, Selection
from octostore.core.session_keys import SessionKey
from octostore.core.working_set import WorkingSet
from octostore.stores.finding import Finding
from octostore.stores.listing import listed_to, page_of
from octostore.stores.rows import (
    JOB_WIDTH,
    SESSION_OF_JOB,
    Row,
    ended_request_from_row,
    job_from_row,
    session_from_row,
    token_from_row,
)


def add_jobs(ws: WorkingSet, rows: Iterable[Row]) -> list[Job]:
    """With documents, for rows that include them."""
    jobs = []
    for row in rows:
        job = ws.jobs.get(row[0])
        if job is None:
            job = job_from_row(row)
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


def add_sessions(ws: WorkingSet, rows: Iterable[Row]) -> None:
    for row in rows:
        session = session_from_row(row[:-1])
        if ws.sessions.get(session.session_id) is None:
            ws.sessions[session.session_id] = session
            if session.context_seq is not None:
                ws.contexts[session.session_id] = row[-1]


def add_queues(ws: WorkingSet, names: Iterable[str], rows: Iterable[Row]) -> None:
    """Queues without a row have no limit and are not paused."""
    ws.queues.update(dict.fromkeys(names))
    ws.queues.update({row[0]: Queue(*row) for row in rows})


def take(ws: WorkingSet, found: Finding) -> list[SessionKey]:
    """Everything except the queues' lines. Returns the expired sessions."""
    needs = found.needs
    ws.jobs.update(dict.fromkeys(needs.jobs))
    ws.checkpoints.update(dict.fromkeys(needs.documents_of))
    add_jobs(ws, chain(found.with_documents.rows, found.by_name.rows))
    if needs.sessions or needs.claims_of:
        ws.sessions.update(dict.fromkeys(needs.sessions))
        add_sessions(ws, found.sessions.rows)
        add_jobs(ws, chain(found.bound.rows, found.news.rows, found.in_flight.rows))
        ws.sessions_with_all_claims |= needs.claims_of
    if needs.beside:
        add_jobs(ws, found.beside.rows)
    if needs.queues:
        _take_queues(ws, found)
    ended_sessions = _take_expired(ws, found)
    if needs.lines:
        _take_requested(ws, found)
    for wanted, count in needs.lists.items():
        _take_list(ws, found, wanted, count)
    if needs.ended:
        _take_ended(ws, found)
    if needs.claim_counts:
        _take_claim_counts(ws, found)
    if needs.session_counts or needs.queued_counts:
        ws.session_counts.update(found.session_counts.rows)
        ws.queued_counts.update({**dict.fromkeys(needs.queued_counts, 0), **dict(found.queued_counts.rows)})
    if needs.tokens or needs.digests:
        _take_tokens(ws, found)
    return ended_sessions


def _take_queues(ws: WorkingSet, found: Finding) -> None:
    add_queues(ws, found.needs.queues, found.queues.rows)
    claimed: dict[str, int] = dict(found.claimed_in_queues.rows)
    for name in found.needs.counted_queues:
        ws.queues[name] = ws.queues[name] or Queue(name, claimed=claimed.get(name, 0))


def _take_expired(ws: WorkingSet, found: Finding) -> list[SessionKey]:
    """Expired claims and sessions, up to the limit; sessions without claims count too."""
    limit = found.needs.sweep_limit
    room = limit - len(add_jobs(ws, found.expired.rows))
    ended = found.expired_sessions.rows
    ws.has_all_expired = room > 0 and len(ended) <= room
    if not ended:
        return []
    bound = {name: list(rows) for name, rows in groupby(found.claims_of_expired.rows, itemgetter(SESSION_OF_JOB))}
    for (session_id,) in ended[:room]:
        rows = bound.get(session_id, [])
        if len(rows) <= room:
            ws.sessions_with_all_claims.add(session_id)
        else:
            ws.has_all_expired = False
        room -= len(add_jobs(ws, rows[:room]))
    return [session_id for (session_id,) in ended[:limit]]


def _take_requested(ws: WorkingSet, found: Finding) -> None:
    for job in add_jobs(ws, found.requested.rows):
        if job.claim is not None and job.queue is not None:
            ws.requests[job.claim.principal, job.claim.request_id or "", job.queue] = job.job_id
    if not ws.has_all_expired:
        add_jobs(ws, found.expired_in_queues.rows)


def _take_list(ws: WorkingSet, found: Finding, wanted: JobFilter, count: int) -> None:
    stored = add_jobs(ws, page_of(found.lists[wanted], count))
    expired = [] if ws.has_all_expired else add_jobs(ws, found.expired_in_lists[wanted].rows)
    ws.listed_to[wanted] = listed_to((stored, count), (expired, SWEEP_LIMIT))


def _take_ended(ws: WorkingSet, found: Finding) -> None:
    ws.ended.update({request: [] for request in found.needs.ended})
    for ended in map(ended_request_from_row, found.ended.rows):
        ws.ended[ended.principal, ended.request_id].append(ended)


def _take_claim_counts(ws: WorkingSet, found: Finding) -> None:
    if not ws.has_all_expired:
        add_jobs(ws, found.expired_of_principals.rows)
    ws.claim_counts.update({(principal, is_lock): count for principal, is_lock, count in found.claim_counts.rows})


def _take_tokens(ws: WorkingSet, found: Finding) -> None:
    ws.tokens.update(dict.fromkeys(found.needs.tokens))
    for token in map(token_from_row, chain(found.tokens.rows, found.tokens_by_digest.rows)):
        ws.tokens[token.token_id] = token


def short_lines_of(ws: WorkingSet, found: Finding, queue: str) -> list[tuple[str, Selection]]:
    """Add the front of the queue, and return the selections that have fewer jobs than claims."""
    line = found.needs.lines[queue]
    # Add all of them, even if the first is already too short.
    found_each = [sum(len(add_jobs(ws, part.rows)) for part in parts) for parts in found.lines[queue]]
    return [
        (queue, selection) for selection, number in zip(line.selections, found_each, strict=True) if number < line.count
    ]


def take_in_flight(ws: WorkingSet, found: Finding) -> set[str]:
    """The names of the jobs that these sessions held or hold."""
    names = {row[0] for row in found.in_flight.rows}
    for session_id in found.needs.in_flight_of:
        names.update(job.job_id for job in ws.claims_of(session_id))
    return names
