"""What the guardian and the process that holds the claim tell each other: lines of JSON over a socket pair.

Moments are those of `boottime`, which all processes of a machine share.
"""

import os
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from octostore.supervise.lease import Lease


class _Message(msgspec.Struct, frozen=True, tag_field="is", tag=str.lower):
    pass


class Start(_Message, frozen=True):
    """Start the command, with the three descriptors that come along as its standard streams."""

    turn: int
    environment: bytes
    """See `pack_environment`."""
    lease: Lease
    in_foreground: bool = False


class Renew(_Message, frozen=True):
    """The lease lasts longer. One that is about an earlier turn is late, and means nothing."""

    turn: int
    lease: Lease


class Send(_Message, frozen=True):
    """Pass a signal on to the command and its group."""

    number: int


class Stop(_Message, frozen=True):
    """End the command and all that it has started: the stop signal now, KILL after `grace` seconds."""

    grace: float


class Ready(_Message, frozen=True):
    """How late an ordinary process gets its turn on this machine, and how late the guardian does. In seconds."""

    ordinary: float
    own: float


class Started(_Message, frozen=True):
    pid: int


class NotStarted(_Message, frozen=True):
    errno: int


class Paused(_Message, frozen=True):
    """The command was stopped by a signal, such as that of Ctrl-Z; it may go on."""

    number: int


class LeaseOver(_Message, frozen=True):
    """Its end is near and nobody renewed it, so the command is being stopped."""


class Ended(_Message, frozen=True):
    """The command itself has ended; what it has started may go on. `code` as Python has it: -9 for a KILL."""

    code: int


class Gone(_Message, frozen=True):
    """Nothing that the command has started is left."""


Order: TypeAlias = Start | Renew | Send | Stop
News: TypeAlias = Ready | Started | NotStarted | Paused | LeaseOver | Ended | Gone


def pack_environment(environment: Mapping[str, str]) -> bytes:
    """As the system keeps it: variables need not be UTF-8, and JSON would have to be."""
    return b"\0".join(os.fsencode(f"{name}={value}") for name, value in environment.items())


def unpack_environment(packed: bytes) -> dict[bytes, bytes]:
    pairs = (variable.partition(b"=") for variable in packed.split(b"\0"))
    return {name: value for name, _, value in pairs}


encode = msgspec.json.Encoder().encode
read_order = msgspec.json.Decoder(Order).decode
read_news = msgspec.json.Decoder(News).decode
