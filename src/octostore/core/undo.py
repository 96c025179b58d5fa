"""Undo a claim or session whose caller stopped waiting: nobody knows of it, and it would block others."""

from octostore.core.commands import ReleaseJob, ReleaseTask, Undo
from octostore.core.model import LOCAL
from octostore.core.replies import ClaimReply, SessionReply


def undo_of(reply: object, principal: str = LOCAL) -> Undo | None:
    """None if there is nothing to undo; a replayed reply belongs to an earlier call, which knows of it."""
    match reply:
        case ClaimReply(status="claimed", replayed=False, session=SessionReply() as session, lease_id=str(lease_id)):
            return Undo(session_id=session.session_id, lease_id=lease_id, principal=principal)
        case ClaimReply(status="claimed", replayed=False, job_id=job_id, lease_id=str(lease_id)):
            return Undo(job_id=job_id, lease_id=lease_id, principal=principal)
        case SessionReply(replayed=False):
            return Undo(session_id=reply.session_id, lease_id=reply.lease_id, principal=principal)
        case _:
            return None


def release_claim(reply: ClaimReply, note: str) -> ReleaseJob:
    """Release what was claimed, with its own lease; a task together with its session."""
    job_id, lease_id = reply.job_id or "", reply.lease_id or ""
    if reply.session is None:
        return ReleaseJob(job_id=job_id, lease_id=lease_id, note=note)
    return ReleaseTask(session_id=reply.session.session_id, job_id=job_id, lease_id=lease_id, note=note)
