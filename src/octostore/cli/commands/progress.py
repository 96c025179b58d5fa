"""Say what is being done, for others to see. Works inside a command that `run` or `work` has started."""

import argparse

from octostore.cli.command import Arguments, Context
from octostore.cli.options import number
from octostore.supervise.report import Report, send_report

EXAMPLES = ["octostore progress 'running tests' --percent 40"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("note", metavar="TEXT", nargs="?", help="what you are doing")
    parser.add_argument("--percent", type=number, metavar="N", help="how far you are, from 0 to 100")


def run(arguments: Arguments, context: Context) -> None:
    send_report(Report(note=arguments.note, percent=arguments.percent))
    if context.console.is_json:
        context.console.answer({"note": arguments.note, "percent": arguments.percent})
