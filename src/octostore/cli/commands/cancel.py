"""Take jobs out of their queue, and away from whoever has them. They are dead then; `requeue` brings them back."""

from octostore.cli.command import Arguments, Context
from octostore.cli.operating import add_operator_options, operate

EXAMPLES = ["octostore cancel import-17 --reason 'no longer needed'"]

configure = add_operator_options


def run(arguments: Arguments, context: Context) -> int:
    return operate(arguments, context, lambda store, job: store.cancel(job, reason=arguments.reason))
