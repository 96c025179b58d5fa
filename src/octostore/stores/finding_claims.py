"""Find the claims of a time window."""

from octostore.core.claims_window import Glance
from octostore.core.limits import EVENTS_LOOKED_AT, LIVE_LOOKED_AT, LOSSES_LOOKED_AT
from octostore.stores.base import ClaimsFilter, ClaimsFound
from octostore.stores.database import NO_ROWS, Database
from octostore.stores.listing import LAST_NAME
from octostore.stores.rows import entry_from_row


def find_claims(database: Database, wanted: ClaimsFilter) -> ClaimsFound:
    span = {"first": wanted.prefix, "last": wanted.prefix + LAST_NAME}
    claims = database.query("live_claims", **span, queue=wanted.queue, owner=wanted.owner, limit=LIVE_LOOKED_AT)
    losses = database.query("newest_losses", since=wanted.since, limit=LOSSES_LOOKED_AT)
    ends = NO_ROWS if wanted.only_lost else database.query("newest_ends", **span, limit=EVENTS_LOOKED_AT)
    looked_at = database.query("looked_at", **span, limit=EVENTS_LOOKED_AT)
    last_before = database.query("last_event_before", moment=wanted.since)
    database.run()
    ((last_claim_at, events, first_at),), ((before,),) = looked_at.rows, last_before.rows
    live = [Glance(*row) for row in claims.rows]
    claimed_at = [moment for moment in (last_claim_at, *(glance.claimed_at for glance in live)) if moment is not None]
    # The newest events include some of the losses.
    by_seq = {row[0]: entry_from_row(row) for row in (*losses.rows, *ends.rows)}
    has_all_ends = wanted.only_lost or events < EVENTS_LOOKED_AT or first_at < wanted.since
    return ClaimsFound(
        live=live,
        ends=[by_seq[seq] for seq in sorted(by_seq) if (by_seq[seq].job_id or "").startswith(wanted.prefix)],
        last_claim_at=max(claimed_at, default=None),
        before=before,
        is_all=len(live) < LIVE_LOOKED_AT and len(losses.rows) < LOSSES_LOOKED_AT and has_all_ends,
    )
