"""Leave what a successor needs to go on from here: JSON of up to 64 KiB, of which the last one counts.

Works inside a command that `run` or `work` has started. Whoever has the job next finds it in the file that
OCTOSTORE_CHECKPOINT_FILE names, which is missing where nobody has left one.
"""

import argparse

import msgspec

from octostore.cli.command import Arguments, Context
from octostore.cli.options import json_value
from octostore.core.encoding import encode_any
from octostore.supervise.report import Report, send_report

EXAMPLES = ["octostore checkpoint '{\"step\": 3}'", "jq '{step: .step}' state.json | octostore checkpoint -"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="JSON", type=json_value, help="as it stands there, @FILE, or - for stdin")


def run(arguments: Arguments, context: Context) -> None:
    send_report(Report(checkpoint=msgspec.Raw(encode_any("checkpoint", arguments.data))))
    if context.console.is_json:
        context.console.answer({"checkpoint": arguments.data})
