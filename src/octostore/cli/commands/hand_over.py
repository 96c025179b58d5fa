"""Pass a live session to another agent, with its context and the jobs bound to it, in one step.

The old lease ends at once, and each job gets a new fencing token. The other agent must open the session before its TTL
passes, and then continues where the first one stopped. Otherwise the session expires as usual. You need the session's
lease. Operators can hand over a session without it, for example when an agent is stuck. They name another principal's
session as PRINCIPAL/ID, as `octostore sessions` shows it. The exit code is 20 if the lease is lost.
"""

import argparse

from octostore.cli import words
from octostore.cli.completers import session_names
from octostore.cli.options import add_lease_id, lease_id_from
from octostore.cli.subcommands import Arguments, Context, set_completer

EXAMPLES = [
    "octostore hand-over agent-3-main --to agent-4",
    "octostore hand-over ci/agent-3-main --to agent-4    # a session of the principal ci",
    "octostore hand-over agent-3-main --to agent-4 --note 'the tests still fail on Windows'",
]


def configure(parser: argparse.ArgumentParser) -> None:
    set_completer(
        parser.add_argument("session", metavar="SESSION", help="session to hand over: ID, or PRINCIPAL/ID"),
        session_names,
    )
    parser.add_argument("--to", required=True, metavar="AGENT", help="the agent that will continue the session")
    parser.add_argument("--note", metavar="TEXT", help="what that agent should know")
    add_lease_id(parser, "session")


def run(arguments: Arguments, context: Context) -> None:
    lease = lease_id_from(arguments.lease_id)
    with context.address.open() as store:
        reply = store.hand_over(arguments.session, arguments.to, arguments.note, lease_id=lease)
    jobs = f", with {', '.join(reply.jobs)}" if reply.jobs else ""
    until = words.clock(reply.expires_at, words.now())
    context.console.print_result(
        reply,
        f"handed {reply.session_id} over to {reply.agent}{jobs}; "
        f"{reply.agent} must open the session before {until} UTC",
    )
