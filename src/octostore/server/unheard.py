"""Clients that we let wait: nothing is read from them, and so only the system knows when they leave."""

import asyncio
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octostore.server.protocol import Connection

LEFT = getattr(select, "POLLRDHUP", 0)
"""That the other side will say no more. Where this is not known, only those are noticed who are gone altogether."""


def has_left(transport: asyncio.Transport) -> bool:
    number = _number_of(transport)
    if number is None:
        return False
    poll = select.poll()
    poll.register(number, LEFT)
    return bool(poll.poll(0))


class Unheard:
    """All of them. They are looked at together, and now and then."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._numbers: dict[Connection, int] = {}
        self._connections: dict[int, Connection] = {}

    def add(self, connection: "Connection", transport: asyncio.Transport) -> None:
        number = _number_of(transport)
        if number is not None:
            self._poll.register(number, LEFT)
            self._numbers[connection] = number
            self._connections[number] = connection

    def discard(self, connection: "Connection") -> None:
        number = self._numbers.pop(connection, None)
        if number is not None and self._connections[number] is connection:  # the system gives a number again
            self._poll.unregister(number)
            del self._connections[number]

    def who_left(self) -> "list[Connection]":
        return [self._connections[number] for number, _ in self._poll.poll(0)] if self._connections else []


def _number_of(transport: asyncio.Transport) -> int | None:
    """By which the system knows it."""
    connection = transport.get_extra_info("socket")
    return None if connection is None else connection.fileno()
