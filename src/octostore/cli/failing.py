"""Errors for people: what happened, where, and what to do next."""

import os
import traceback

from octostore.cli import exits
from octostore.cli.command import Context
from octostore.core.errors import InvalidInput, NotAllowed, OctoStoreError, Unreachable
from octostore.wire.failures import failure_of

DEBUG_VARIABLE = "OCTOSTORE_DEBUG"


def tell_failure(error: OctoStoreError, context: Context) -> int:
    if context.console.is_json:
        context.console.answer(failure_of(error))
    context.console.remark(str(error))
    for label, text in _advice(error, context):
        context.console.remark(f"  {label:<6}{text}")
    return exits.exit_code_of(error)


def tell_our_fault(fault: Exception, context: Context) -> int:
    context.console.remark(f"this is a fault of ours: {type(fault).__name__}: {fault}")
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(fault)
    else:
        context.console.remark(f"  next  report it, please, with what {DEBUG_VARIABLE}=1 adds to this")
    return exits.OUR_FAULT


def _advice(error: OctoStoreError, context: Context) -> list[tuple[str, str]]:
    place = context.place
    where = ("store", f"{place}, from {place.setting}")
    if isinstance(error, Unreachable):
        return [where, ("next", _how_to_reach(error, context))]
    if isinstance(error, NotAllowed):
        return [
            where,
            ("next", "use a token that may do this (OCTOSTORE_TOKEN or OCTOSTORE_TOKEN_FILE), or ask an operator"),
        ]
    if isinstance(error, InvalidInput) and error.field in {"url", "token"}:
        return [where]
    return []


def _how_to_reach(error: Unreachable, context: Context) -> str:
    if error.reason == "busy":
        return "try again; `octostore doctor` tells whether something keeps the file locked"
    if context.place.is_server and error.reason == "network":
        return "see whether the server runs (`octostore serve` starts one), and whether that URL is right"
    return "`octostore doctor` looks for what is wrong"
