"""How many connections there may be, in all and from one address."""

import logging
import resource
from collections import Counter
from typing import NamedTuple

from octostore.server.addresses import UNIX, Proxies, network_of
from octostore.server.guard import is_loopback
from octostore.server.log import seldom, tell
from octostore.server.refusals import Refusal, too_many_connections, too_many_from_address

BACKLOG = 2_048
OWN_FILES = 128
"""What the server itself may have open: the store, once for each thread, and what any process has."""
USUAL_OF_ONE = 1_000


class Room(NamedTuple):
    """How many connections may be open, and how many may come before anybody looks."""

    connections: int
    backlog: int


def room_among(files: int, wanted: int) -> Room:
    """So that connections never take the files that the store needs, and neither do those that are to be refused."""
    backlog = min(BACKLOG, max(1, files // 8))
    return Room(max(1, min(wanted, files - OWN_FILES - backlog)), backlog)


def make_room(wanted: int) -> Room:
    """Let this process open as many files as it needs for `wanted` connections, or as many as it may."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OWN_FILES + BACKLOG
    if files == resource.RLIM_INFINITY or files >= needed:
        return Room(wanted, BACKLOG)
    files = needed if most == resource.RLIM_INFINITY else min(needed, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    room = room_among(files, wanted)
    if room.connections < wanted:
        message = (
            f"{room.connections} connections at once instead of {wanted} (--max-connections), because this process may "
            f"open only {files} files: raise that to {needed}, with `ulimit -n` or systemd's LimitNOFILE="
        )
        tell(logging.WARNING, "few_files", message, connections=room.connections, files=files)
    return room


class Door:
    """Counts who is inside. `of_one` is how many of one address may be, unless it is that of a trusted proxy.

    By default that is a number for every other machine, and none for this one, where everybody has the same address.
    """

    def __init__(self, most: int, of_one: int | None, proxies: Proxies) -> None:
        self._most = most
        self._of_one = of_one
        self._proxies = proxies
        self._inside = 0
        self._from: Counter[str] = Counter()

    def enter(self, address: str) -> tuple[str, Refusal | None]:
        """Where it counts to, for `leave`, and why it must go again."""
        origin = network_of(address)
        self._inside += 1
        self._from[origin] += 1
        if self._inside > self._most:
            message = "connections are refused: as many are open as may be (--max-connections)"
            seldom.warning("connection_refused", message, address=address, limit=self._most)
            return origin, too_many_connections()
        most = self._most_of(address)
        if most is not None and self._from[origin] > most:
            message = (
                "connections from an address are refused: it has as many as one may (--max-connections-per-address)"
            )
            seldom.warning("address_refused", message, address=origin, limit=most)
            return origin, too_many_from_address(most)
        return origin, None

    def leave(self, origin: str) -> None:
        self._inside -= 1
        self._from[origin] -= 1
        if not self._from[origin]:
            del self._from[origin]

    def _most_of(self, address: str) -> int | None:
        if address == UNIX or self._proxies.trusts(address):
            return None
        return self._of_one or (None if is_loopback(address) else USUAL_OF_ONE)
