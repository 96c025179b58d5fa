"""Count what a queue holds besides the jobs in a working set."""

import msgspec

from octostore.core.limits import CLAIMS_LOOKED_THROUGH, OWNERS_FROM_CLAIMS
from octostore.core.needs import Selection
from octostore.core.queue_counts import QueueCounts
from octostore.core.working_set import WorkingSet
from octostore.stores.database import Database, Result
from octostore.stores.listing import LAST_NAME


class Counting:
    """Sends its queries when created; read `counts` after the database has run them."""

    def __init__(self, database: Database, ws: WorkingSet, queue: str, selection: Selection) -> None:
        self._kinds, prefix = selection
        loaded = msgspec.json.encode(list(ws.jobs)).decode() if ws.jobs else None
        most = ws.count_to + 1  # one more than we report, to know whether there are more
        which = {"queue": queue, "loaded": loaded}
        span = {**which, "first": prefix, "last": prefix + LAST_NAME}
        self._waiting: list[Result] = []
        for kind in dict.fromkeys(self._kinds or (None,)):
            if prefix:
                result = database.query("waiting_by_name", **span, kind=kind)
            elif kind is None:
                result = database.query("waiting", **which, most=most)
            else:
                result = database.query("waiting_of_kind", **which, kind=kind, most=most)
            self._waiting.append(result)
        self._others = database.query("not_waiting", **span, most=most)
        self._looked_through = CLAIMS_LOOKED_THROUGH if self._kinds else OWNERS_FROM_CLAIMS
        self._claims = database.query("claims_in_queue", **span, most=self._looked_through)

    @property
    def counts(self) -> QueueCounts:
        waiting = [result.rows[0] for result in self._waiting]
        due = [since for _, since, _, _ in waiting if since is not None]
        later = [due_at for *_, due_at in waiting if due_at is not None]
        ((claimed, dead, done),) = self._others.rows
        claims = self._claims.rows
        if self._kinds is not None:
            claims = [row for row in claims if row[2] in self._kinds]
        return QueueCounts(
            ready=sum(ready or 0 for ready, *_ in waiting),
            oldest_due_at=min(due, default=None),
            later=sum(later or 0 for _, _, later, _ in waiting),
            due_at=min(later, default=None),
            claimed=claimed if self._kinds is None else len(claims),
            owners=[(job_id, owner) for job_id, owner, _ in claims[:OWNERS_FROM_CLAIMS]],
            has_more_claims=self._kinds is not None and len(self._claims.rows) == self._looked_through,
            dead=dead,
            done=done,
        )
