"""Become the owner of a job until its TTL passes without a heartbeat.

The answer contains a lease id, which `heartbeat` and `release` need. Keep it to yourself; it is not saved anywhere.
`octostore run` does all of this for you while a command runs.
"""

import argparse

from octostore.cli.claims import tell_claim
from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import job_names
from octostore.cli.options import json_value, seconds
from octostore.client.owner import person
from octostore.core.limits import TTL_DEFAULT_SECONDS

EXAMPLES = [
    "octostore claim github-issue-1842 --owner agent-3 --ttl 2m",
    "octostore claim deploy --owner ci --wait 10m    # wait in line for it",
    "OCTOSTORE_LEASE_ID=$(octostore claim deploy --owner me --lease) && export OCTOSTORE_LEASE_ID",
]


def configure(parser: argparse.ArgumentParser) -> None:
    completed_by(parser.add_argument("job", metavar="JOB", help="its name"), job_names)
    add_claim_options(parser)
    parser.add_argument("--again", action="store_true", help="claim it even if it is done")
    parser.add_argument(
        "--lock-delay",
        type=seconds,
        default=0,
        metavar="S",
        help="after this claim ends, block new claims for this long (0)",
    )


def add_claim_options(parser: argparse.ArgumentParser) -> None:
    """Those that `claim` and `next` share."""
    parser.add_argument("--owner", metavar="O", help="your name, as others see it (OCTOSTORE_OWNER, else user@host)")
    parser.add_argument(
        "--ttl",
        type=seconds,
        default=TTL_DEFAULT_SECONDS,
        metavar="S",
        help=f"how long you keep it without a heartbeat ({TTL_DEFAULT_SECONDS})",
    )
    parser.add_argument(
        "--max-silence",
        type=seconds,
        metavar="S",
        help="show you as stuck after this long without progress, even if you send heartbeats (never)",
    )
    parser.add_argument(
        "--metadata", type=json_value, metavar="JSON", help="anything others should see; @FILE or - (stdin) also work"
    )
    parser.add_argument("--wait", type=seconds, default=0, metavar="S", help="how long to wait for it (0)")
    parser.add_argument("--session", metavar="ID", help="bind the claim to this session")
    parser.add_argument("--request-id", metavar="R", help="repeat the call with the same id to get the same claim back")
    parser.add_argument("--lease", action="store_true", help="print only the lease id, for $(…)")


def run(arguments: Arguments, context: Context) -> int:
    with context.place.open() as store:
        reply = store.claim_job(
            arguments.job,
            person() if arguments.owner is None else arguments.owner,
            arguments.metadata,
            arguments.ttl,
            wait=arguments.wait,
            session_id=arguments.session,
            request_id=arguments.request_id,
            again=arguments.again,
            lock_delay=arguments.lock_delay,
            max_silence=arguments.max_silence,
        )
    return tell_claim(reply, context.console, lease_only=arguments.lease)
