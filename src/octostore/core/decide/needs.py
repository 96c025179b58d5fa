"""How a rule declares what must be loaded for its command."""

from collections.abc import Callable
from typing import Any, TypeAlias

from octostore.core import commands as c
from octostore.core.limits import MATCHING_MAX, RECOVER_LIMIT
from octostore.core.needs import JobFilter, LineNeed, Needs
from octostore.core.session_keys import key_in

Need: TypeAlias = Callable[[Needs, Any], None]
"""Adds what a command needs."""


def _each(field: str, *sets: str) -> Need:
    """Adds this field of a command to these sets, unless it is None."""

    def add(needs: Needs, command: Any) -> None:
        value = getattr(command, field)
        if value is not None:
            for name in sets:
                getattr(needs, name).add(value)

    return add


def _session(*sets: str) -> Need:
    """Adds the session a command names, if any."""

    def add(needs: Needs, command: Any) -> None:
        if command.session_id is not None:
            for name in sets:
                getattr(needs, name).add(key_in(command))

    return add


held_job = _each("job_id", "jobs")
"""For commands that carry the job's lease: if the lease is valid, the job is claimed, so it is not in a line."""
job_with_documents = _each("job_id", "jobs", "documents_of")
job_with_session = _each("job_id", "jobs", "documents_of", "beside")
queue = _each("queue", "queues")
counted_queue = _each("queue", "queues", "counted_queues")
session = _session("sessions")
session_with_claims = _session("sessions", "claims_of")
session_with_news = _session("sessions", "news_of")
in_flight = _session("in_flight_of")
token = _each("token_id", "tokens")
digest = _each("digest", "digests")


def next_in_line(needs: Needs, command: c.ClaimNext) -> None:
    _add_line(needs, command.queue, command)
    if command.request_id is not None:
        needs.requests.add((command.principal, command.request_id, command.queue))


def lines(needs: Needs, command: c.ClaimTask) -> None:
    for queue in command.queues:
        _add_line(needs, queue, command)


def _add_line(needs: Needs, queue: str, command: c.ClaimNext | c.ClaimTask) -> None:
    line = needs.lines.setdefault(queue, LineNeed(set()))
    line.selections.add((command.kinds, command.prefix))
    line.count += 1
    needs.queues.add(queue)


def dead_jobs(needs: Needs, command: c.MatchingCommand) -> None:
    """One more than it may change shows whether there are more."""
    count = command.limit + 1 if command.kind is None else MATCHING_MAX
    wanted = dead_jobs_of(command)
    needs.lists[wanted] = needs.lists.get(wanted, 0) + count


def dead_jobs_of(command: c.MatchingCommand) -> JobFilter:
    return JobFilter("dead", command.prefix, command.queue, command.after or "")


def terms(needs: Needs, command: c.ClaimTerms) -> None:
    ended(needs, command)
    session(needs, command)
    if command.max_claims is not None:
        needs.claim_counts.add((command.principal, isinstance(command, c.AcquireLock)))


def ended(needs: Needs, command: c.ClaimTerms | c.OpenSession) -> None:
    if command.request_id is not None:
        needs.ended.add((command.principal, command.request_id))


def session_count(needs: Needs, command: c.OpenSession | c.ClaimTask) -> None:
    if command.max_sessions is not None:
        needs.session_counts.add(command.principal)


def queued_count(needs: Needs, command: c.Enqueue) -> None:
    if command.max_queued is not None:
        needs.queued_counts.add(command.principal)


def all_expired(needs: Needs, _command: c.Recover) -> None:
    needs.sweep_limit = RECOVER_LIMIT
