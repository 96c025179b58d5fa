"""Save what the next owner needs to continue from here: up to 64 KiB of JSON. A new checkpoint replaces the last one.

Works inside a command started by `run` or `work`. The next owner finds the checkpoint in the file named by
OCTOSTORE_CHECKPOINT_FILE; without a checkpoint, there is no such file.
"""

import argparse

import msgspec

from octostore.cli.command import Arguments, Context
from octostore.cli.options import json_value
from octostore.core.encoding import encode_any
from octostore.supervise.report import Report, send_report

EXAMPLES = ["octostore checkpoint '{\"step\": 3}'", "jq '{step: .step}' state.json | octostore checkpoint -"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="JSON", type=json_value, help="the JSON itself, @FILE, or - for stdin")


def run(arguments: Arguments, context: Context) -> None:
    send_report(Report(checkpoint=msgspec.Raw(encode_any("checkpoint", arguments.data))))
    if context.console.is_json:
        context.console.answer({"checkpoint": arguments.data})
