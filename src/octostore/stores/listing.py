"""Pages of jobs and events, and which old requests to forget."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from typing import get_args

import msgspec

from octostore.core.events import LogEntry
from octostore.core.model import LOCAL, Job, Status
from octostore.core.needs import JobFilter
from octostore.core.questions import ListEvents
from octostore.core.session_keys import SessionKey, id_of, session_key, whose
from octostore.core.working_set import WorkingSet
from octostore.stores.database import Database, Result
from octostore.stores.rows import Row, entry_from_row, to_row

FIRST_LONGER = "!"
"""Sorts before every character allowed in a name, so `name + FIRST_LONGER` sorts just after `name`."""
LAST_NAME = "\U0010ffff"
"""Sorts after every name, so `prefix + LAST_NAME` ends the range of a prefix."""
FORGET_EVERY = 64
"""After how many events to forget old requests. Forgetting one costs as much as remembering it, so do it rarely."""
SCAN_LIMIT = 10_000
SCAN_STEP = 10
"""How many events to scan for a prefix or types: `SCAN_LIMIT` in total, and `SCAN_STEP` times the page size per query.
Rare events must not make a page slow, and frequent ones are found quickly."""


def first_name(prefix: str, after: str) -> str:
    """The first name that starts with `prefix` and sorts after `after`."""
    return max(prefix, after + FIRST_LONGER) if after else prefix


def query_jobs(database: Database, wanted: JobFilter, limit: int) -> list[Result]:
    """Jobs stored with the wanted status, as sorted parts."""
    ask = _query_for(database, wanted, limit)
    if wanted.queue is not None:
        statuses = get_args(Status) if wanted.status is None else (wanted.status,)
        return [ask("list_jobs_by_queue", queue=wanted.queue, status=status) for status in statuses]
    if wanted.status is not None:
        return [ask("list_jobs_by_status", status=wanted.status)]
    return [ask("list_jobs")]


def query_expired(database: Database, wanted: JobFilter, limit: int) -> Result:
    """Jobs whose claims have expired, and which may therefore match by now."""
    return _query_for(database, wanted, limit)("list_expired", queue=wanted.queue)


def _query_for(database: Database, wanted: JobFilter, limit: int) -> Callable[..., Result]:
    span = {"first": first_name(wanted.prefix, wanted.after), "last": wanted.prefix + LAST_NAME}
    return partial(database.query, **span, limit=limit)


def page_of(parts: Iterable[Result], limit: int) -> list[Row]:
    """Merge sorted parts that have no name in common."""
    return list(islice(merge(*(part.rows for part in parts)), limit))


def listed_to(*pages: tuple[Sequence[Job], int]) -> str | None:
    """The name up to which these pages, each with its limit, are complete; None if they reach the end."""
    return min((jobs[-1].job_id for jobs, limit in pages if len(jobs) == limit), default=None)


def page_of_log(wanted: ListEvents, seq: int, ask: Callable[..., Sequence[Row]]) -> tuple[list[LogEntry], int]:
    """The events, and how far the log, whose last event is `seq`, was scanned for them."""
    limit = most = wanted.limit
    after, looked_at = wanted.after, 0
    if wanted.since is not None:
        ((before,),) = ask("last_event_before", moment=wanted.since)
        after = max(after, before)
    if wanted.job_id is not None:
        ask_after = partial(ask, "list_events_by_job", job=wanted.job_id)
    elif wanted.session_id is not None:
        ask_after = partial(_of_session, session_key(LOCAL, wanted.session_id), ask)
    else:
        ask_after = partial(ask, "list_events")
    if wanted.prefix or wanted.types:
        limit, most = min(SCAN_LIMIT, SCAN_STEP * wanted.limit), SCAN_LIMIT
    matching: list[LogEntry] = []
    while looked_at < most and len(matching) < wanted.limit:
        rows = ask_after(after=after, limit=limit)
        matching += [entry for entry in map(entry_from_row, rows) if wanted.matches(entry)]
        looked_at += limit
        if len(rows) < limit:
            after = max(seq, wanted.after)
            break
        after = rows[-1][0]
    page = matching[: wanted.limit]
    return page, page[-1].seq if len(page) < len(matching) else after


def _of_session(key: SessionKey, ask: Callable[..., Sequence[Row]], *, after: int, limit: int) -> Sequence[Row]:
    """Includes events from earlier versions, which identify a session by its id alone, without a principal."""
    rows = ask("list_events_by_session", session=key, after=after, limit=limit)
    first = ask("list_events_by_session", session=id_of(key), after=0, limit=1)
    if not first or entry_from_row(first[0]).actor != whose(key):
        return rows
    before = ask("list_events_by_session", session=id_of(key), after=after, limit=limit)
    completed = [to_row(msgspec.structs.replace(entry_from_row(row), session_id=key)) for row in before]
    return [*completed, *rows][:limit]


def to_forget(ws: WorkingSet) -> Iterator[tuple[str, int]]:
    """Whose old requests to forget, and the maximum number of each.

    Runs once every `FORGET_EVERY` events and forgets more than were added since, so that none pile up.
    """
    if ws.seq % FORGET_EVERY < len(ws.entries):
        for principal, count in Counter(ended.principal for ended in ws.new_ended).items():
            yield principal, 4 * (FORGET_EVERY + count)
