"""Drop dead jobs for good. They leave their queue and their names are free again; their history stays in the log.

--all discards every dead job that matches, whether it is out of attempts or was cancelled. `octostore dead` lists them.
Each transaction discards up to 100 jobs. If the command is interrupted, run it again for the rest.
"""

from octostore.cli.matching import add_matching_options, operate_on_matching
from octostore.cli.subcommands import Arguments, Context

EXAMPLES = [
    "octostore discard import-17 --reason 'the customer has left'",
    "octostore dead customer-9/ && octostore discard --all --prefix customer-9/ --reason 'the customer has left'",
]

configure = add_matching_options


def run(arguments: Arguments, context: Context) -> int:
    return operate_on_matching(
        arguments,
        context,
        lambda store, job: store.discard(job, reason=arguments.reason),
        lambda store, **terms: store.discard_matching(**terms),
        "discarded",
    )
