"""List the jobs you hold: since when, until when, the checkpoint, the progress, and what to do next.

Your name is --owner, else OCTOSTORE_OWNER, else that of your agent's process, else that of the only owner who keeps
claims here. A kept claim that was lost is shown once, with the reason. --release-all releases every claim whose lease
is kept here (`claim --keep`); the exit code is 11 if you still hold others.
"""

import argparse
import shlex
from collections.abc import Iterator

import msgspec

from octostore.cli import exit_codes, words
from octostore.cli.activity import kept_leases
from octostore.cli.commands.heartbeat import stop_request_lines
from octostore.cli.console import Console
from octostore.cli.held_claims import MyClaim, claims_of, keeping_in_words, lost_claims, with_checkpoints
from octostore.cli.leases import repeated_options
from octostore.cli.owners import KEEPING_OWNER_DEFAULT, acting_owner
from octostore.cli.subcommands import Arguments, Context
from octostore.core.errors import LeaseLost, NotFound

EXAMPLES = [
    "octostore mine",
    "octostore mine --owner agent-3 --json",
    "octostore mine --release-all    # before you leave",
]
HEADER = ("JOB", "SINCE", "YOURS", "CHECKPOINT", "DOING")
GLIMPSE = 30
NOTE = "released by `octostore mine --release-all`"
NOT_KEPT = "its lease is not kept here: the job was claimed without --keep, by an MCP tool, or on another machine"


class Mine(msgspec.Struct, frozen=True):
    owner: str
    claims: list[MyClaim]


class Released(msgspec.Struct, frozen=True):
    """`lost` claims had already ended."""

    owner: str
    released: list[str]
    lost: list[str]
    remaining: dict[str, str]
    """Why each of these jobs could not be released."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--owner", metavar="O", help=f"who you are (default: {KEEPING_OWNER_DEFAULT})")
    parser.add_argument("--release-all", action="store_true", help="release every claim that is kept here for you")


def run(arguments: Arguments, context: Context) -> int | None:
    leases = kept_leases(context.address)
    owner = acting_owner(arguments.owner, leases)
    if arguments.release_all:
        return _release_all(owner, context)
    with context.address.open_reader() as store:
        held = with_checkpoints(claims_of(owner, store.list_claimed_jobs(), leases), store)
        claims = [*held, *lost_claims(owner, held, leases, store)]
    context.console.print_result(Mine(owner, claims), *_lines(owner, claims, context))
    return None


def _lines(owner: str, claims: list[MyClaim], context: Context) -> Iterator[str]:
    held = [one for one in claims if one.claim is not None]
    options = repeated_options(owner, context)
    if held:
        yield from context.console.table(HEADER, [_row(one) for one in held])
    else:
        yield f"{owner} holds nothing"
    for one in claims:
        if one.status == "lost":
            yield f"{context.console.style('lost', 'red')} {one.job_id}: {one.why}"
        elif one.claim is not None:
            yield from (f"{one.job_id}: {line}" for line in stop_request_lines(one.claim.stop_requested))
    yield from _next_lines(held, options, context.console)


def _row(one: MyClaim) -> tuple[str, ...]:
    now = words.now()
    claim = one.claim
    if claim is None:
        return (one.job_id, *[""] * (len(HEADER) - 1))
    doing = words.one_line(claim.progress.note or "") if claim.progress else ""
    saved = "none" if one.checkpoint is None else words.shorten(words.as_json(one.checkpoint), GLIMPSE)
    return (one.job_id, words.ago(claim.claimed_at, now), keeping_in_words(one, now), saved, doing)


def _next_lines(held: list[MyClaim], options: str, console: Console) -> Iterator[str]:
    kept = next((one for one in held if one.kept is not None), None)
    if kept is not None:
        job = shlex.quote(kept.job_id)
        yield console.style(f"next: octostore checkpoint{options} {job} DATA", "dim")
        yield console.style(f"      octostore release{options} {job} --outcome done", "dim")
    elif not held:
        yield console.style(f"next: octostore next{options} QUEUE --keep", "dim")
        yield console.style(f"      octostore claim{options} JOB --keep", "dim")


def _release_all(owner: str, context: Context) -> int:
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # only to release
    from octostore.keeping.releasing import release  # noqa: PLC0415

    leases = KeptLeases.of_store(context.address.url)
    released, lost = [], []
    with context.address.open() as store:
        for lease in leases.of(owner):
            try:
                released.append(release(store, leases, lease, note=NOTE).job_id)
            except (LeaseLost, NotFound):
                lost.append(lease.job_id)
        remaining = {one.job_id: NOT_KEPT for one in store.list_claimed_jobs() if one.owner == owner}
    context.console.print_result(
        Released(owner, released, lost, remaining),
        *(f"released {job}" for job in released),
        *(f"lost {job}: the claim had already ended" for job in lost),
        *(f"still held: {job}; {why}" for job, why in remaining.items()),
        *([] if released or lost or remaining else [f"{owner} holds nothing"]),
    )
    return exit_codes.HELD if remaining else exit_codes.SUCCESS
