"""Save what the next owner needs to continue from here: up to 64 KiB of JSON. A new checkpoint replaces the last one.

Inside a command started by `run` or `work`, the checkpoint is for the command's job. Elsewhere it is for the claim kept
for you (`claim --keep`; name the JOB if you keep several), or for JOB with the lease in OCTOSTORE_LEASE_ID. With a JOB
alone, the data comes from stdin.

The next owner gets the checkpoint with the claim; commands of `run` and `work` find it in the file named by
OCTOSTORE_CHECKPOINT_FILE. If there is no checkpoint, that file does not exist.

Finish a step first, then save it. If you disappear in between, the next owner finds a step that is done but not saved.
"""

import argparse
from typing import Any

import msgspec

from octostore.cli import words
from octostore.cli.commands.heartbeat import stop_request_lines
from octostore.cli.leases import add_job, add_lease_options, using_lease
from octostore.cli.options import json_value
from octostore.cli.subcommands import Arguments, Context
from octostore.core.encoding import encode_any
from octostore.core.errors import InvalidInput
from octostore.core.names import check_job_id
from octostore.supervise.report import Report, can_report_for, send_report

EXAMPLES = [
    "octostore checkpoint '{\"step\": 3}'",
    "octostore checkpoint github-issue-1842 '{\"step\": 3}'",
    "jq '{step: .step}' state.json | octostore checkpoint -",
]
GLIMPSE = 60


def configure(parser: argparse.ArgumentParser) -> None:
    add_job(parser)
    parser.add_argument("data", metavar="DATA", nargs="?", help="the JSON itself, @FILE, or - for stdin")
    add_lease_options(parser)


def run(arguments: Arguments, context: Context) -> None:
    job, data = _read(arguments)
    if arguments.lease_id is None and can_report_for(job):
        send_report(Report(checkpoint=msgspec.Raw(encode_any("checkpoint", data))))
        if context.console.is_json:
            context.console.print_result({"checkpoint": data})
        return
    with using_lease(job, arguments, context) as lease, context.address.open() as store:
        reply = store.checkpoint_job(lease.job_id, lease.lease_id, data, fencing_token=lease.fencing_token)
        holder = store.get_job_owner(lease.job_id)
    size = words.count(len(encode_any("checkpoint", data)), "byte")
    context.console.print_result(
        reply,
        f"saved {size} for {reply.job_id}: {words.shorten(words.as_json(data), GLIMPSE)}",
        *stop_request_lines(None if holder is None else holder.stop_requested),
    )


def _read(arguments: Arguments) -> tuple[str | None, Any]:
    """The job and the data. A single argument is the data, unless it is a job name and not JSON."""
    first, second = arguments.job, arguments.data
    if second is not None:
        return first, _json(second)
    if first is None:
        raise InvalidInput("data", "is required, as in `octostore checkpoint '{\"step\": 3}'`; - reads it from stdin")
    if can_report_for(None) or not _is_job(first):
        return None, _json(first)
    return first, _json("-")


def _is_job(text: str) -> bool:
    """A number could also name a job, but on its own it is data."""
    if text.startswith(("-", "@")):
        return False
    try:
        check_job_id("job", text)
        json_value(text)
    except InvalidInput:
        return False
    except argparse.ArgumentTypeError:
        return True
    return False


def _json(text: str) -> Any:
    try:
        return json_value(text)
    except argparse.ArgumentTypeError as error:
        raise InvalidInput("data", f"cannot be used: {error}") from None
