"""Whose process listens on an address of this machine, where the system tells."""

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
    """Before a token that was found is sent: somebody else may listen where the server was. Call it once connected.

    Raises `Unreachable`; and `ConnectionError` where nobody listens any more, so that nobody can tell.
    """
    if server.left_by is None:
        return
    users = listening_users(server.host, server.port)
    if users is None:
        return
    if not users:
        raise ConnectionAbortedError("nobody listens there any more")
    others = users - {server.left_by, ROOT}
    if others:
        raise Unreachable(
            f"the server at {server.origin} is not yours: it runs as user {min(others)}, but the token for this "
            f"address belongs to user {server.left_by}. Nothing was sent. If you trust that server, get a token for it "
            "and set OCTOSTORE_TOKEN",
            reason="other_user",
        )


def listening_users(host: str, port: int) -> set[int] | None:
    """The ids of those who get connections to this address; None where the system does not tell."""
    listeners = _listeners(port)
    if listeners is None:
        return None
    # The closest one gets them.
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
                    break  # those who listen come first, and the others may be many
                address, _, at = local.partition(":")
                if int(at, 16) == port:
                    found.setdefault(address, set()).add(int(user))
    return found


def _as_listed(address: str) -> str:
    """In words of four bytes, each as a number of this machine."""
    packed = ip_address(address).packed
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
