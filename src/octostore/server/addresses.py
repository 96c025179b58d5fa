"""The client's address: the peer's, or the one a trusted proxy reports."""

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

UNIX = "unix"
"""The address of a peer on a Unix socket. In the list of trusted proxies, it means any proxy that connects that way."""
NETWORK_BITS = 64
"""An IPv6 customer usually has a whole /64 to choose addresses from."""
_FORWARDED_PAIR = re.compile(r'\s*([\w!#$%&\'*+.^`|~-]+)=("(?:[^"\\]|\\.)*"|[^\s";,=]*)\s*(;|,|$)', re.ASCII)

_SECURE = re.compile(rb'(?i)(?:^|[;\s])proto="?https"?(?:[;\s]|$)')


class Proxies:
    """`trusted` are networks, like `10.0.0.0/8`, or `unix`. Headers from all other peers are ignored."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        trusted = set(trusted)
        self._trusts_unix = UNIX in trusted
        self._networks = [ip_network(network, strict=False) for network in trusted - {UNIX}]

    def trusts(self, peer: str) -> bool:
        """Whether this peer is a trusted proxy."""
        if peer == UNIX:
            return self._trusts_unix
        if not self._networks:
            return False
        address = _parse(peer)
        return address is not None and any(address in network for network in self._networks)

    def client_behind(self, peer: str, headers: Mapping[bytes, bytes]) -> str:
        """The last address in the headers that is not a trusted proxy's; the peer's if they do not say.

        A proxy sets one of the two headers and passes the other one through as the client sent it. So if both are
        present, they count only if they agree.
        """
        if not self.trusts(peer):
            return peer
        reported = {
            self._outermost(addresses_in(headers[name].decode("latin-1")))
            for name, addresses_in in ((b"forwarded", _forwarded), (b"x-forwarded-for", _forwarded_for))
            if name in headers
        }
        client = reported.pop() if len(reported) == 1 else None
        return peer if client is None else client

    def client_scheme(self, peer: str, headers: Mapping[bytes, bytes]) -> str:
        """`https` only if a trusted proxy says so: the server itself does not speak TLS."""
        proto, _, _ = headers.get(b"x-forwarded-proto", b"").partition(b",")
        element, _, _ = headers.get(b"forwarded", b"").partition(b",")
        is_secure = proto.strip().lower() == b"https" or _SECURE.search(element) is not None
        return "https" if is_secure and self.trusts(peer) else "http"

    def _outermost(self, chain: list[str] | None) -> str | None:
        """Read the chain from its end, the part our own proxies wrote."""
        outermost = None
        for hop in reversed(chain or []):
            address = _parse(_without_port(hop))
            if address is None:
                return None
            outermost = str(address)
            if not self.trusts(outermost):
                break
        return outermost


def check_trusted(text: str) -> str:
    """Raise `ValueError` unless `text` is a network or `unix`."""
    if text != UNIX:
        ip_network(text, strict=False)
    return text


def client_network(address: str) -> str:
    """What to count a client by: its address, or its /64 because an IPv6 client can change addresses at will."""
    parsed = _parse(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((int(parsed), NETWORK_BITS), strict=False))
    return address if parsed is None else str(parsed)


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A dual-stack socket shows IPv4 addresses as mapped IPv6.
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _forwarded_for(header: str) -> list[str]:
    return [part.strip() for part in header.split(",")]


def _forwarded(header: str) -> list[str] | None:
    """The `for` of each element (RFC 7239); None if the header is malformed."""
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
