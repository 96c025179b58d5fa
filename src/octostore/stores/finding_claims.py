"""The claims of a stretch of time, as the statements that find them."""

from octostore.core.claims_window import Glance
from octostore.core.limits import LIVE_LOOKED_AT, LOG_LOOKED_AT
from octostore.stores.asking import Answer, Asking
from octostore.stores.base import ClaimsFilter, ClaimsFound
from octostore.stores.listing import LAST_NAME


def find_claims(asking: Asking, seq: int, wanted: ClaimsFilter) -> ClaimsFound:
    """In a log whose last event is `seq`."""
    span = {"first": wanted.prefix, "last": wanted.prefix + LAST_NAME}
    which = {**span, "queue": wanted.queue, "owner": wanted.owner}
    recent = {"since": wanted.since, "limit": LOG_LOOKED_AT}
    live = asking.ask("live_claims", **which, limit=LIVE_LOOKED_AT)
    lost = asking.ask("lost_claims", **which, **recent)
    losses = asking.ask("count_losses", **recent)
    ended = asking.ask("ended_claims", **which, **recent)
    last_claim = asking.ask("last_claim", **span, limit=LOG_LOOKED_AT)
    last_before = asking.ask("last_event_before", moment=wanted.since)
    asking.run()
    ((looked_at,),), ((last_claim_at,),), ((before,),) = losses.rows, last_claim.rows, last_before.rows
    found = _glances(live)
    claimed_at = [moment for moment in (last_claim_at, *(glance.claimed_at for glance in found)) if moment is not None]
    return ClaimsFound(
        live=found,
        lost=_glances(lost),
        ended=_glances(ended),
        last_claim_at=max(claimed_at, default=None),
        before=before,
        is_all=len(found) < LIVE_LOOKED_AT and looked_at < LOG_LOOKED_AT and seq - before <= LOG_LOOKED_AT,
    )


def _glances(answer: Answer) -> list[Glance]:
    return [Glance(*row) for row in answer.rows]
