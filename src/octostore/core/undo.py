"""What undoes an answer that nobody waits for any more: a claim or a session that nobody knows of is in the way."""

from typing import TypeAlias

from octostore.core.commands import CloseSession, ReleaseJob, ReleaseTask
from octostore.core.model import LOCAL
from octostore.core.replies import ClaimReply, SessionReply

Undo: TypeAlias = CloseSession | ReleaseJob


def undo_of(
    reply: object, note: str = "whoever claimed it stopped waiting for the answer", principal: str = LOCAL
) -> Undo | None:
    """None where there is nothing to undo; what is replayed belongs to an earlier call, which knows of it."""
    if isinstance(reply, SessionReply) and not reply.replayed:
        return CloseSession(session_id=reply.session_id, lease_id=reply.lease_id, principal=principal)
    if isinstance(reply, ClaimReply) and reply.status == "claimed" and not reply.replayed:
        return give_back(reply, note, principal)
    return None


def give_back(reply: ClaimReply, note: str, principal: str = LOCAL) -> ReleaseJob:
    """Release what was claimed; a task with its session."""
    job_id, lease_id = reply.job_id or "", reply.lease_id or ""
    if reply.session is None:
        return ReleaseJob(job_id=job_id, lease_id=lease_id, note=note, principal=principal)
    return ReleaseTask(
        session_id=reply.session.session_id, job_id=job_id, lease_id=lease_id, note=note, principal=principal
    )
