"""Run a command for each job in a queue. The command gets the payload on stdin, as JSON; its stdout becomes the result.

The result is JSON if stdout is valid JSON, otherwise text. If the command fails, the job is retried later. If it exits
with 75, the job is deferred and no attempt is used up; use this, for example, when you are out of quota. The first TERM
or Ctrl-C lets running commands finish; the second stops them. Each job is reported on stderr, unless you use --quiet;
with --until-empty or --until-done, only on a terminal. Everything else works as in `octostore run`.
"""

import argparse

from octostore.cli import exit_codes
from octostore.cli.command_options import add_command_options, notifier, stop_policy
from octostore.cli.options import integer_from, positive_integer, seconds
from octostore.cli.subcommands import Arguments, Context
from octostore.supervise.run import CommandNotRunnable
from octostore.supervise.work import WorkOptions, work

EXAMPLES = [
    "octostore work reviews -- ./review.sh",
    "octostore work builds --concurrency 4 --max-run 30m -- python3 build.py",
    "octostore work reviews --until-empty -- ./review.sh    # exit code 10 if there was nothing to do",
    "octostore work reviews --until-done -- ./review.sh    # exit code 0 once every job is done or dead",
]
DEFERRED_EXIT = 75
CONCURRENCY_MAX = 64


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "octostore work QUEUE [options] -- COMMAND …"
    parser.add_argument("queue", metavar="QUEUE", help="queue name")
    add = parser.add_argument
    add("--kind", action="append", metavar="K", help="only jobs of this kind; repeatable")
    add(
        "--concurrency",
        type=integer_from(1, CONCURRENCY_MAX),
        default=1,
        metavar="N",
        help="number of jobs to run at once (default: 1)",
    )
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--until-empty", action="store_true", help="exit when no job can be claimed")
    until.add_argument(
        "--until-done",
        action="store_true",
        help="exit when every job in the queue is done or dead, including those that others hold or that are due later",
    )
    add("--max-jobs", type=positive_integer, metavar="N", help="exit after N jobs, whatever their outcome")
    add(
        "--deferred-exit",
        type=integer_from(1, 255),
        default=DEFERRED_EXIT,
        metavar="N",
        help=f"exit code with which a command defers its job (default: {DEFERRED_EXIT})",
    )
    add("--retry-after", type=seconds, metavar="S", help="how long until a deferred job is retried (default: 60)")
    add_command_options(parser)


def run(arguments: Arguments, context: Context) -> int:
    options = WorkOptions(
        queue=arguments.queue,
        command=arguments.command_line,
        kinds=arguments.kind,
        owner=arguments.owner,
        ttl=arguments.ttl,
        max_silence=arguments.max_silence,
        concurrency=arguments.concurrency,
        until_empty=arguments.until_empty,
        until_done=arguments.until_done,
        max_jobs=arguments.max_jobs,
        deferred_exit=arguments.deferred_exit,
        retry_after=arguments.retry_after,
        policy=stop_policy(arguments),
        stop_signal=arguments.stop_signal,
        keep_stderr=not arguments.no_stderr,
    )
    try:
        handled = work(context.address.open, options, notifier(arguments, context.console))
    except CommandNotRunnable as problem:
        context.console.print_message(str(problem))
        return problem.code
    if context.console.is_json:
        context.console.print_result({"queue": arguments.queue, "handled": handled})
    return exit_codes.SUCCESS if handled or not arguments.until_empty else exit_codes.NOTHING_TO_DO
