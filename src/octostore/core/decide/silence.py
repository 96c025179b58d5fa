"""Liveness is not progress: owners that heartbeat, and report nothing for longer than they may."""

from octostore.core.beats import is_stuck
from octostore.core.events import Stuck
from octostore.core.model import SYSTEM, Claim, Job
from octostore.core.working_set import WorkingSet


def note_progress(ws: WorkingSet, claim: Claim) -> bool:
    """The owner has reported something. Whether that is kept: it is where somebody asked for it."""
    if claim.max_silence_ms is None:
        return False
    claim.last_progress_at = ws.now
    return True


def tell_if_stuck(ws: WorkingSet, job: Job, claim: Claim) -> bool:
    """Whether it is. Written down by the heartbeats of that very owner, once until it reports something again."""
    since = claim.last_progress_at
    if claim.max_silence_ms is None or since is None or not is_stuck(claim, ws.now):
        return False
    if claim.stuck_at is None or claim.stuck_at <= since:
        note = claim.progress.note if claim.progress else None
        details = Stuck(claim.owner, claim.fencing_token, since, claim.max_silence_ms, note)
        ws.record("stuck", details, actor=SYSTEM, job=job, session_id=claim.session_id)
    return True
