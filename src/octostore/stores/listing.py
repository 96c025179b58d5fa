"""Pages of jobs and events, as every store in a database makes them. What is asked of the database is its own."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from octostore.core.events import LogEntry
from octostore.stores.base import EventFilter, JobFilter
from octostore.stores.rows import Row, entry_from_row

FIRST_LONGER = "!"
"""Sorts before everything that a name may contain, so that `name + FIRST_LONGER` is just after `name`."""
LAST_NAME = "\U0010ffff"
"""Sorts after every name, so that `prefix + LAST_NAME` ends the range of a prefix."""
SCAN_LIMIT = 10_000
"""How many events are looked through for a prefix at a time: a rare one must not make a page slow."""


class Span(NamedTuple):
    """Names from `first` up to before `last`."""

    first: str
    last: str
    limit: int


def span_of(wanted: JobFilter) -> Span:
    first = max(wanted.prefix, wanted.after + FIRST_LONGER) if wanted.after else wanted.prefix
    return Span(first, wanted.prefix + LAST_NAME, wanted.limit)


class Log(NamedTuple):
    """How a store asks its log: for so many events after one, all or those of a job or a session."""

    after: Callable[[int, int], Sequence[Row]]
    of_job: Callable[[str, int, int], Sequence[Row]]
    of_session: Callable[[str, int, int], Sequence[Row]]


def page_of_log(wanted: EventFilter, seq: int, log: Log) -> tuple[list[LogEntry], int]:
    """The events, and how far the log, whose last event is `seq`, was looked through for them."""
    last_seq = max(seq, wanted.after)
    if wanted.job_id is not None:
        rows = log.of_job(wanted.job_id, wanted.after, wanted.limit)
    elif wanted.session_id is not None:
        rows = log.of_session(wanted.session_id, wanted.after, wanted.limit)
    elif wanted.prefix:
        return _page_of_prefix(wanted, wanted.prefix, last_seq, log)
    else:
        rows = log.after(wanted.after, wanted.limit)
    return [entry_from_row(row) for row in rows], rows[-1][0] if len(rows) == wanted.limit else last_seq


def _page_of_prefix(wanted: EventFilter, prefix: str, last_seq: int, log: Log) -> tuple[list[LogEntry], int]:
    looked_at = log.after(wanted.after, SCAN_LIMIT)
    entries = (entry_from_row(row) for row in looked_at)
    matching = [entry for entry in entries if entry.job_id is not None and entry.job_id.startswith(prefix)]
    page = matching[: wanted.limit]
    looked_to: int = looked_at[-1][0] if looked_at else last_seq
    return page, page[-1].seq if len(page) < len(matching) else looked_to
