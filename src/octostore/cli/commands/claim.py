"""Become the owner of a job until you release it, or until the TTL passes without a heartbeat.

With --keep, a background process sends the heartbeats. The lease is in a file that only you can read, where `progress`,
`checkpoint` and `release` find it by your owner name and the job. The claim is released when the watched process
(--while-pid) ends, or when you run no octostore command for --max-silence. Without --keep, the output contains a lease
id, which `heartbeat` and `release` need. Keep it to yourself; it is not saved anywhere.
`octostore run` does all of this for you while a command runs.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from octostore.cli.claim_output import print_claim
from octostore.cli.completers import job_names
from octostore.cli.options import integer_from, json_value, seconds
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.client.owner import person
from octostore.core.errors import InvalidInput
from octostore.core.limits import TTL_DEFAULT_SECONDS
from octostore.core.replies import ClaimReply

if TYPE_CHECKING:
    from octostore.client.store import OctoStore

Claim: TypeAlias = "Callable[[OctoStore, str, int | None], ClaimReply]"
"""Claims a job for an owner; the process with this pid holds it (None: our own process)."""

EXAMPLES = [
    "octostore claim github-issue-1842 --owner agent-3 --keep    # then: octostore release --outcome done",
    "octostore claim github-issue-1842 --owner agent-3 --ttl 2m",
    "octostore claim deploy --owner ci --wait 10m    # wait in line for it",
    "OCTOSTORE_LEASE_ID=$(octostore claim deploy --owner me --lease) && export OCTOSTORE_LEASE_ID",
]


def configure(parser: argparse.ArgumentParser) -> None:
    set_completer(parser.add_argument("job", metavar="JOB", help="job name"), job_names)
    add_claim_options(parser)
    parser.add_argument(
        "--wait", type=seconds, default=0, metavar="S", help="how long to wait for the job (default: 0)"
    )
    parser.add_argument("--again", action="store_true", help="claim the job even if it is done")
    parser.add_argument(
        "--lock-delay",
        type=seconds,
        default=0,
        metavar="S",
        help="after this claim ends, block new claims for this long (default: 0)",
    )


def add_claim_options(parser: argparse.ArgumentParser) -> None:
    """Options that `claim` and `next` share."""
    parser.add_argument(
        "--owner",
        metavar="O",
        help="your name, as others see it (default: OCTOSTORE_OWNER, else, with --keep, that of your agent's process, "
        "else user@host)",
    )
    parser.add_argument(
        "--ttl",
        type=seconds,
        default=TTL_DEFAULT_SECONDS,
        metavar="S",
        help=f"how long you keep the job without a heartbeat (default: {TTL_DEFAULT_SECONDS})",
    )
    parser.add_argument(
        "--max-silence",
        type=seconds,
        metavar="S",
        help="with --keep: release the claim after this long without an octostore command; without --keep: show you as "
        "stuck after this long without progress, even if you send heartbeats (default: 10m with --keep, else never)",
    )
    parser.add_argument(
        "--metadata", type=json_value, metavar="JSON", help="anything others should see; @FILE and - (stdin) also work"
    )
    parser.add_argument("--session", metavar="ID", help="bind the claim to this session")
    parser.add_argument("--request-id", metavar="R", help="repeat the call with the same id to get the same claim back")
    parser.add_argument("--lease", action="store_true", help="print only the lease id, for $(…)")
    parser.add_argument("--keep", action="store_true", help="send heartbeats in the background until the claim ends")
    parser.add_argument(
        "--while-pid",
        type=integer_from(0),
        metavar="PID",
        help="with --keep: release the claim when this process ends; 0 watches none (default: your agent's "
        "process, or the terminal's shell)",
    )


def run(arguments: Arguments, context: Context) -> int:
    return run_claim(arguments, context, partial(_claim, arguments))


def run_claim(arguments: Arguments, context: Context, claim: "Claim") -> int:
    """Claim, and with --keep, keep the lease."""
    if arguments.keep:
        from octostore.cli.keep import claim_and_keep  # noqa: PLC0415  # only with --keep

        return claim_and_keep(arguments, context, claim)
    if arguments.while_pid is not None:
        raise InvalidInput("--while-pid", "is only for claims that are kept; add --keep")
    with context.address.open() as store:
        reply = claim(store, person() if arguments.owner is None else arguments.owner, None)
    return print_claim(reply, context.console, lease_only=arguments.lease)


def max_silence_for_store(arguments: Arguments) -> float | None:
    """None for a kept claim, whose keeper enforces it."""
    return None if arguments.keep else arguments.max_silence


def _claim(arguments: Arguments, store: "OctoStore", owner: str, pid: int | None) -> ClaimReply:
    return store.claim_job(
        arguments.job,
        owner,
        arguments.metadata,
        arguments.ttl,
        wait=arguments.wait,
        session_id=arguments.session,
        request_id=arguments.request_id,
        again=arguments.again,
        lock_delay=arguments.lock_delay,
        max_silence=max_silence_for_store(arguments),
        pid=pid,
    )
