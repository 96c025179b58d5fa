"""Whose request it is: the address of the peer, or the one that a trusted proxy names."""

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

UNIX = "unix"
"""The peer on a Unix socket, and how to trust a proxy that comes by one."""
NETWORK_BITS = 64
"""What one customer of an IPv6 network has to choose from."""
_FORWARDED_PAIR = re.compile(r'\s*([\w!#$%&\'*+.^`|~-]+)=("(?:[^"\\]|\\.)*"|[^\s";,=]*)\s*(;|,|$)', re.ASCII)

_SECURE = re.compile(rb'(?i)(?:^|[;\s])proto="?https"?(?:[;\s]|$)')


class Proxies:
    """`trusted` are networks, such as `10.0.0.0/8`, or `unix`. Nobody else is believed."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        trusted = set(trusted)
        self._trusts_unix = UNIX in trusted
        self._networks = [ip_network(network, strict=False) for network in trusted - {UNIX}]

    def trusts(self, peer: str) -> bool:
        """Whether this address is that of a proxy, behind which there may be many."""
        if peer == UNIX:
            return self._trusts_unix
        if not self._networks:
            return False
        address = _parsed(peer)
        return address is not None and any(address in network for network in self._networks)

    def client_behind(self, peer: str, headers: Mapping[bytes, bytes]) -> str:
        """The last address that no trusted proxy has; that of the peer where the headers do not tell.

        A proxy writes one of the two headers, and lets the other one through as the client has sent it. So if there
        are both, they count only if they agree.
        """
        if not self.trusts(peer):
            return peer
        named = {
            self._outermost(addresses_in(headers[name].decode("latin-1")))
            for name, addresses_in in ((b"forwarded", _forwarded), (b"x-forwarded-for", _forwarded_for))
            if name in headers
        }
        client = named.pop() if len(named) == 1 else None
        return peer if client is None else client

    def client_scheme(self, peer: str, headers: Mapping[bytes, bytes]) -> str:
        """How the client calls us: by TLS only where a trusted proxy says so, since we do not speak it ourselves."""
        said, _, _ = headers.get(b"x-forwarded-proto", b"").partition(b",")
        element, _, _ = headers.get(b"forwarded", b"").partition(b",")
        is_secure = said.strip().lower() == b"https" or _SECURE.search(element) is not None
        return "https" if is_secure and self.trusts(peer) else "http"

    def _outermost(self, chain: list[str] | None) -> str | None:
        """The chain is read from its end, which is what our own proxies have written."""
        outermost = None
        for named in reversed(chain or []):
            address = _parsed(_without_port(named))
            if address is None:
                return None
            outermost = str(address)
            if not self.trusts(outermost):
                break
        return outermost


def check_trusted(text: str) -> str:
    """Raises `ValueError`."""
    if text != UNIX:
        ip_network(text, strict=False)
    return text


def client_network(address: str) -> str:
    """What to count somebody by: one with IPv6 has as many addresses as they like."""
    parsed = _parsed(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((int(parsed), NETWORK_BITS), strict=False))
    return address if parsed is None else str(parsed)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A socket for both kinds shows IPv4 like this.
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _forwarded_for(header: str) -> list[str]:
    return [part.strip() for part in header.split(",")]


def _forwarded(header: str) -> list[str] | None:
    """What each element has as its `for` (RFC 7239); None if the header is malformed."""
    chain, named, position = [], "", 0
    while position < len(header):
        found = _FORWARDED_PAIR.match(header, position)
        if found is None:
            return None
        name, value, end = found.groups()
        if name.lower() == "for":
            named = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        if end != ";":
            chain.append(named)
            named = ""
        position = found.end()
    return chain
