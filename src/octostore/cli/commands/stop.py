"""Ask the owners of jobs to stop. Each gets the request with its next heartbeat, and keeps its job until it stops.

`run` and `work` stop their command (with the stop signal, then KILL after the grace period) and release the job; no
attempt is used up. An agent sees the request in the reply to its next tool call; a program sees
`claim.stop_requested`. To cancel the job as well, use `octostore cancel --drain`. To take the job from an owner that
does not react, use `octostore force-release`.
"""

from octostore.cli.operating import add_operator_options, operate
from octostore.cli.subcommands import Arguments, Context

EXAMPLES = ["octostore stop nightly-report --reason 'the machine shuts down at noon'"]

configure = add_operator_options


def run(arguments: Arguments, context: Context) -> int:
    return operate(arguments, context, lambda store, job: store.request_stop(job, reason=arguments.reason))
