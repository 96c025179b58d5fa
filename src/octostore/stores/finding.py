"""The first round trip of a batch: queries for everything its commands need."""

from functools import partial

from octostore.core.limits import SWEEP_LIMIT
from octostore.core.needs import Needs, Selection
from octostore.stores.database import NO_ROWS, Database, LazyResult, Result
from octostore.stores.listing import LAST_NAME, query_expired, query_jobs


class Finding:
    """Queries the jobs that `needs` names, directly or indirectly, and the rows that belong to them.

    Skips looking for expired claims and sessions if nothing can have expired.
    """

    with_documents = by_name = NO_ROWS
    expired = expired_sessions = claims_of_expired = NO_ROWS
    sessions = bound = beside = news = in_flight = NO_ROWS
    queues = claimed_in_queues = requested = expired_in_queues = NO_ROWS
    ended = tokens = tokens_by_digest = claim_counts = expired_of_principals = NO_ROWS
    session_counts = queued_counts = NO_ROWS

    def __init__(self, database: Database, needs: Needs, *, is_sweeping: bool = True) -> None:
        self.needs = needs
        # Any job near the front of a queue may be the one that is claimed, and is then returned with its documents.
        with_documents = needs.jobs if needs.lines else needs.documents_of
        if with_documents:
            self.with_documents = database.query("jobs_with_documents", jobs=with_documents)
        if len(with_documents) < len(needs.jobs):
            self.by_name = database.query("jobs", jobs=needs.jobs - with_documents)
        if is_sweeping and (limit := needs.sweep_limit):
            self.expired = database.query("expired_claims", limit=limit)
            # Fetching one more than we process shows whether there are more.
            self.expired_sessions = database.query("expired_sessions", limit=limit + 1)
            self.claims_of_expired = LazyResult(
                database, lambda: database.query("claims_of_expired_sessions", limit=limit + 1)
            )
        self._find_sessions(database, needs)
        if needs.queues:
            self.queues = database.query("queues", names=needs.queues)
        if needs.counted_queues:
            self.claimed_in_queues = database.query("claimed_in_queues", names=needs.counted_queues)
        self._find_lines(database, needs)
        if needs.lists:
            self._find_lists(database, needs)
        self._find_rights(database, needs)

    def _find_sessions(self, database: Database, needs: Needs) -> None:
        if needs.sessions:
            self.sessions = database.query("sessions", sessions=needs.sessions)
        if needs.claims_of:
            self.bound = database.query("claims_of_sessions", sessions=needs.claims_of)
        if needs.beside:
            self.beside = database.query("claims_beside", jobs=needs.beside)
        if needs.news_of:
            self.news = database.query("news_of_sessions", sessions=needs.news_of)
        if needs.in_flight_of:
            self.in_flight = database.query("jobs_in_flight", sessions=needs.in_flight_of)

    def _find_lines(self, database: Database, needs: Needs) -> None:
        self.lines: dict[str, list[list[Result]]] = {}
        """By queue: for each selection, the results it is merged from."""
        for queue, line in needs.lines.items():
            self.lines[queue] = [_selected(database, queue, which, line.count) for which in line.selections]
        if needs.lines:
            queues = [(queue,) for queue in needs.lines]
            self.expired_in_queues = LazyResult(database, lambda: database.query_each("expired_in_queues", queues))
        if needs.requests:
            self.requested = database.query_each("jobs_of_requests", list(needs.requests))

    def _find_lists(self, database: Database, needs: Needs) -> None:
        self.lists = {wanted: query_jobs(database, wanted, count) for wanted, count in needs.lists.items()}
        """The results each list is merged from."""
        self.expired_in_lists = {
            wanted: LazyResult(database, partial(query_expired, database, wanted, SWEEP_LIMIT))
            for wanted in needs.lists
        }

    def _find_rights(self, database: Database, needs: Needs) -> None:
        if needs.ended:
            self.ended = database.query_each("ended_requests", list(needs.ended))
        if needs.claim_counts:
            whose = list(needs.claim_counts)
            self.claim_counts = database.query_each("claims_of_principals", whose)
            self.expired_of_principals = LazyResult(
                database, lambda: database.query_each("expired_of_principals", whose)
            )
        if needs.session_counts:
            self.session_counts = database.query_each(
                "sessions_of_principals", [(name,) for name in needs.session_counts]
            )
        if needs.queued_counts:
            self.queued_counts = database.query("queued_of_principals", principals=needs.queued_counts)
        if needs.tokens:
            self.tokens = database.query("tokens", tokens=needs.tokens)
        if needs.digests:
            self.tokens_by_digest = database.query("tokens_by_digest", digests=needs.digests)


def _selected(database: Database, queue: str, selection: Selection, count: int) -> list[Result]:
    kinds, prefix = selection
    if prefix:
        span = {"queue": queue, "first": prefix, "last": prefix + LAST_NAME, "count": count}
        return [database.query("line_by_name", **span, kind=kind) for kind in kinds or (None,)]
    if kinds is None:
        return [database.query("line", queue=queue, count=count)]
    return [database.query("line_of_kind", queue=queue, kind=kind, count=count) for kind in kinds]
