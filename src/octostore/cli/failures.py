"""Report errors: what happened, in which store, and what to do next."""

import os
import re
import traceback
from contextlib import suppress

from octostore.cli import exit_codes, words
from octostore.cli.console import Console, print_stderr
from octostore.cli.job_names import find_similar
from octostore.cli.next_steps import next_step
from octostore.cli.parser import PROGRAM, UsageError
from octostore.cli.subcommands import Context
from octostore.core.errors import Conflict, InvalidInput, LeaseLost, NotAllowed, NotFound, OctoStoreError, Unreachable
from octostore.core.similar import did_you_mean
from octostore.supervise.report import SOCKET_VARIABLE
from octostore.wire.errors import ERRORS
from octostore.wire.failures import Failure, failure_from_error

DEBUG_VARIABLE = "OCTOSTORE_DEBUG"
INSIDE_RUN = (
    "`run` and `work` do not pass OCTOSTORE_TOKEN on to their commands; put the token in a file and set "
    "OCTOSTORE_TOKEN_FILE"
)
_ABOUT = re.compile(r"argument (?:--)?([\w-]+)[^:]*: ")
"""How argparse starts a message about one argument."""


def print_failure(error: OctoStoreError, context: Context) -> int:
    similar = _similar(error, context)
    if context.console.is_json:
        failure = failure_from_error(error)
        failure.similar = similar or None
        if isinstance(error, Unreachable) and error.reason != "address":
            failure.details = next_step(error, context.address)
        context.console.print_result(failure)
    context.console.print_message(str(error))
    if similar:
        context.console.print_message(f"  {did_you_mean(similar)}")
    for label, text in _advice(error, context):
        context.console.print_message(f"  {label:<6}{text}")
    return exit_code_of(error)


def _similar(error: OctoStoreError, context: Context) -> list[str] | None:
    """If the error is about a name that nobody has used, similar names."""
    if isinstance(error, LeaseLost) and (error.ended is not None or error.holder is not None):
        return None
    if isinstance(error, NotFound | LeaseLost) and error.job_id is not None:
        with suppress(OctoStoreError), context.address.open_reader() as store:
            return find_similar(store, error.job_id)
    return None


def exit_code_of(error: OctoStoreError) -> int:
    if type(error) is Conflict:
        # A held or delayed job is unavailable now; any other state is the caller's mistake.
        return exit_codes.CLAIMS.get(
            {"claimed": "held"}.get(error.status or "", error.status or ""), exit_codes.BAD_INPUT
        )
    return ERRORS[error.code].exit_code if error.code in ERRORS else exit_codes.INTERNAL_ERROR


def print_usage_error(problem: UsageError, console: Console) -> int:
    if console.is_json:
        about = _ABOUT.match(str(problem))
        field = about.group(1).replace("-", "_").lower() if about else None
        console.print_result(
            Failure(error=str(problem), code=InvalidInput.code, details=ERRORS[InvalidInput.code].advice, field=field)
        )
    print_stderr(*problem.usage.splitlines(), f"{PROGRAM}: {problem}", f"(see `{problem.program} --help`)")
    return exit_codes.BAD_INPUT


def print_internal_error(fault: Exception, console: Console) -> int:
    problem = f"internal error: {type(fault).__name__}: {fault}"
    how = f"please report this, with the traceback that {DEBUG_VARIABLE}=1 prints"
    if console.is_json:
        console.print_result(Failure(error=problem, code="internal_error", details=how))
    console.print_message(problem)
    if os.environ.get(DEBUG_VARIABLE):
        print_stderr(*"".join(traceback.format_exception(fault)).splitlines())
    else:
        console.print_message(f"  next  {how}")
    return exit_codes.INTERNAL_ERROR


def _advice(error: OctoStoreError, context: Context) -> list[tuple[str, str]]:
    address = context.address
    where = ("store", address.with_source)
    if isinstance(error, Unreachable) and error.reason == "address":
        return []  # `serve` could not listen, and has said what to do
    if isinstance(error, Unreachable):
        return [where, ("next", next_step(error, address))]
    if isinstance(error, NotAllowed):
        return [
            where,
            ("next", "use a token that may do this (OCTOSTORE_TOKEN or OCTOSTORE_TOKEN_FILE), or ask an operator"),
        ]
    if isinstance(error, LeaseLost) and error.ended is not None and error.ended.note:
        return [("note", words.one_line(error.ended.note))]
    if isinstance(error, InvalidInput) and error.field in {"url", "token"}:
        is_inside = error.field == "token" and os.environ.get(SOCKET_VARIABLE)
        return [where, ("next", INSIDE_RUN)] if is_inside else [where]
    return []
