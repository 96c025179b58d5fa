"""What a batch needs, as the statements that find it."""

from functools import partial

from octostore.core.limits import SWEEP_LIMIT
from octostore.core.needs import Needs, Selection
from octostore.stores.asking import NOTHING, Answer, Asking, Later
from octostore.stores.listing import LAST_NAME, ask_for_expired, ask_for_jobs


class Finding:
    """Asks for the jobs that `needs` names, directly or not, and for what can be known to belong to them.

    Not for what has run out, where it is known that nothing has.
    """

    with_documents = by_name = NOTHING
    expired = expired_sessions = claims_of_expired = NOTHING
    sessions = bound = beside = news = in_flight = NOTHING
    queues = claimed_in_queues = requested = expired_in_queues = NOTHING
    ended = tokens = tokens_by_digest = claim_counts = expired_of_principals = NOTHING
    session_counts = queued_counts = NOTHING

    def __init__(self, asking: Asking, needs: Needs, *, is_sweeping: bool = True) -> None:
        self.needs = needs
        # Any job of a line may become the first in it, and is given out with its documents then.
        with_documents = needs.jobs if needs.lines else needs.documents_of
        if with_documents:
            self.with_documents = asking.ask("jobs_with_documents", jobs=with_documents)
        if len(with_documents) < len(needs.jobs):
            self.by_name = asking.ask("jobs", jobs=needs.jobs - with_documents)
        if is_sweeping and (limit := needs.sweep_limit):
            self.expired = asking.ask("expired_claims", limit=limit)
            # One more than there is room for tells whether these are all.
            self.expired_sessions = asking.ask("expired_sessions", limit=limit + 1)
            self.claims_of_expired = Later(asking, lambda: asking.ask("claims_of_expired_sessions", limit=limit + 1))
        self._find_sessions(asking, needs)
        if needs.queues:
            self.queues = asking.ask("queues", names=needs.queues)
        if needs.counted_queues:
            self.claimed_in_queues = asking.ask("claimed_in_queues", names=needs.counted_queues)
        self._find_lines(asking, needs)
        if needs.lists:
            self._find_lists(asking, needs)
        self._find_rights(asking, needs)

    def _find_sessions(self, asking: Asking, needs: Needs) -> None:
        if needs.sessions:
            self.sessions = asking.ask("sessions", sessions=needs.sessions)
        if needs.claims_of:
            self.bound = asking.ask("claims_of_sessions", sessions=needs.claims_of)
        if needs.beside:
            self.beside = asking.ask("claims_beside", jobs=needs.beside)
        if needs.news_of:
            self.news = asking.ask("news_of_sessions", sessions=needs.news_of)
        if needs.in_flight_of:
            self.in_flight = asking.ask("jobs_in_flight", sessions=needs.in_flight_of)

    def _find_lines(self, asking: Asking, needs: Needs) -> None:
        self.lines: dict[str, list[list[Answer]]] = {}
        """Of each queue, for each selection, the parts that it consists of."""
        for queue, line in needs.lines.items():
            self.lines[queue] = [_selected(asking, queue, which, line.count) for which in line.selections]
        if needs.lines:
            queues = [(queue,) for queue in needs.lines]
            self.expired_in_queues = Later(asking, lambda: asking.each("expired_in_queues", queues))
        if needs.requests:
            self.requested = asking.each("jobs_of_requests", list(needs.requests))

    def _find_lists(self, asking: Asking, needs: Needs) -> None:
        self.lists = {wanted: ask_for_jobs(asking, wanted, count) for wanted, count in needs.lists.items()}
        """The parts of each."""
        self.expired_in_lists = {
            wanted: Later(asking, partial(ask_for_expired, asking, wanted, SWEEP_LIMIT)) for wanted in needs.lists
        }

    def _find_rights(self, asking: Asking, needs: Needs) -> None:
        if needs.ended:
            self.ended = asking.each("ended_requests", list(needs.ended))
        if needs.claim_counts:
            whose = list(needs.claim_counts)
            self.claim_counts = asking.each("claims_of_principals", whose)
            self.expired_of_principals = Later(asking, lambda: asking.each("expired_of_principals", whose))
        if needs.session_counts:
            self.session_counts = asking.each("sessions_of_principals", [(name,) for name in needs.session_counts])
        if needs.queued_counts:
            self.queued_counts = asking.ask("queued_of_principals", principals=needs.queued_counts)
        if needs.tokens:
            self.tokens = asking.ask("tokens", tokens=needs.tokens)
        if needs.digests:
            self.tokens_by_digest = asking.ask("tokens_by_digest", digests=needs.digests)


def _selected(asking: Asking, queue: str, selection: Selection, count: int) -> list[Answer]:
    kinds, prefix = selection
    if prefix:
        span = {"queue": queue, "first": prefix, "last": prefix + LAST_NAME, "count": count}
        return [asking.ask("line_by_name", **span, kind=kind) for kind in kinds or (None,)]
    if kinds is None:
        return [asking.ask("line", queue=queue, count=count)]
    return [asking.ask("line_of_kind", queue=queue, kind=kind, count=count) for kind in kinds]
