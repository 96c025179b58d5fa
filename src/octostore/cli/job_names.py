"""Job names as people type them: names that nobody has used, and truncated generated names."""

from typing import TYPE_CHECKING

from octostore.cli.subcommands import Arguments, Context
from octostore.core.errors import InvalidInput, NotAllowed, NotFound, OctoStoreError, Unreachable
from octostore.core.similar import did_you_mean, most_similar
from octostore.stores.ids import is_generated, is_truncated

if TYPE_CHECKING:
    from octostore.client.reader import Reader

JOB_ARGUMENTS = ("job", "jobs", "job_id")
"""Arguments that name a job."""
CREATING = {"claim", "enqueue", "run"}
"""Commands that create a job if nobody has used its name."""
LISTED = 10


# Names that nobody has used


def find_similar(store: "Reader", name: str) -> list[str] | None:
    """Names the user may have meant; None if `name` is known or the store does not say."""
    try:
        found = store.find_similar(name)
    except OctoStoreError:
        return None
    return None if found.is_known else found.similar


def unknown_job_message(name: str, similar: list[str]) -> str:
    return f"nobody has ever claimed or enqueued {name}{f'; {did_you_mean(similar)}' if similar else ''}"


def empty_queue_hint(store: "Reader", name: str) -> str | None:
    """A hint that the name of an empty queue may be mistyped; None if it has jobs, or if the store does not say."""
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
    """Replace each truncated generated name with the full one.

    An exact match wins. Raises `InvalidInput` if several jobs match.
    """
    for field in JOB_ARGUMENTS:
        given = getattr(arguments, field, None)
        if isinstance(given, list):
            setattr(arguments, field, [_expand(name, arguments, context) for name in given])
        elif isinstance(given, str):
            setattr(arguments, field, _expand(given, arguments, context))


def _expand(name: str, arguments: Arguments, context: Context) -> str:
    if not is_truncated(name):
        return name
    found = _names_starting_with(name, context)
    complete = [other for other in found if is_generated(other)]
    if name in found or (not complete and arguments.command not in CREATING):
        return name
    if not complete:
        raise NotFound(
            f"{name!r} looks like a truncated generated name, but no job name starts with it; type the full name",
            job_id=name,
        )
    if len(complete) > 1:
        listed = ", ".join(complete[:LISTED]) + (" and more" if len(complete) > LISTED else "")
        raise InvalidInput("job", f"{name!r} matches several jobs: {listed}")
    return complete[0]


def _names_starting_with(name: str, context: Context) -> list[str]:
    try:
        with context.address.open_reader() as store:
            return [job.job_id for job in store.list_jobs(name, limit=LISTED + 1).jobs]
    except NotAllowed:  # the token may be good for the command itself
        return []
    except Unreachable as fault:
        if fault.reason != "no_store":
            raise
        return []
