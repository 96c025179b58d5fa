"""Run a command as the sole owner of a job.

`run` claims the job before the command starts, renews the lease while it runs, and releases the job when the command
and everything it started have ended. The command gets OCTOSTORE_JOB, OCTOSTORE_FENCING_TOKEN, OCTOSTORE_ATTEMPT,
OCTOSTORE_CHECKPOINT_FILE, OCTOSTORE_PREVIOUS (the last owner and how its claim ended, as JSON) and, if the job has a
trace, TRACEPARENT. It can call `octostore progress` and `octostore checkpoint`. It does not get OCTOSTORE_TOKEN: if it
runs other octostore commands, put the token in a file and set OCTOSTORE_TOKEN_FILE.

`run` exits with the command's exit code (128 plus the signal number if a signal killed it), 11 if another owner holds
the job, or 10 if the job is done. If the lease cannot be renewed, the command and everything it started are stopped
before anyone else can claim the job, and the exit code is 20.

`run` passes the signals it gets (HUP, INT, QUIT, TERM, USR1, USR2) on to the command and waits until it ends, however
long that takes. --stop-signal and --stop-grace apply if `run` itself stops the command or what it left running: at
--max-run, with --on-silence stop or --stop-rest, at an operator's request, or before the lease expires.
"""

import argparse

from octostore.cli import exit_codes
from octostore.cli.command_options import add_command_options, notifier, stop_policy
from octostore.cli.completers import job_names
from octostore.cli.console import Console
from octostore.cli.failures import print_failure
from octostore.cli.options import exit_status, json_value, seconds
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.client.signals import SIGNALLED
from octostore.core.errors import AlreadyDone, Conflict, Held
from octostore.supervise.run import CommandNotRunnable, Interrupted, RunOptions, RunResult
from octostore.supervise.run import run as run_command

EXAMPLES = [
    "octostore run nightly-report -- ./report.sh",
    "octostore run deploy --wait 30m -- make deploy",
    "octostore run migrate-2026-11 --once -- ./migrate.sh    # never again once it has succeeded",
    "octostore run backup --on-held skip --min-hold 1m -- ./backup.sh    # for cron on several machines",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "octostore run JOB [options] -- COMMAND …"
    set_completer(parser.add_argument("job", metavar="JOB", help="job name"), job_names)
    add = parser.add_argument
    add("--metadata", type=json_value, metavar="JSON", help="anything others should see; @FILE also works")
    add(
        "--wait",
        type=seconds,
        default=0,
        metavar="S",
        help="how long to wait for the job, once the store can be reached (default: 0)",
    )
    add(
        "--no-wait",
        dest="wait",
        action="store_const",
        const=0,
        help="do not wait if another owner holds the job",
    )
    add(
        "--on-held",
        choices=["fail", "skip"],
        default="fail",
        help="if another owner holds the job: fail with exit code 11, or skip with 0 (default: fail)",
    )
    add(
        "--held-exit",
        type=exit_status,
        metavar="N",
        help="exit code if another owner holds the job, instead of 11 or 0",
    )
    add("--once", action="store_true", help="mark the job as done on success; later runs exit 10")
    add("--done-exit", type=exit_status, metavar="N", help="exit code if the job is already done, instead of 10")
    add(
        "--min-hold",
        type=seconds,
        default=0,
        metavar="S",
        help="hold the job for at least this long, for cron on machines with skewed clocks (default: 0)",
    )
    add(
        "--on-unreachable",
        choices=["fail", "wait"],
        default="fail",
        help="if the store cannot be reached: fail with exit code 69, or wait without limit, whatever --wait says, and "
        "keep trying (default: fail)",
    )
    add_command_options(parser)


def run(arguments: Arguments, context: Context) -> int:
    options = RunOptions(
        job_id=arguments.job,
        command=arguments.command_line,
        ttl=arguments.ttl,
        max_silence=arguments.max_silence,
        owner=arguments.owner,
        metadata=arguments.metadata,
        wait=arguments.wait,
        once=arguments.once,
        on_unreachable=arguments.on_unreachable,
        min_hold=arguments.min_hold,
        policy=stop_policy(arguments),
        stop_signal=arguments.stop_signal,
        keep_stderr=not arguments.no_stderr,
        is_server=context.address.is_server,
    )
    console = context.console
    try:
        ran = run_command(context.address.open, options, notifier(arguments, console))
    except AlreadyDone as done:
        return _done(done, arguments, context)
    except Held as held:
        return _held(held, arguments, context)
    except Conflict as conflict:
        if conflict.status == "delayed":
            return _held(conflict, arguments, context)
        raise
    except CommandNotRunnable as problem:
        console.print_message(str(problem))
        return problem.code
    except Interrupted as interrupted:
        return SIGNALLED + interrupted.number
    return _exit_code(ran, options, console)


def _held(error: Held | Conflict, arguments: Arguments, context: Context) -> int:
    code = exit_codes.SUCCESS if arguments.on_held == "skip" else exit_codes.HELD
    if arguments.held_exit is not None:
        code = arguments.held_exit
    if context.console.is_json or not (arguments.quiet or arguments.on_held == "skip"):
        print_failure(error, context)
    return code


def _done(error: AlreadyDone, arguments: Arguments, context: Context) -> int:
    if context.console.is_json or not arguments.quiet:
        print_failure(error, context)
    return exit_codes.NOTHING_TO_DO if arguments.done_exit is None else int(arguments.done_exit)


def _exit_code(ran: RunResult, options: RunOptions, console: Console) -> int:
    if console.is_json:
        console.print_result(ran)
    if ran.is_lost:
        console.print_message(f"stopped the command because {ran.why}")
        return exit_codes.LOST
    if options.once and ran.exit_code == 0 and ran.outcome is None:
        console.print_message(f"the command succeeded, but {ran.job_id} could not be marked as done")
        return exit_codes.UNREACHABLE
    return ran.exit_code
