"""Messages between the guardian and the process that holds the claim: lines of JSON over a socket pair.

Times are on the `boottime` clock, which all processes on a machine share.
"""

import os
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from octostore.supervise.lease import Lease


class _Message(msgspec.Struct, frozen=True, tag_field="is", tag=str.lower):
    pass


class Start(_Message, frozen=True):
    """Start the command. Three descriptors come with the message: its standard streams."""

    run_number: int
    environment: bytes
    """See `pack_environment`."""
    lease: Lease
    in_foreground: bool = False


class Renew(_Message, frozen=True):
    """The lease was renewed. Ignored if it is for an earlier run."""

    run_number: int
    lease: Lease


class Send(_Message, frozen=True):
    """Send a signal to the command's process group."""

    number: int


class Stop(_Message, frozen=True):
    """Stop the command and everything it started: the stop signal now, KILL after `grace` seconds."""

    grace: float


class Ready(_Message, frozen=True):
    """How late this machine schedules an ordinary process, and the guardian. In seconds."""

    ordinary: float
    own: float


class Started(_Message, frozen=True):
    pid: int


class NotStarted(_Message, frozen=True):
    errno: int


class Paused(_Message, frozen=True):
    """A signal suspended the command, for example Ctrl-Z's; it can be continued."""

    number: int


class LeaseOver(_Message, frozen=True):
    """The lease is about to end without a renewal, so the command is being stopped."""


class Ended(_Message, frozen=True):
    """The command ended; processes it started may still run. `code` is Python's: -9 for a KILL."""

    code: int


class Gone(_Message, frozen=True):
    """Nothing the command started is left."""


Order: TypeAlias = Start | Renew | Send | Stop
Update: TypeAlias = Ready | Started | NotStarted | Paused | LeaseOver | Ended | Gone


def pack_environment(environment: Mapping[str, str]) -> bytes:
    """In the system's own format: variables need not be UTF-8, and JSON strings must."""
    return b"\0".join(os.fsencode(f"{name}={value}") for name, value in environment.items())


def unpack_environment(packed: bytes) -> dict[bytes, bytes]:
    pairs = (variable.partition(b"=") for variable in packed.split(b"\0"))
    return {name: value for name, _, value in pairs}


encode = msgspec.json.Encoder().encode
decode_order = msgspec.json.Decoder(Order).decode
decode_update = msgspec.json.Decoder(Update).decode
