"""What has to be loaded for a batch of commands."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from octostore.core import commands as c
from octostore.core.limits import RECOVER_LIMIT
from octostore.core.needs import LineNeed, Needs


def needs_of(commands: Sequence[c.AnyCommand]) -> Needs:
    needs = Needs()
    for command in commands:
        for add in _ADD[type(command)]:
            add(needs, command)
    for line in needs.lines.values():
        # Every command that names a job may take one away from the front of the line before the others look.
        line.count += len(needs.jobs)
    return needs


_Add: TypeAlias = Callable[[Needs, Any], None]


def _each(field: str, *sets: str) -> _Add:
    """Adds this field of a command to these sets, unless it is None."""

    def add(needs: Needs, command: Any) -> None:
        value = getattr(command, field)
        if value is not None:
            for name in sets:
                getattr(needs, name).add(value)

    return add


_job = _each("job_id", "jobs")
_job_with_documents = _each("job_id", "jobs", "documents_of")
_queue = _each("queue", "queues")
_session = _each("session_id", "sessions")
_session_with_claims = _each("session_id", "sessions", "claims_of")
_in_flight = _each("session_id", "in_flight_of")
_token = _each("token_id", "tokens")
_digest = _each("digest", "digests")


def _next(needs: Needs, command: c.ClaimNext) -> None:
    _add_line(needs, command.queue, command)
    if command.request_id is not None:
        needs.requests.add((command.principal, command.request_id, command.queue))


def _lines(needs: Needs, command: c.ClaimTask) -> None:
    for queue in command.queues:
        _add_line(needs, queue, command)


def _add_line(needs: Needs, queue: str, command: c.ClaimNext | c.ClaimTask) -> None:
    line = needs.lines.setdefault(queue, LineNeed(set()))
    line.selections.add((command.kinds, command.prefix))
    line.count += 1
    needs.queues.add(queue)


def _terms(needs: Needs, command: c.ClaimTerms) -> None:
    _ended(needs, command)
    _session(needs, command)
    if command.max_claims is not None:
        needs.claim_counts.add((command.principal, isinstance(command, c.AcquireLock)))


def _ended(needs: Needs, command: c.ClaimTerms | c.OpenSession) -> None:
    if command.request_id is not None:
        needs.ended.add((command.principal, command.request_id))


def _all_expired(needs: Needs, _command: c.Recover) -> None:
    needs.sweep_limit = RECOVER_LIMIT


_ADD: dict[type[Any], tuple[_Add, ...]] = {
    c.ClaimJob: (_job_with_documents, _terms),
    c.AcquireLock: (_job_with_documents, _terms),
    c.ClaimNext: (_next, _terms),
    c.ClaimTask: (_session_with_claims, _in_flight, _lines, _terms),
    c.HeartbeatJob: (_job,),
    c.CheckpointJob: (_job,),
    c.ReleaseJob: (_job,),
    c.ReleaseTask: (_job, _session_with_claims),
    c.ReleaseLock: (_job,),
    c.Undo: (_job, _session_with_claims),
    c.Enqueue: (_job_with_documents, _queue),
    c.LimitQueue: (_each("queue", "queues", "counted_queues"),),
    c.CancelJob: (_job_with_documents,),
    c.DiscardJob: (_job_with_documents,),
    c.RequeueJob: (_job_with_documents,),
    c.ForceReleaseJob: (_job_with_documents,),
    c.OpenSession: (_session_with_claims, _in_flight, _ended),
    c.KeepSessionAlive: (_session,),
    c.SaveSession: (_session,),
    c.HandOverSession: (_session_with_claims,),
    c.CloseSession: (_session_with_claims,),
    c.CreateToken: (_token, _digest),
    c.RotateToken: (_token, _digest),
    c.RevokeToken: (_token,),
    c.Recover: (_all_expired,),
    c.Probe: (),
}
