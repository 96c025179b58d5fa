"""Show others what you are doing. Works inside a command started by `run` or `work`."""

import argparse

from octostore.cli.command import Arguments, Context
from octostore.cli.options import number
from octostore.supervise.report import Report, send_report

EXAMPLES = ["octostore progress 'running tests' --percent 40"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("note", metavar="TEXT", nargs="?", help="what you are doing")
    parser.add_argument("--percent", type=number, metavar="N", help="how far along you are, 0 to 100")


def run(arguments: Arguments, context: Context) -> None:
    send_report(Report(note=arguments.note, percent=arguments.percent))
    if context.console.is_json:
        context.console.answer({"note": arguments.note, "percent": arguments.percent})
