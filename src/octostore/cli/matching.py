"""Operator commands on named jobs, or on all dead jobs that match."""

import argparse
from collections.abc import Callable

from octostore.cli import exit_codes
from octostore.cli.operating import add_operator_options, operate
from octostore.cli.progress_bar import ProgressBar
from octostore.cli.subcommands import Arguments, Context
from octostore.client.store import OctoStore
from octostore.core.errors import InvalidInput
from octostore.core.replies import ChangedReply, JobView

_FILTERS = ("queue", "prefix", "kind")


def add_matching_options(parser: argparse.ArgumentParser) -> None:
    add_operator_options(parser, can_be_all=True)
    parser.add_argument(
        "--all", action="store_true", help="every dead job that matches, cancelled ones included; needs --reason"
    )
    parser.add_argument("--queue", metavar="Q", help="with --all: only jobs of this queue")
    parser.add_argument("--prefix", metavar="PREFIX", help="with --all: only jobs whose names begin with this")
    parser.add_argument("--kind", metavar="KIND", help="with --all: only jobs of this kind")


def operate_on_matching(
    arguments: Arguments,
    context: Context,
    change_one: Callable[[OctoStore, str], JobView],
    change_all: Callable[..., int],
    changed: str,
) -> int:
    """`change_all` takes the store, the filters and `on_batch`; `changed` is the past participle for messages."""
    _check(arguments)
    if not arguments.all:
        return operate(arguments, context, change_one, changed=changed)
    filters = {name: getattr(arguments, name) for name in _FILTERS if getattr(arguments, name) is not None}
    so_far = 0

    def note(number: int) -> None:
        nonlocal so_far
        so_far = number
        bar.count(number)

    try:
        with context.address.open() as store, ProgressBar(changed) as bar:
            number = change_all(store, **filters, reason=arguments.reason, on_batch=note)
    except BaseException:
        if so_far:
            context.console.print_message(
                f"{changed} {_jobs(so_far)} before stopping; run the command again for the rest"
            )
        raise
    summary = (
        f"{changed} {_jobs(number)} (out of attempts or cancelled)"
        if number
        else f"no dead jobs match; nothing was {changed}"
    )
    context.console.print_result(ChangedReply(changed=number, after=None), summary)
    return exit_codes.SUCCESS


def _jobs(number: int) -> str:
    return "1 dead job" if number == 1 else f"{number:,} dead jobs"


def _check(arguments: Arguments) -> None:
    if not arguments.all:
        given = [name for name in _FILTERS if getattr(arguments, name) is not None]
        if given:
            raise InvalidInput(f"--{given[0]}", "selects from all dead jobs; add --all")
        if not arguments.jobs:
            raise InvalidInput("JOB", "is required: name the jobs, or use --all for every dead job")
    elif arguments.jobs:
        raise InvalidInput("--all", "is for every dead job that matches; leave out the names, or use --prefix")
    elif not arguments.reason:
        raise InvalidInput("--reason", "is required with --all; it is recorded in each job's history")
