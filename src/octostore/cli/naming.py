"""Names as people type them: those that nobody has used, and generated ones that were cut short."""

from typing import TYPE_CHECKING

from octostore.cli.command import Arguments, Context
from octostore.core.errors import InvalidInput, NotAllowed, NotFound, OctoStoreError, Unreachable
from octostore.core.similar import did_you_mean
from octostore.stores.ids import is_cut_short, is_generated

if TYPE_CHECKING:
    from octostore.client.reader import Reader

JOB_ARGUMENTS = ("job", "jobs", "job_id")
"""What commands call the names of jobs that they are given."""
CREATING = {"claim", "enqueue", "run"}
"""Commands that make a job of a name that nobody has used."""
LISTED = 10


# Those that nobody has used


def find_similar(store: "Reader", name: str) -> list[str] | None:
    """Names that may have been meant; None if `name` is known, or nothing can be learned about it."""
    try:
        found = store.find_similar(name)
    except OctoStoreError:
        return None
    return None if found.is_known else found.similar


def told_unknown(name: str, similar: list[str]) -> str:
    return f"nobody has ever claimed or enqueued {name}{f'; {did_you_mean(similar)}' if similar else ''}"


# Those that were cut short


def write_out_names(arguments: Arguments, context: Context) -> None:
    """In place of each generated name that was cut short, the one that begins so.

    A name that exists as it was typed is that job's. Raises `InvalidInput` where several begin so.
    """
    for field in JOB_ARGUMENTS:
        given = getattr(arguments, field, None)
        if isinstance(given, list):
            setattr(arguments, field, [_written_out(name, arguments, context) for name in given])
        elif isinstance(given, str):
            setattr(arguments, field, _written_out(given, arguments, context))


def _written_out(name: str, arguments: Arguments, context: Context) -> str:
    if not is_cut_short(name):
        return name
    found = _beginning_with(name, context)
    whole = [other for other in found if is_generated(other)]
    if name in found or (not whole and arguments.command not in CREATING):
        return name
    if not whole:
        raise NotFound(
            f"{name!r} looks like a generated name that was cut short, and no job's name begins so; type all of it",
            job_id=name,
        )
    if len(whole) > 1:
        listed = ", ".join(whole[:LISTED]) + (" and more" if len(whole) > LISTED else "")
        raise InvalidInput("job", f"{name!r} is the beginning of several names: {listed}")
    return whole[0]


def _beginning_with(name: str, context: Context) -> list[str]:
    try:
        with context.place.look() as store:
            return [job.job_id for job in store.list_jobs(name, limit=LISTED + 1).jobs]
    except NotAllowed:  # to look; it may still be allowed to do what it is about to do
        return []
    except Unreachable as fault:
        if fault.reason != "no_store":
            raise
        return []
