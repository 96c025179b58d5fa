"""Ask an owner to stop. It learns this with its next heartbeat, and decides what to do."""

from octostore.core import views
from octostore.core.events import StopDelivered, StopRequested
from octostore.core.model import Claim, Job, StopRequest, read_stop_request
from octostore.core.replies import StopView
from octostore.core.working_set import WorkingSet


def ask_to_stop(
    ws: WorkingSet, job: Job, claim: Claim, actor: str, reason: str | None, *, cancels: bool = False
) -> None:
    """Asking again changes nothing, unless the job must now be cancelled as well."""
    asked = read_stop_request(claim)
    if asked is None or (cancels and not asked.cancels):
        details = StopRequested(claim.owner, claim.fencing_token, reason, cancels)
        ws.record("stop_requested", details, actor=actor, job=job, session_id=claim.session_id)


def ask_next_owner(ws: WorkingSet, job: Job, asked: StopRequest | None) -> None:
    """The agent that a session is handed over to must stop as well, like the last owner."""
    if asked is not None and job.claim is not None:
        ask_to_stop(ws, job, job.claim, asked.by, asked.reason, cancels=asked.cancels)


def deliver_stop_request(ws: WorkingSet, job: Job, claim: Claim, actor: str) -> StopView | None:
    """The stop request for the owner that is getting a reply now. The first delivery is recorded."""
    asked = read_stop_request(claim)
    if asked is not None and asked.delivered_at is None:
        details = StopDelivered(claim.owner, claim.fencing_token, asked.at)
        ws.record("stop_delivered", details, actor=actor, job=job, session_id=claim.session_id)
    return views.stop_view(claim)
