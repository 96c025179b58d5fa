"""Load, list and save within one database transaction. SQL only, no rules.

A batch of any size takes at most three round trips to a database in another process: lock and find the jobs it needs
(`Finding`), load what belongs to these jobs, if anything, and save and commit.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from octostore.core.events import LogEntry
from octostore.core.limits import (
    BUCKET_MS,
    FIGURES_QUEUES,
    LOOK_BACK_EVENTS,
    QUEUES_LOOKED_AT,
    REQUESTS_KEPT,
    REQUESTS_KEPT_MS,
)
from octostore.core.model import Job, Session, SessionStatus, Token
from octostore.core.moments import earliest, to_datetime, to_datetime_or_none
from octostore.core.needs import JobFilter, Needs, Selection
from octostore.core.questions import ListEvents
from octostore.core.replies import Figures
from octostore.core.working_set import WorkingSet
from octostore.stores.base import ClaimsFilter, ClaimsFound, Counters, QueueFilter, SessionFilter
from octostore.stores.clock import Mark
from octostore.stores.completing import Completing, count_lines
from octostore.stores.database import Database
from octostore.stores.finding import Finding
from octostore.stores.listing import (
    LAST_NAME,
    first_name,
    page_of,
    page_of_log,
    query_expired,
    query_jobs,
    to_forget,
)
from octostore.stores.rows import (
    Row,
    entry_from_row,
    job_to_renewal,
    job_to_row,
    session_from_row,
    to_row,
    token_from_row,
    token_to_row,
)
from octostore.stores.taking import add_jobs, short_lines_of, take, take_in_flight

if TYPE_CHECKING:
    from octostore.core.queue_counts import LookBack, QueueCounts


class Transaction:
    """`database` opens the connection as of a moment; `found` holds results queried while the transaction began."""

    def __init__(self, database: Callable[[int], Database], counters: Counters, found: Finding | None = None) -> None:
        self._database = database
        self._counters = counters
        self._found = found
        self.saving: Database | None = None
        """The writes to run together with the COMMIT; None if there are none."""
        self.has_news = False

    def counters(self) -> Counters:
        return self._counters

    # Loading

    def load(self, ws: WorkingSet, needs: Needs) -> None:
        found = self._found
        if found is None or found.needs is not needs:
            database = self._database(ws.now)
            found = Finding(database, needs, is_sweeping=self._counters.next_expiry <= ws.now)
            database.run()
        ended_sessions = take(ws, found)
        short_lines: Collection[tuple[str, Selection]] = ()
        if needs.lines:
            ws.count_queue = self._count_queue
            short_lines = [line for queue in needs.lines for line in short_lines_of(ws, found, queue)]
        with_documents = take_in_flight(ws, found) if needs.in_flight_of else ()
        self._complete(ws, Completing(ws, ended_sessions, needs.lines, short_lines, with_documents))

    def _count_queue(self, ws: WorkingSet, queue: str, selection: Selection) -> "QueueCounts":
        """Late: other commands in the batch took the last job or filled the queue."""
        self.count_queues(ws, [queue], selection)
        return ws.queue_counts[queue, selection]

    def _complete(self, ws: WorkingSet, completing: Completing) -> None:
        if completing.is_needed:
            completing.run(self._database(ws.now))

    # Listing

    def list_jobs(self, ws: WorkingSet, wanted: JobFilter, limit: int) -> list[Job]:
        database = self._database(ws.now)
        parts = query_jobs(database, wanted, limit)
        if wanted.status not in {None, "claimed"}:
            parts.append(query_expired(database, wanted, limit))
        database.run()
        jobs = add_jobs(ws, page_of(parts, limit))
        self._complete(ws, Completing(ws))
        return jobs

    def claimed_jobs(self, ws: WorkingSet, job_ids: Sequence[str]) -> list[Job]:
        jobs = add_jobs(ws, self._rows("claimed_jobs", jobs=job_ids))
        bound_to = {job.claim.session_id for job in jobs if job.claim is not None and job.claim.session_id is not None}
        if bound_to:
            sessions = [session_from_row(row) for row in self._rows("sessions_alone", sessions=bound_to)]
            ws.sessions.update({session.session_id: session for session in sessions})
        return jobs

    def names_near(self, places: Sequence[str], within: str, limit: int) -> list[str]:
        database = self._database(self._counters.mark.now)
        last = within + LAST_NAME
        parts = [database.query("names_from", first=max(place, within), last=last, limit=limit) for place in places]
        parts.append(database.query("names_before", first=within, last=places[0], limit=limit))
        database.run()
        return [name for part in parts for (name,) in part.rows]

    def list_queue(self, ws: WorkingSet, wanted: QueueFilter) -> list[Job]:
        database = self._database(ws.now)
        after, span = wanted.after, {"queue": wanted.queue, "last": wanted.prefix + LAST_NAME, "limit": wanted.limit}
        if after.part not in {"ready", "later"}:
            (name,) = after.key
            first = first_name(wanted.prefix, name)
            result = database.query("list_jobs_by_queue", **span, first=first, status=after.part)
        else:
            one, two, three = after.key
            key = {"one": one, "two": two, "three": three, "moment": after.moment}
            result = database.query(f"list_{after.part}", **span, **key, first=wanted.prefix)
        database.run()
        jobs = add_jobs(ws, result.rows)
        self._complete(ws, Completing(ws))
        return jobs

    def queue_names(self, ws: WorkingSet, prefix: str, limit: int) -> list[str]:
        span = {"first": prefix, "last": prefix + LAST_NAME, "limit": limit}
        return [name for (name,) in self._rows("queue_names", **span, looked_at=QUEUES_LOOKED_AT, most=ws.count_to + 1)]

    def count_queues(self, ws: WorkingSet, queues: Sequence[str], selection: Selection) -> None:
        database = self._database(ws.now)
        counted = count_lines(database, ws, [(queue, selection) for queue in queues])
        database.run()
        ws.queue_counts.update({line: counting.counts for line, counting in counted.items()})

    def look_back(self, now: int, prefix: str) -> "LookBack":
        from octostore.core.queue_counts import Happened, LookBack  # noqa: PLC0415  # rarely needed
        from octostore.core.queue_figures import rates_begin  # noqa: PLC0415

        after = max(0, self._counters.seq - LOOK_BACK_EVENTS)
        span = {"first": prefix, "last": prefix + LAST_NAME}
        database = self._database(now)
        rows = database.query("happened_in_queues", **span, after=after, before=rates_begin(now) - 1, bucket=BUCKET_MS)
        before = database.query("moment_of_event", seq=after)
        database.run()
        began_at = next((at for (at,) in before.rows), None)
        return LookBack([Happened(*row) for row in rows.rows], began_at)

    def count_claimed(self, prefix: str) -> int:
        ((number,),) = self._rows("count_claimed", first=prefix, last=prefix + LAST_NAME)
        return int(number)

    def list_sessions(self, ws: WorkingSet, wanted: SessionFilter) -> list[Session]:
        database = self._database(ws.now)
        ask = partial(database.query, principal=wanted.principal, after=wanted.after, limit=wanted.limit)
        if wanted.status is None and wanted.principal is None:
            parts = [ask("list_sessions")]
        else:
            statuses = get_args(SessionStatus) if wanted.status is None else (wanted.status,)
            ended = "list_ended_sessions" if wanted.principal is None else "list_ended_sessions_by_principal"
            parts = [ask(ended, status=status) for status in statuses if status != "open"]
            parts += [ask(f"list_{status}_sessions") for status in statuses if status != "closed"]
        database.run()
        sessions = [session_from_row(row) for row in page_of(parts, wanted.limit)]
        ws.sessions.update({session.session_id: session for session in sessions})
        with_context = [session.session_id for session in sessions if session.context_seq is not None]
        if with_context:
            ws.context_sizes.update(self._rows("context_sizes", sessions=with_context))
        return sessions

    def list_events(self, wanted: ListEvents) -> tuple[list[LogEntry], int]:
        return page_of_log(wanted, self._counters.seq, self._rows)

    def find_claims(self, ws: WorkingSet, wanted: ClaimsFilter) -> ClaimsFound:
        from octostore.stores.finding_claims import find_claims  # noqa: PLC0415  # rarely needed

        return find_claims(self._database(ws.now), wanted)

    def last_ends(self, job_ids: Sequence[str], after: int) -> list[LogEntry]:
        rows = self._rows("last_ends", names=msgspec.json.encode(job_ids).decode(), after=after)
        return sorted(map(entry_from_row, rows), key=attrgetter("seq"))

    def next_ends(self, ends: Sequence[LogEntry]) -> list[LogEntry]:
        database = self._database(self._counters.mark.now)
        result = database.query_each("next_ends", [(entry.job_id, entry.seq) for entry in ends])
        database.run()
        return [entry_from_row(row) for row in result.rows]

    def events_at(self, seqs: Sequence[int]) -> list[LogEntry]:
        return [entry_from_row(row) for row in self._rows("events_at", seqs=list(seqs))]

    def list_tokens(self) -> list[Token]:
        return [token_from_row(row) for row in self._rows("list_tokens")]

    def find_tokens(self, digests: Sequence[bytes]) -> list[Token]:
        return [token_from_row(row) for row in self._rows("tokens_by_digest", digests=list(digests))]

    def store_key(self) -> bytes:
        ((key,),) = self._rows("store_key")
        return bytes(key)

    def figures(self, now: int) -> Figures:
        database = self._database(now)
        counted = database.query("figures")
        queued = database.query("queued_jobs", limit=FIGURES_QUEUES)
        database.run()
        claimed, late, stuck, dead, open_sessions, taken_back, waiting, due_at, *unwritten = counted.rows[0]
        expired, of_queues, ended_at = unwritten
        return Figures(
            claimed=claimed - expired,
            late=late,
            stuck=stuck,
            dead=dead,
            open_sessions=open_sessions,
            waiting=waiting + of_queues,
            oldest_due_at=to_datetime_or_none(earliest(due_at, ended_at)),
            taken_back=taken_back + expired,
            queued=dict(queued.rows),
            seq=self._counters.seq,
            store_id=self._counters.store_id,
            at=to_datetime(now),
        )

    def _rows(self, query: str, **values: Any) -> Sequence[Row]:
        database = self._database(self._counters.mark.now)
        result = database.query(query, **values)
        database.run()
        return result.rows

    # Saving

    def save(self, ws: WorkingSet, mark: Mark) -> None:
        saving = self.saving = self._database(ws.now)
        self.has_news = bool(ws.entries)
        if ws.changed_jobs:
            saving.write("save_jobs", [job_to_row(job) for job in ws.changed_jobs.values()])
        if renewed := [job for job_id, job in ws.renewed_jobs.items() if job_id not in ws.changed_jobs]:
            saving.write("renew_jobs", [job_to_renewal(job) for job in renewed])
        if ws.entries:
            saving.write("append_events", [to_row(entry) for entry in ws.entries])
        if ws.new_documents:
            saving.write("append_documents", list(ws.new_documents.items()))
        _save_rest(saving, ws)
        saving.query("save_counters", seq=ws.seq, now=mark.now, boot_id=mark.boot_id, counted_ms=mark.counted_ms)


def _save_rest(saving: Database, ws: WorkingSet) -> None:
    """What most batches do not change."""
    if ws.changed_sessions:
        saving.write("save_sessions", [to_row(session) for session in ws.changed_sessions.values()])
    if ws.changed_queues:
        rows = [(queue.name, queue.max_claimed, queue.pause) for queue in ws.changed_queues.values()]
        saving.write("save_queues", rows)
    if counts := [(principal, change) for principal, change in ws.queued_changes.items() if change]:
        saving.write("count_queued", counts)
    if ws.changed_tokens:
        saving.query("drop_tokens", tokens=list(ws.changed_tokens))
        saving.write("save_tokens", [token_to_row(token) for token in ws.changed_tokens.values()])
    if ws.changed_contexts:
        saving.write("save_contexts", list(ws.changed_contexts.items()))
    if ws.changed_checkpoints:
        _save_checkpoints(saving, ws.changed_checkpoints)
    if ws.new_ended:
        saving.write("remember_requests", [to_row(ended) for ended in ws.new_ended])
        for principal, limit in to_forget(ws):
            which = {"principal": principal, "age": REQUESTS_KEPT_MS, "kept": REQUESTS_KEPT}
            saving.query("forget_requests", **which, limit=limit)


def _save_checkpoints(saving: Database, changed: dict[str, bytes | None]) -> None:
    if kept := [(job_id, data) for job_id, data in changed.items() if data is not None]:
        saving.write("save_checkpoints", kept)
    if dropped := [job_id for job_id, data in changed.items() if data is None]:
        saving.query("drop_checkpoints", jobs=dropped)
