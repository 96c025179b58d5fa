"""Whose process listens on an address of this machine, if the system says."""

import sys
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from octostore.client.http.server_url import ServerUrl
from octostore.core.errors import Unreachable

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENING = "0A"
ROOT = 0


def check_listener(server: ServerUrl) -> None:
    """Check whose server this is before sending a token that was found: another user's may have taken the address.

    Call it once connected. Raises `Unreachable`, or `ConnectionError` if nothing is listening there any more.
    """
    if server.left_by is None:
        return
    users = listening_users(server.host, server.port)
    if users is None:
        return
    if not users:
        raise ConnectionAbortedError("nothing is listening there any more")
    others = users - {server.left_by, ROOT}
    if others:
        raise Unreachable(
            f"the server at {server.origin} is not yours: it runs as user {min(others)}, but the token for this "
            f"address belongs to user {server.left_by}. Nothing was sent. If you trust that server, get a token for it "
            "and set OCTOSTORE_TOKEN",
            reason="other_user",
        )


def listening_users(host: str, port: int) -> set[int] | None:
    """The ids of the users whose processes accept connections here; None if the system does not say."""
    listeners = _listeners(port)
    if listeners is None:
        return None
    # The most specific address gets them.
    closest = [host, "::"] if ":" in host else [host, f"::ffff:{host}", "0.0.0.0", "::"]  # noqa: S104
    return next((listeners[place] for place in map(_as_listed, closest) if place in listeners), set())


def _listeners(port: int) -> dict[str, set[int]] | None:
    found: dict[str, set[int]] | None = None
    for table in TABLES:
        with suppress(OSError), table.open(encoding="ascii") as lines:
            found = found or {}
            next(lines)
            for line in lines:
                _, local, _, state, _, _, _, user, *_ = line.split()
                if state != LISTENING:
                    break  # listening sockets come first, and the others may be many
                address, _, at = local.partition(":")
                if int(at, 16) == port:
                    found.setdefault(address, set()).add(int(user))
    return found


def _as_listed(address: str) -> str:
    """In words of four bytes, in this machine's byte order."""
    packed = ip_address(address).packed
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
