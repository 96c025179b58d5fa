"""How many connections may be open, in all and from one address."""

import logging
import resource
from collections import Counter
from typing import NamedTuple

from octostore.server.addresses import UNIX, Proxies, client_network
from octostore.server.guard import is_loopback
from octostore.server.log import log_event, throttled
from octostore.server.refusals import Refusal, too_many_connections, too_many_from_address

BACKLOG = 2_048
RESERVED_FILES = 128
"""What the server itself may have open: the store, once for each thread, and what every process has."""
DEFAULT_PER_ADDRESS = 1_000


class Room(NamedTuple):
    """How many connections may be open, and how many more may wait to be accepted."""

    connections: int
    backlog: int


def capacity_within(files: int, wanted: int) -> Room:
    """Leaves the store the files that it needs, also while connections are accepted only to be refused."""
    backlog = min(BACKLOG, max(1, files // 8))
    return Room(max(1, min(wanted, files - RESERVED_FILES - backlog)), backlog)


def raise_file_limit(wanted: int) -> Room:
    """Raise the limit of open files to what `wanted` connections need, or as far as the system allows."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED_FILES + BACKLOG
    if files == resource.RLIM_INFINITY or files >= needed:
        return Room(wanted, BACKLOG)
    files = needed if most == resource.RLIM_INFINITY else min(needed, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    room = capacity_within(files, wanted)
    if room.connections < wanted:
        message = (
            f"{room.connections} connections at once instead of {wanted} (--max-connections), because this process may "
            f"open only {files} files: raise that to {needed}, with `ulimit -n` or systemd's LimitNOFILE="
        )
        log_event(logging.WARNING, "few_files", message, connections=room.connections, files=files)
    return room


class ConnectionLimits:
    """Counts who is inside. `of_one` is the limit for one address, unless it is that of a trusted proxy.

    By default other machines have a limit, and this one has none: here, everybody has the same address.
    """

    def __init__(self, most: int, of_one: int | None, proxies: Proxies) -> None:
        self._most = most
        self._of_one = of_one
        self._proxies = proxies
        self._inside = 0
        self._from: Counter[str] = Counter()

    def enter(self, address: str) -> tuple[str, Refusal | None]:
        """What it is counted by, for `leave`, and the refusal if there is no room for it."""
        origin = client_network(address)
        self._inside += 1
        self._from[origin] += 1
        if self._inside > self._most:
            message = "new connections are refused: the limit is reached (--max-connections)"
            throttled.warning("connection_refused", message, address=address, limit=self._most)
            return origin, too_many_connections()
        most = self._most_of(address)
        if most is not None and self._from[origin] > most:
            message = (
                "new connections from one address are refused: its limit is reached (--max-connections-per-address)"
            )
            throttled.warning("address_refused", message, address=origin, limit=most)
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
        return self._of_one or (None if is_loopback(address) else DEFAULT_PER_ADDRESS)
