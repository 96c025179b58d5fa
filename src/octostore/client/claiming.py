"""Claiming, by the caller's own request id or by one that was generated for this call."""

from collections.abc import Callable
from copy import copy
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from octostore.client.port import AsyncPort, Port
from octostore.core.commands import Command, R_co
from octostore.core.errors import LeaseLost
from octostore.core.model import Outcome
from octostore.core.replies import ClaimReply
from octostore.stores.clock import boottime
from octostore.stores.ids import new_request_id

C = TypeVar("C", bound=Command[Any])


class ClaimCall(NamedTuple, Generic[R_co]):
    command: Command[R_co]
    wait: float
    is_generated: bool
    """Whether nobody but this call knows the request id.

    Then a claim that an earlier attempt made, and that ended before any answer got through, was nobody's; the job is
    claimed anew.
    """


class HoldCall(NamedTuple):
    """A claim that is to be held, how it is to end, and who is to be told if it is lost."""

    claim: ClaimCall[ClaimReply]
    ttl: float
    outcome: Outcome
    on_lost: Callable[[], None] | None


def claim(port: Port, command: Command[R_co], wait: float, is_generated: bool) -> R_co:
    until = boottime() + wait
    try:
        return port.execute(command, wait)
    except LeaseLost:
        if not is_generated:
            raise
    return port.execute(with_new_request_id(command), max(0.0, until - boottime()))


async def claim_async(port: AsyncPort, command: Command[R_co], wait: float, is_generated: bool) -> R_co:
    """The same, awaited."""
    until = boottime() + wait
    try:
        return await port.execute(command, wait)
    except LeaseLost:
        if not is_generated:
            raise
    return await port.execute(with_new_request_id(command), max(0.0, until - boottime()))


def with_new_request_id(claim: C) -> C:
    """The same claim once more. All else about it has been checked, and need not be again."""
    fresh = copy(claim)
    msgspec.structs.force_setattr(fresh, "request_id", new_request_id())
    return fresh
