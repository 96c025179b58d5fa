"""What has to be loaded for a batch of commands."""

from collections.abc import Sequence

from octostore.core import commands as c
from octostore.core.limits import RECOVER_LIMIT
from octostore.core.needs import LineNeed, Needs


def needs_of(commands: Sequence[c.AnyCommand]) -> Needs:
    needs = Needs()
    for command in commands:
        _add(needs, command)
    for line in needs.lines.values():
        # Every command that names a job may take one away from the front of the line before the others look.
        line.count += len(needs.jobs)
    return needs


def _add(needs: Needs, command: c.AnyCommand) -> None:  # noqa: C901  # one case for each command
    match command:
        case c.ClaimJob() | c.AcquireLock() | c.CancelJob() | c.DiscardJob() | c.RequeueJob() | c.ForceReleaseJob():
            needs.jobs.add(command.job_id)
            needs.documents_of.add(command.job_id)
        case c.HeartbeatJob() | c.CheckpointJob() | c.ReleaseJob() | c.ReleaseLock():
            needs.jobs.add(command.job_id)
        case c.Enqueue():
            needs.jobs.add(command.job_id)
            needs.documents_of.add(command.job_id)
            needs.queues.add(command.queue)
        case c.ClaimNext():
            _add_line(needs, command.queue, command)
            if command.request_id is not None:
                needs.requests.add((command.principal, command.request_id, command.queue))
        case c.LimitQueue():
            needs.queues.add(command.queue)
            needs.counted_queues.add(command.queue)
        case c.CreateToken() | c.RotateToken():
            needs.tokens.add(command.token_id)
            needs.digests.add(command.digest)
        case c.RevokeToken():
            needs.tokens.add(command.token_id)
        case c.Recover():
            needs.sweep_limit = RECOVER_LIMIT
        case c.Undo(job_id=str(job_id)):
            needs.jobs.add(job_id)
    _add_session(needs, command)
    if isinstance(command, c.ClaimTerms | c.OpenSession) and command.request_id is not None:
        needs.ended.add((command.principal, command.request_id))
    if isinstance(command, c.ClaimTerms):
        _add_terms(needs, command)


def _add_session(needs: Needs, command: c.AnyCommand) -> None:
    match command:
        case c.KeepSessionAlive() | c.SaveSession():
            needs.sessions.add(command.session_id)
        case (
            c.HandOverSession(session_id=session_id)
            | c.CloseSession(session_id=session_id)
            | c.ReleaseTask(session_id=session_id)
            | c.Undo(session_id=str(session_id))
        ):
            needs.sessions.add(session_id)
            needs.claims_of.add(session_id)
        case c.OpenSession() | c.ClaimTask():
            needs.sessions.add(command.session_id)
            needs.claims_of.add(command.session_id)
            needs.in_flight_of.add(command.session_id)
    if isinstance(command, c.ClaimTask):
        for queue in command.queues:
            _add_line(needs, queue, command)


def _add_line(needs: Needs, queue: str, command: c.ClaimNext | c.ClaimTask) -> None:
    line = needs.lines.setdefault(queue, LineNeed(set()))
    line.selections.add((command.kinds, command.prefix))
    line.count += 1
    needs.queues.add(queue)


def _add_terms(needs: Needs, command: c.ClaimTerms) -> None:
    if command.session_id is not None:
        needs.sessions.add(command.session_id)
    if command.max_claims is not None:
        needs.claim_counts.add((command.principal, isinstance(command, c.AcquireLock)))
