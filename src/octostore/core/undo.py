"""What undoes an answer that nobody waits for any more: a claim or a session that nobody knows of is in the way."""

from typing import TypeAlias

from octostore.core.commands import CloseSession, ReleaseJob, ReleaseTask
from octostore.core.model import LOCAL
from octostore.core.replies import ClaimReply, SessionReply

Undo: TypeAlias = CloseSession | ReleaseTask | ReleaseJob


def undo_of(
    reply: object, note: str = "whoever claimed it stopped waiting for the answer", principal: str = LOCAL
) -> Undo | None:
    """None where there is nothing to undo; what is replayed belongs to an earlier call, which knows of it."""
    if isinstance(reply, SessionReply) and not reply.replayed:
        return CloseSession(session_id=reply.session_id, lease_id=reply.lease_id, principal=principal)
    if isinstance(reply, ClaimReply) and reply.lease_id and reply.job_id and not reply.replayed:
        if reply.session is not None:
            return ReleaseTask(
                session_id=reply.session.session_id,
                job_id=reply.job_id,
                lease_id=reply.lease_id,
                note=note,
                principal=principal,
            )
        return ReleaseJob(job_id=reply.job_id, lease_id=reply.lease_id, note=note, principal=principal)
    return None
