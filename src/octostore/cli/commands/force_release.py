"""Take jobs away from their owners. The old owner's next write is refused, with your reason. No attempt is used up."""

from octostore.cli.operating import add_operator_options, operate
from octostore.cli.subcommands import Arguments, Context

EXAMPLES = ["octostore force-release deploy --reason 'its runner was shut down'"]

configure = add_operator_options


def run(arguments: Arguments, context: Context) -> int:
    return operate(arguments, context, lambda store, job: store.force_release(job, reason=arguments.reason))
