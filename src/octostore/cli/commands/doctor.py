"""Check a setup for problems and say how to fix them.

Like any command that opens the store, it upgrades a store of an earlier version. Otherwise it changes nothing.

It checks versions, which store is used and why, whether the store can be written to, its clock, the token, disk space,
permissions, and what `octostore run` needs. The exit code is 0 if all is well, else that of the worst problem.
"""

import argparse

from octostore.cli.checks import Check, run_checks
from octostore.cli.console import Console
from octostore.cli.subcommands import Arguments, Context

EXAMPLES = ["octostore doctor", "octostore doctor --url https://locks.example.org --json"]
COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def configure(_parser: argparse.ArgumentParser) -> None:
    pass


def run(_arguments: Arguments, context: Context) -> int:
    checks = list(run_checks(context.address))
    context.console.print_result(
        {"checks": checks}, *(line for check in checks for line in _lines(check, context.console))
    )
    return max(check.exit_code for check in checks)


def _lines(check: Check, console: Console) -> list[str]:
    status = console.style(f"{check.status:<8}", COLOURS[check.status])
    lines = [f"{status} {check.name:<12}{check.finding}"]
    if check.advice:
        lines.append(f"{'':<21}{console.style('→ ' + check.advice, 'bold')}")
    return lines
