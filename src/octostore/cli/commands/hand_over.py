"""Pass a live session on to another agent, with its context and the jobs bound to it, in one step.

The old lease is dead from then on, and each job has a new fencing token. The other agent opens the session within its
TTL, and goes on where the first one was; otherwise it expires like any other. Whoever has the lease hands the session
over. Without the lease, an operator can, to get it away from an agent that hangs; somebody else's session is named with
its principal, as `octostore sessions` shows it. Exit code 20 if the session is over.
"""

import argparse

from octostore.cli import words
from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import session_names
from octostore.cli.options import lease_or_none

EXAMPLES = [
    "octostore hand-over agent-3-main --to agent-4",
    "octostore hand-over ci/agent-3-main --to agent-4    # that of the principal ci",
    "octostore hand-over agent-3-main --to agent-4 --note 'the tests still fail on Windows'",
]


def configure(parser: argparse.ArgumentParser) -> None:
    completed_by(parser.add_argument("session", metavar="SESSION", help="its id, or PRINCIPAL/ID"), session_names)
    parser.add_argument("--to", required=True, metavar="AGENT", help="who is to go on")
    parser.add_argument("--note", metavar="TEXT", help="what they should know")
    parser.add_argument(
        "--lease-id", metavar="L", help="of the session; better in OCTOSTORE_LEASE_ID, where others cannot see it"
    )


def run(arguments: Arguments, context: Context) -> None:
    lease = lease_or_none(arguments.lease_id)
    with context.place.open() as store:
        reply = store.hand_over(arguments.session, arguments.to, arguments.note, lease_id=lease)
    jobs = f", with {', '.join(reply.jobs)}" if reply.jobs else ""
    until = words.clock(reply.expires_at, words.now())
    context.console.answer(reply, f"{reply.session_id} waits for {reply.agent}, until {until} UTC{jobs}")
