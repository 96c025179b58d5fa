"""`decide` answers one command: it changes rows and appends events in the working set, or raises and changes nothing.

(One exception to "nothing": an expiry that was found on the way is a fact, and stays written down.)
"""

from collections.abc import Callable
from typing import Any

from octostore.core import commands as c
from octostore.core.commands import Command, R_co
from octostore.core.decide import (
    claim,
    enqueue,
    expiry,
    handover,
    lease,
    operate,
    release,
    sessions,
    tasks,
    tokens,
    undo,
)
from octostore.core.given import Given
from octostore.core.working_set import WorkingSet

_RULES: dict[type[Any], Callable[[WorkingSet, Any, Given], Any]] = {
    c.ClaimJob: claim.claim_job,
    c.AcquireLock: claim.acquire_lock,
    c.ClaimNext: claim.claim_next,
    c.ClaimTask: tasks.claim_task,
    c.HeartbeatJob: lease.heartbeat_job,
    c.CheckpointJob: lease.checkpoint_job,
    c.ReleaseJob: release.release_job,
    c.ReleaseTask: tasks.release_task,
    c.ReleaseLock: release.release_lock,
    c.Undo: undo.undo,
    c.Enqueue: enqueue.enqueue,
    c.LimitQueue: enqueue.limit_queue,
    c.CancelJob: operate.cancel_job,
    c.DiscardJob: operate.discard_job,
    c.RequeueJob: operate.requeue_job,
    c.ForceReleaseJob: operate.force_release_job,
    c.OpenSession: sessions.open_session,
    c.KeepSessionAlive: sessions.keep_session_alive,
    c.SaveSession: sessions.save_session,
    c.HandOverSession: handover.hand_over_session,
    c.CloseSession: sessions.close_session,
    c.CreateToken: tokens.create_token,
    c.RotateToken: tokens.rotate_token,
    c.RevokeToken: tokens.revoke_token,
    c.Recover: expiry.recover,
    c.Probe: expiry.probe,
}


def decide(ws: WorkingSet, command: Command[R_co], given: Given) -> R_co:
    reply: R_co = _RULES[type(command)](ws, command, given)
    return reply
