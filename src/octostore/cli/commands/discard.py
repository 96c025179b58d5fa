"""Drop dead jobs for good. They leave their queue and their names are free again; their history stays in the log."""

from octostore.cli.command import Arguments, Context
from octostore.cli.operating import add_operator_options, operate

EXAMPLES = [
    "octostore discard import-17 --reason 'the customer has left'",
    "octostore dead --queue imports --json | jq -r '.jobs[].job_id' | xargs octostore discard",
]

configure = add_operator_options


def run(arguments: Arguments, context: Context) -> int:
    return operate(arguments, context, lambda store, job: store.discard(job, reason=arguments.reason))
