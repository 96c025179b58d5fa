"""Liveness is not progress: owners that send heartbeats but report nothing for too long."""

from octostore.core.beats import is_stuck
from octostore.core.events import Stuck
from octostore.core.model import SYSTEM, Claim, Job
from octostore.core.working_set import WorkingSet


def note_progress(ws: WorkingSet, claim: Claim) -> bool:
    """The owner has reported progress. Returns whether the moment is stored: only if a `max_silence` was set."""
    if claim.max_silence_ms is None:
        return False
    claim.last_progress_at = ws.now
    return True


def report_if_stuck(ws: WorkingSet, job: Job, claim: Claim) -> bool:
    """Whether it is. Recorded by the owner's own heartbeats, once until it reports progress again."""
    since = claim.last_progress_at
    if claim.max_silence_ms is None or since is None or not is_stuck(claim, ws.now):
        return False
    if claim.stuck_at is None or claim.stuck_at <= since:
        note = claim.progress.note if claim.progress else None
        details = Stuck(claim.owner, claim.fencing_token, since, claim.max_silence_ms, note)
        ws.record("stuck", details, actor=SYSTEM, job=job, session_id=claim.session_id)
    return True
