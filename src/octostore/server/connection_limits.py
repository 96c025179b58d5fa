"""Limits on open connections: in total and per address."""

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
"""Files the server itself needs: the store, once per thread, and what every process has open."""
DEFAULT_PER_ADDRESS = 1_000


class Capacity(NamedTuple):
    """How many connections may be open, and how many more may wait to be accepted."""

    connections: int
    backlog: int


def capacity_within(files: int, wanted: int) -> Capacity:
    """Reserve the files the store needs, even while connections are accepted only to be refused."""
    backlog = min(BACKLOG, max(1, files // 8))
    return Capacity(max(1, min(wanted, files - RESERVED_FILES - backlog)), backlog)


def raise_file_limit(wanted: int) -> Capacity:
    """Raise the limit on open files to what `wanted` connections need, or as far as the system allows."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED_FILES + BACKLOG
    if files == resource.RLIM_INFINITY or files >= needed:
        return Capacity(wanted, BACKLOG)
    files = needed if most == resource.RLIM_INFINITY else min(needed, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    capacity = capacity_within(files, wanted)
    if capacity.connections < wanted:
        message = (
            f"only {capacity.connections} connections at a time instead of {wanted} (--max-connections), because this "
            f"process may open only {files} files: raise that limit to {needed} with `ulimit -n` or systemd's "
            "LimitNOFILE="
        )
        log_event(logging.WARNING, "few_files", message, connections=capacity.connections, files=files)
    return capacity


class ConnectionLimits:
    """Counts open connections. `per_address` does not apply to trusted proxies.

    By default, only other machines have a limit per address: on this one, everyone has the same address.
    """

    def __init__(self, total: int, per_address: int | None, proxies: Proxies) -> None:
        self._total = total
        self._per_address = per_address
        self._proxies = proxies
        self._open = 0
        self._open_from: Counter[str] = Counter()

    def enter(self, address: str) -> tuple[str, Refusal | None]:
        """Count a connection. Return its key for `leave`, and a refusal if it exceeds a limit."""
        origin = client_network(address)
        self._open += 1
        self._open_from[origin] += 1
        if self._open > self._total:
            message = "refusing new connections: the limit is reached (--max-connections)"
            # No source: the server is full for everyone, and one line for each client would say no more.
            throttled.warning("connection_refused", message, address=address, limit=self._total)
            return origin, too_many_connections()
        limit = self._limit_for(address)
        if limit is not None and self._open_from[origin] > limit:
            message = "refusing new connections from one address: its limit is reached (--max-connections-per-address)"
            throttled.warning("address_refused", message, source=origin, address=origin, limit=limit)
            return origin, too_many_from_address(limit)
        return origin, None

    def leave(self, origin: str) -> None:
        self._open -= 1
        self._open_from[origin] -= 1
        if not self._open_from[origin]:
            del self._open_from[origin]

    def _limit_for(self, address: str) -> int | None:
        if address == UNIX or self._proxies.trusts(address):
            return None
        return self._per_address or (None if is_loopback(address) else DEFAULT_PER_ADDRESS)
