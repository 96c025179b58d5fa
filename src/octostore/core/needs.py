"""What a store has to load before a batch of commands can be decided."""

from collections.abc import Sequence
from typing import TypeAlias

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
        _add(needs, command)
    for line in needs.lines.values():
        # Every command that names a job may take one away from the front of the line before the others look.
        line.count += len(needs.jobs)
    return needs


def _add(needs: Needs, command: "c.AnyCommand") -> None:  # noqa: C901  # one case for each command
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


def _add_session(needs: Needs, command: "c.AnyCommand") -> None:
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


def _add_line(needs: Needs, queue: str, command: "c.ClaimNext | c.ClaimTask") -> None:
    line = needs.lines.setdefault(queue, LineNeed(set()))
    line.selections.add((command.kinds, command.prefix))
    line.count += 1
    needs.queues.add(queue)


def _add_terms(needs: Needs, command: "c.ClaimTerms") -> None:
    if command.session_id is not None:
        needs.sessions.add(command.session_id)
    if command.max_claims is not None:
        needs.claim_counts.add((command.principal, isinstance(command, c.AcquireLock)))
