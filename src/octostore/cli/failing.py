"""Errors for people: what happened, where, and what to do next."""

import os
import re
import traceback
from contextlib import suppress

from octostore.cli import exits, words
from octostore.cli.command import Context
from octostore.cli.console import Console, complain
from octostore.cli.naming import find_similar
from octostore.cli.parser import PROGRAM, Misunderstood
from octostore.cli.reaching import next_step
from octostore.core.errors import Conflict, InvalidInput, LeaseLost, NotAllowed, NotFound, OctoStoreError, Unreachable
from octostore.core.similar import did_you_mean
from octostore.wire.errors import ERRORS
from octostore.wire.failures import Failure, failure_from_error

DEBUG_VARIABLE = "OCTOSTORE_DEBUG"
_ABOUT = re.compile(r"argument (?:--)?([\w-]+)[^:]*: ")
"""How argparse begins what it says about one argument."""


def tell_failure(error: OctoStoreError, context: Context) -> int:
    similar = _similar(error, context)
    if context.console.is_json:
        failure = failure_from_error(error)
        failure.similar = similar or None
        context.console.answer(failure)
    context.console.remark(str(error))
    if similar:
        context.console.remark(f"  {did_you_mean(similar)}")
    for label, text in _advice(error, context):
        context.console.remark(f"  {label:<6}{text}")
    return exit_code_of(error)


def _similar(error: OctoStoreError, context: Context) -> list[str] | None:
    """If it is about a name that nobody has used, which ones may have been meant."""
    if isinstance(error, LeaseLost) and (error.ended is not None or error.holder is not None):
        return None
    if isinstance(error, NotFound | LeaseLost) and error.job_id is not None:
        with suppress(OctoStoreError), context.place.look() as store:
            return find_similar(store, error.job_id)
    return None


def exit_code_of(error: OctoStoreError) -> int:
    if type(error) is Conflict:
        # A job that somebody has, or that waits for its time, is not to be had now; any other state is the caller's
        # mistake.
        return exits.CLAIMS.get({"claimed": "held"}.get(error.status or "", error.status or ""), exits.BAD_INPUT)
    return ERRORS[error.code].exit_code if error.code in ERRORS else exits.OUR_FAULT


def tell_misunderstood(problem: Misunderstood, console: Console) -> int:
    if console.is_json:
        about = _ABOUT.match(str(problem))
        field = about.group(1).replace("-", "_").lower() if about else None
        console.answer(
            Failure(error=str(problem), code=InvalidInput.code, details=ERRORS[InvalidInput.code].advice, field=field)
        )
    complain(*problem.usage.splitlines(), f"{PROGRAM}: {problem}", f"(see `{problem.program} --help`)")
    return exits.BAD_INPUT


def tell_our_fault(fault: Exception, console: Console) -> int:
    problem = f"internal error: {type(fault).__name__}: {fault}"
    how = f"please report this, with the traceback that {DEBUG_VARIABLE}=1 prints"
    if console.is_json:
        console.answer(Failure(error=problem, code="internal_error", details=how))
    console.remark(problem)
    if os.environ.get(DEBUG_VARIABLE):
        complain(*"".join(traceback.format_exception(fault)).splitlines())
    else:
        console.remark(f"  next  {how}")
    return exits.OUR_FAULT


def _advice(error: OctoStoreError, context: Context) -> list[tuple[str, str]]:
    place = context.place
    where = ("store", f"{place}, from {place.setting}")
    if isinstance(error, Unreachable) and error.reason == "address":
        return []  # of a server that is to be, which has said what to do
    if isinstance(error, Unreachable):
        return [where, ("next", next_step(error, place))]
    if isinstance(error, NotAllowed):
        return [
            where,
            ("next", "use a token that may do this (OCTOSTORE_TOKEN or OCTOSTORE_TOKEN_FILE), or ask an operator"),
        ]
    if isinstance(error, LeaseLost) and error.ended is not None and error.ended.note:
        return [("note", words.gist(error.ended.note))]
    if isinstance(error, InvalidInput) and error.field in {"url", "token"}:
        return [where]
    return []
