"""What undoes an answer that nobody waits for any more: a claim or a session that nobody knows of is in the way."""

from octostore.core.commands import CloseSession, ReleaseJob
from octostore.core.replies import ClaimReply, SessionReply


def undo_of(reply: object) -> ReleaseJob | CloseSession | None:
    """None where there is nothing to undo; what is replayed belongs to an earlier call, which knows of it."""
    if isinstance(reply, SessionReply) and not reply.replayed:
        return CloseSession(session_id=reply.session_id, lease_id=reply.lease_id)
    if isinstance(reply, ClaimReply) and reply.lease_id and reply.job_id and not reply.replayed:
        note = "whoever claimed it stopped waiting for the answer"
        return ReleaseJob(job_id=reply.job_id, lease_id=reply.lease_id, note=note)
    return None
