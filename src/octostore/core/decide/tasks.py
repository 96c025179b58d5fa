"""Tasks of sessions: a session is acquired with one task, and freed with it."""

import msgspec

from octostore.core import views
from octostore.core.commands import ClaimTask, OpenSession, ReleaseTask
from octostore.core.decide import needs
from octostore.core.decide.claim import check_count, grant, hands_out, nothing_to_claim
from octostore.core.decide.lease import same_lease
from octostore.core.decide.release import release_job
from octostore.core.decide.repeats import check_not_ended, note_replay, replay_claim
from octostore.core.decide.repeats import is_repeat as is_repeated_claim
from octostore.core.decide.rules import decides
from octostore.core.decide.sessions import (
    begin_session,
    end_session,
    held_session,
    is_offered_to,
    is_repeat,
    opened,
    own_session,
)
from octostore.core.errors import InvalidInput
from octostore.core.line import is_due
from octostore.core.model import Claim, Job, Session, read_in_flight
from octostore.core.phases import phase_after_task, phase_with_task
from octostore.core.replies import ClaimReply, ReleaseReply
from octostore.core.session_keys import key_in
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet


@decides(ClaimTask, needs.session_with_claims, needs.in_flight, needs.lines, needs.terms, needs.session_count)
def claim_task(ws: WorkingSet, command: ClaimTask, sources: Sources) -> ClaimReply:
    if command.lease_id is not None:
        return _claim_in_open_session(ws, command, sources)
    opening = OpenSession(
        session_id=command.session_id,
        agent=command.owner,
        ttl=command.ttl,
        request_id=command.request_id,
        principal=command.principal,
        max_sessions=command.max_sessions,
    )
    session = own_session(ws, opening, sources)
    if session is not None and session.status == "open" and is_repeat(session, opening):
        if _current_task(ws, command) is None:
            check_not_ended(ws, command)
        note_replay(ws, session)
        return _claim_within(ws, session, command, sources, replayed=True)
    check_not_ended(ws, command)
    if session is not None and session.status == "open" and not is_offered_to(session, opening):
        return views.session_held_reply(ws, session)
    if _current_task(ws, command) is None:
        if _first_task(ws, command) is None:
            return _nothing_to_do(ws, command)
        check_count(ws, command)  # before anything changes
    phase = phase_with_task(session.phase if session else "idle")
    return _claim_within(ws, begin_session(ws, opening, sources, phase), command, sources, replayed=False)


def _claim_in_open_session(ws: WorkingSet, command: ClaimTask, sources: Sources) -> ClaimReply:
    """For the holder of the session: its next task, or `held` with the one it has."""
    session = held_session(ws, command, sources)
    current = _any_task_of(ws, session)
    if current is not None and current.claim is not None and is_repeated_claim(current.claim, command):
        return replay_claim(ws, current, current.claim)
    check_not_ended(ws, command)
    if current is not None and current.claim is not None:
        return views.held_reply(ws, current, current.claim)
    first = _first_task(ws, command)
    return _nothing_to_do(ws, command) if first is None else grant(ws, first, command, sources)


def _claim_within(
    ws: WorkingSet, session: Session, command: ClaimTask, sources: Sources, *, replayed: bool
) -> ClaimReply:
    current = _current_task(ws, command)
    if current is not None and current.claim is not None:
        reply = (replay_claim if replayed else views.claimed_reply)(ws, current, current.claim)
    else:
        first = _first_task(ws, command)
        if first is None:
            return _nothing_to_do(ws, command)
        reply = grant(ws, first, command, sources)
    resumed = opened(ws, session, sources, replayed=replayed)
    others = [task for task in resumed.in_flight if task.job_id != reply.job_id]
    return msgspec.structs.replace(reply, session=msgspec.structs.replace(resumed, in_flight=others))


def _current_task(ws: WorkingSet, command: ClaimTask) -> Job | None:
    """The session's current task: it was handed over with the session, or its claim is being repeated."""
    return next((job for job in ws.claims_of(key_in(command)) if job.queue in command.queues), None)


def _first_task(ws: WorkingSet, command: ClaimTask) -> Job | None:
    """What the session lost, if it can be claimed again, so that it continues where it was; else the first in line.

    None if the session has a task, even from another queue: it runs one at a time.
    """
    session = ws.session(key_in(command))
    if session is not None and _any_task_of(ws, session) is not None:
        return None
    lost = [ws.job(name) for name in read_in_flight(session)] if session is not None else []
    queues = [queue for queue in command.queues if hands_out(ws, queue)]
    for job in lost:
        if job.queue in queues and is_due(job, ws.now) and _is_wanted(job, command):
            return job
    firsts = (ws.line.first(queue, command.kinds, command.prefix) for queue in queues)
    return next((job for job in firsts if job is not None), None)


def _any_task_of(ws: WorkingSet, session: Session) -> Job | None:
    """The session's current task, from any queue."""
    return next((job for job in ws.claims_of(session.session_id) if _is_task_of(session, job)), None)


def _is_task_of(session: Session, job: Job) -> bool:
    """Claimed as its task, not claimed by name and merely bound to it."""
    return job.is_enqueued and job.claim is not None and same_lease(job.claim.lease_id, session.lease_id)


def _is_wanted(job: Job, command: ClaimTask) -> bool:
    return job.job_id.startswith(command.prefix) and (command.kinds is None or job.kind in command.kinds)


def _nothing_to_do(ws: WorkingSet, command: ClaimTask) -> ClaimReply:
    return nothing_to_claim(ws, command.queues, (command.kinds, command.prefix))


@decides(ReleaseTask, needs.held_job, needs.session_with_claims)
def release_task(ws: WorkingSet, command: ReleaseTask, sources: Sources) -> ReleaseReply:
    claim = ws.job(command.job_id).claim
    if claim is not None and claim.session_id != key_in(command) and same_lease(claim.lease_id, command.lease_id):
        raise InvalidInput("session_id", f"is {command.session_id!r}, which is not the session that holds this task")
    reply = release_job(ws, command, sources)
    session = ws.session(key_in(command))
    if session is not None and session.status == "open" and same_lease(session.lease_id, command.lease_id):
        phase = phase_after_task(session.phase, command.outcome, reply.status)
        end_session(ws, session, command.principal, sources, phase)
    return reply


def free_session(ws: WorkingSet, job: Job, claim: Claim, actor: str, sources: Sources) -> None:
    """Free a session whose task was taken away: its owner only sends heartbeats for that task.

    Not if other claims are bound to it, which would be lost too.
    """
    session = None if claim.session_id is None else ws.session(claim.session_id)
    if session is None or not job.is_enqueued or not same_lease(claim.lease_id, session.lease_id):
        return
    if not any(ws.claims_of(session.session_id)):
        end_session(ws, session, actor, sources, phase_after_task(session.phase, "released", job.status))
