"""Pages of jobs and events, and what may be forgotten, as every store in a database has them.

What is asked of the database is its own.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from octostore.core.events import LogEntry
from octostore.core.questions import ListEvents
from octostore.core.working_set import WorkingSet
from octostore.stores.base import JobFilter
from octostore.stores.rows import Row, entry_from_row

FIRST_LONGER = "!"
"""Sorts before everything that a name may contain, so that `name + FIRST_LONGER` is just after `name`."""
LAST_NAME = "\U0010ffff"
"""Sorts after every name, so that `prefix + LAST_NAME` ends the range of a prefix."""
FORGET_EVERY = 64
"""Events. Looking for what may be forgotten costs as much as remembering it."""
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


class Log(msgspec.Struct, frozen=True):
    """How a store asks its log: for so many events after one, all or those of a job or a session."""

    after: Callable[[int, int], Sequence[Row]]
    of_job: Callable[[str, int, int], Sequence[Row]]
    of_session: Callable[[str, int, int], Sequence[Row]]


def page_of_log(wanted: ListEvents, seq: int, log: Log) -> tuple[list[LogEntry], int]:
    """The events, and how far the log, whose last event is `seq`, was looked through for them."""
    limit = wanted.limit
    if wanted.job_id is not None:
        rows = log.of_job(wanted.job_id, wanted.after, limit)
    elif wanted.session_id is not None:
        rows = log.of_session(wanted.session_id, wanted.after, limit)
    else:
        limit = SCAN_LIMIT if wanted.prefix else limit
        rows = log.after(wanted.after, limit)
    matching = [entry for entry in map(entry_from_row, rows) if wanted.matches(entry)]
    page = matching[: wanted.limit]
    if len(page) < len(matching):
        return page, page[-1].seq
    return page, rows[-1][0] if len(rows) == limit else max(seq, wanted.after)


def to_forget(ws: WorkingSet) -> Iterator[tuple[str, int]]:
    """Whose old requests to forget, and how many at most.

    Not with every commit, but with one in `FORGET_EVERY` events; and then more than have come, so that none pile up.
    """
    if ws.seq % FORGET_EVERY < len(ws.entries):
        for principal, count in Counter(ended.principal for ended in ws.new_ended).items():
            yield principal, 4 * (FORGET_EVERY + count)
