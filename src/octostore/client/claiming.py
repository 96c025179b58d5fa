"""Claiming, by a request id of the caller's or by one that was drawn for this call."""

import msgspec

from octostore.client.port import AsyncPort, Port
from octostore.core.commands import Command, R_co
from octostore.core.errors import LeaseLost
from octostore.stores.ids import new_request_id


def claim(port: Port, command: Command[R_co], wait: float = 0, *, is_drawn: bool) -> R_co:
    """`is_drawn`: nobody but this call knows the request id.

    Then a claim that an earlier attempt made and that has ended since, because the answers to it got lost for so long,
    was nobody's; and it is claimed anew.
    """
    try:
        return port.execute(command, wait)
    except LeaseLost:
        if not is_drawn:
            raise
    return port.execute(_with_fresh_id(command), wait)


async def claim_async(port: AsyncPort, command: Command[R_co], wait: float = 0, *, is_drawn: bool) -> R_co:
    """The same, awaited."""
    try:
        return await port.execute(command, wait)
    except LeaseLost:
        if not is_drawn:
            raise
    return await port.execute(_with_fresh_id(command), wait)


def _with_fresh_id(command: Command[R_co]) -> Command[R_co]:
    return msgspec.structs.replace(command, request_id=new_request_id())
