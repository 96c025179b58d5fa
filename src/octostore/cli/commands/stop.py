"""Ask the owners of jobs to stop. Each hears of it with its next heartbeat, and keeps its job until it has stopped.

`run` and `work` stop their command (the stop signal, then KILL after the grace period) and give the job back; no
attempt is used up. An agent learns of it with the answer to its next tool call, and a program finds
`claim.stop_requested` set. To cancel the job as well, use `octostore cancel --drain`; to take it from an owner that
does not listen, `octostore force-release`.
"""

from octostore.cli.command import Arguments, Context
from octostore.cli.operating import add_operator_options, operate

EXAMPLES = ["octostore stop nightly-report --reason 'the machine goes down at noon'"]

configure = add_operator_options


def run(arguments: Arguments, context: Context) -> int:
    return operate(arguments, context, lambda store, job: store.request_stop(job, reason=arguments.reason))
