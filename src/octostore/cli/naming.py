"""Names as people type them: names that nobody has used, and truncated generated names."""

from typing import TYPE_CHECKING

from octostore.cli.command import Arguments, Context
from octostore.core.errors import InvalidInput, NotAllowed, NotFound, OctoStoreError, Unreachable
from octostore.core.similar import did_you_mean, most_similar
from octostore.stores.ids import is_generated, is_truncated

if TYPE_CHECKING:
    from octostore.client.reader import Reader

JOB_ARGUMENTS = ("job", "jobs", "job_id")
"""The arguments of commands that name a job."""
CREATING = {"claim", "enqueue", "run"}
"""Commands that create a job if nobody has used its name."""
LISTED = 10


# Names that nobody has used


def find_similar(store: "Reader", name: str) -> list[str] | None:
    """Names that may have been meant; None if `name` is known, or the store does not say."""
    try:
        found = store.find_similar(name)
    except OctoStoreError:
        return None
    return None if found.is_known else found.similar


def told_unknown(name: str, similar: list[str]) -> str:
    return f"nobody has ever claimed or enqueued {name}{f'; {did_you_mean(similar)}' if similar else ''}"


def told_new_queue(store: "Reader", name: str) -> str | None:
    """What to say of a queue without jobs, whose name may be mistyped; None if it has some, or we may not know."""
    try:
        status = store.queue_status(name)
        if any((status.ready, status.later, status.claimed, status.dead, status.done)):
            return None
        similar = most_similar(name, (queue.queue for queue in store.list_queues().queues))
    except OctoStoreError:
        return None
    return f"queue {name} has no jobs yet; {did_you_mean(similar) if similar else 'check its name'}"


# Truncated generated names


def expand_names(arguments: Arguments, context: Context) -> None:
    """Replace each truncated generated name by the full one.

    An exact match wins. Raises `InvalidInput` if several jobs match.
    """
    for field in JOB_ARGUMENTS:
        given = getattr(arguments, field, None)
        if isinstance(given, list):
            setattr(arguments, field, [_expanded(name, arguments, context) for name in given])
        elif isinstance(given, str):
            setattr(arguments, field, _expanded(given, arguments, context))


def _expanded(name: str, arguments: Arguments, context: Context) -> str:
    if not is_truncated(name):
        return name
    found = _beginning_with(name, context)
    whole = [other for other in found if is_generated(other)]
    if name in found or (not whole and arguments.command not in CREATING):
        return name
    if not whole:
        raise NotFound(
            f"{name!r} looks like a truncated generated name, but no job name starts with it; type the full name",
            job_id=name,
        )
    if len(whole) > 1:
        listed = ", ".join(whole[:LISTED]) + (" and more" if len(whole) > LISTED else "")
        raise InvalidInput("job", f"{name!r} matches several jobs: {listed}")
    return whole[0]


def _beginning_with(name: str, context: Context) -> list[str]:
    try:
        with context.place.look() as store:
            return [job.job_id for job in store.list_jobs(name, limit=LISTED + 1).jobs]
    except NotAllowed:  # the token may be good for the command itself
        return []
    except Unreachable as fault:
        if fault.reason != "no_store":
            raise
        return []
