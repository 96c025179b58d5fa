"""Show others what you are doing.

Inside a command started by `run` or `work`, this reports on the command's job. Elsewhere it reports on the claim kept
for you (`claim --keep`; name the JOB if you keep several), or on JOB with the lease in OCTOSTORE_LEASE_ID.
"""

import argparse

from octostore.cli.commands.heartbeat import print_heartbeat
from octostore.cli.leases import add_job, add_lease_options, is_kept_job, using_lease
from octostore.cli.options import number
from octostore.cli.subcommands import Arguments, Context
from octostore.core.errors import InvalidInput
from octostore.supervise.report import Report, can_report_for, send_report

EXAMPLES = [
    "octostore progress 'running tests' --percent 40",
    "octostore progress github-issue-1842 'running tests'",
]


def configure(parser: argparse.ArgumentParser) -> None:
    add_job(parser)
    parser.add_argument("note", metavar="TEXT", nargs="?", help="what you are doing")
    parser.add_argument("--percent", type=number, metavar="N", help="how far along you are, 0 to 100")
    add_lease_options(parser)


def run(arguments: Arguments, context: Context) -> None:
    job, note = _read(arguments, context)
    if arguments.lease_id is None and can_report_for(job):
        send_report(Report(note=note, percent=arguments.percent))
        if context.console.is_json:
            context.console.print_result({"note": note, "percent": arguments.percent})
        return
    with using_lease(job, arguments, context) as lease, context.address.open() as store:
        reply = store.heartbeat_job(
            lease.job_id,
            lease.lease_id,
            fencing_token=lease.fencing_token,
            progress=note,
            percent=arguments.percent,
        )
    print_heartbeat(reply, lease, context.console, shown=note)


def _read(arguments: Arguments, context: Context) -> tuple[str | None, str | None]:
    """The job and the text. A single argument is the text, unless it names a job kept for the owner."""
    first, second = arguments.job, arguments.note
    if second is not None or first is None:
        return first, second
    if can_report_for(None) or not is_kept_job(first, arguments.owner, context):
        return None, first
    if arguments.percent is None:
        raise InvalidInput("note", f"is required: say what you are doing, as in `octostore progress {first} 'testing'`")
    return first, None
