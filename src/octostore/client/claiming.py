"""Claiming, with the caller's request id or with one that was generated for the call."""

import math
from collections.abc import Callable
from copy import copy
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from octostore.client.port import AsyncPort, Port
from octostore.core.commands import Command, R_co
from octostore.core.errors import LeaseLost
from octostore.core.limits import WAIT_MAX_SECONDS, check_range
from octostore.core.model import Outcome
from octostore.core.replies import ClaimReply
from octostore.stores.clock import boottime
from octostore.stores.ids import new_request_id

C = TypeVar("C", bound=Command[Any])


class ClaimCall(NamedTuple, Generic[R_co]):
    command: Command[R_co]
    wait: float
    is_generated: bool
    """Whether only this call knows the request id.

    If so, and its claim ended before any reply arrived, nobody knew of that claim, and the job is claimed again.
    """


class HoldCall(NamedTuple):
    """A claim to hold, how to settle it, and what to call if it is lost."""

    claim: ClaimCall[ClaimReply]
    ttl: float
    outcome: Outcome
    on_lost: Callable[[], None] | None


def check_wait(wait: float | None) -> float:
    """The seconds to wait; None means forever."""
    if wait is None:
        return math.inf
    check_range("wait", wait, 0, WAIT_MAX_SECONDS, " seconds")
    return wait


def claim(port: Port, command: Command[R_co], wait: float, is_generated: bool) -> R_co:
    until = boottime() + wait
    try:
        return port.execute(command, wait)
    except LeaseLost:
        if not is_generated:
            raise
    return port.execute(with_new_request_id(command), max(0.0, until - boottime()))


async def claim_async(port: AsyncPort, command: Command[R_co], wait: float, is_generated: bool) -> R_co:
    until = boottime() + wait
    try:
        return await port.execute(command, wait)
    except LeaseLost:
        if not is_generated:
            raise
    return await port.execute(with_new_request_id(command), max(0.0, until - boottime()))


def with_new_request_id(claim: C) -> C:
    """A copy for another call. Its other fields have been checked already."""
    fresh = copy(claim)
    msgspec.structs.force_setattr(fresh, "request_id", new_request_id())
    return fresh
