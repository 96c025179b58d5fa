"""What a store has to load before a batch of commands can be decided."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from octostore.core import commands as c
from octostore.core.limits import RECOVER_LIMIT, SWEEP_LIMIT

Selection: TypeAlias = tuple[tuple[str, ...] | None, str]
"""The kinds (None: all) and the prefix of the names of the jobs that somebody wants."""


class LineNeed(msgspec.Struct):
    """The front of a queue, separately for each selection of kinds and names that is asked for.

    Up to `SWEEP_LIMIT` claims of the queue that have run out are part of it, by name.
    """

    selections: set["Selection"]
    count: int = 0


class Needs(msgspec.Struct):
    """A claimed job is to come with the session that its claim is bound to, and a job in a queue with that queue."""

    jobs: set[str] = msgspec.field(default_factory=set)
    documents_of: set[str] = msgspec.field(default_factory=set)
    """The jobs whose payload, result and checkpoint are needed too; those of every job in one of `lines` are as well,
    because it may become the first in line.
    """
    sessions: set[str] = msgspec.field(default_factory=set)
    claims_of: set[str] = msgspec.field(default_factory=set)
    """The sessions of which every bound claim is needed."""
    in_flight_of: set[str] = msgspec.field(default_factory=set)
    """Those of which the jobs that they lost are needed, too, and the documents of all these jobs."""
    queues: set[str] = msgspec.field(default_factory=set)
    counted_queues: set[str] = msgspec.field(default_factory=set)
    """The queues whose claimed jobs are to be counted although they have no limit yet."""
    lines: dict[str, LineNeed] = msgspec.field(default_factory=dict)
    requests: set[tuple[str, str, str]] = msgspec.field(default_factory=set)
    ended: set[tuple[str, str]] = msgspec.field(default_factory=set)
    """(principal, request id) of which is needed what they had that has ended."""
    tokens: set[str] = msgspec.field(default_factory=set)
    digests: set[bytes] = msgspec.field(default_factory=set)
    """Whichever tokens have one of these are needed, too."""
    claim_counts: set[tuple[str, bool]] = msgspec.field(default_factory=set)
    """(principal, whether locks or other claims) whose live claims are to be counted."""
    sweep_limit: int = SWEEP_LIMIT
    """How many expired claims to bring along. `WorkingSet.has_all_expired` is to tell whether these are all."""


def needs_of(commands: "Sequence[c.AnyCommand]") -> Needs:
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


def _next(needs: Needs, command: "c.ClaimNext") -> None:
    _add_line(needs, command.queue, command)
    if command.request_id is not None:
        needs.requests.add((command.principal, command.request_id, command.queue))


def _lines(needs: Needs, command: "c.ClaimTask") -> None:
    for queue in command.queues:
        _add_line(needs, queue, command)


def _add_line(needs: Needs, queue: str, command: "c.ClaimNext | c.ClaimTask") -> None:
    line = needs.lines.setdefault(queue, LineNeed(set()))
    line.selections.add((command.kinds, command.prefix))
    line.count += 1
    needs.queues.add(queue)


def _terms(needs: Needs, command: "c.ClaimTerms") -> None:
    _ended(needs, command)
    _session(needs, command)
    if command.max_claims is not None:
        needs.claim_counts.add((command.principal, isinstance(command, c.AcquireLock)))


def _ended(needs: Needs, command: "c.ClaimTerms | c.OpenSession") -> None:
    if command.request_id is not None:
        needs.ended.add((command.principal, command.request_id))


def _all_expired(needs: Needs, _command: "c.Recover") -> None:
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
