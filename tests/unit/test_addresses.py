"""Which client a request comes from, according to proxies, impostors and broken programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.server.addresses import UNIX, Proxies, check_trusted, client_network

PROXY = "10.0.0.1"
TRUSTING = Proxies(["10.0.0.0/8", "2001:db8:ffff::/48", "192.0.2.1"])


def client(peer: str = PROXY, proxies: Proxies = TRUSTING, **headers: str) -> str:
    fields = {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}
    return proxies.client_behind(peer, fields)


@pytest.mark.parametrize(
    ("header", "address"),
    [
        ("198.51.100.7", "198.51.100.7"),
        (" 198.51.100.7:4711 ", "198.51.100.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("6.6.6.6, 198.51.100.7", "198.51.100.7"),
        ("nonsense, 198.51.100.7", "198.51.100.7"),
        ("6.6.6.6, 198.51.100.7,192.0.2.1, 10.9.9.9", "198.51.100.7"),
        ("198.51.100.7, 2001:db8:ffff::5", "198.51.100.7"),
        ("10.1.1.1, 10.2.2.2", "10.1.1.1"),
        ("198.51.100.7, unknown", PROXY),
        ("198.51.100.7,", PROXY),
        ("", PROXY),
        (",,,", PROXY),
        ("198.51.100.777", PROXY),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_trusted_proxy(header: str, address: str) -> None:
    assert client(x_forwarded_for=header) == address


@pytest.mark.parametrize(
    ("header", "address"),
    [
        ("for=198.51.100.7", "198.51.100.7"),
        ("For=198.51.100.7;proto=https;by=10.0.0.1", "198.51.100.7"),
        ('proto=https; for="198.51.100.7:4711"', "198.51.100.7"),
        ('for="[2001:db8::1]:4711"', "2001:db8::1"),
        ('for="[2001:db8::1]"', "2001:db8::1"),
        (r'for="198.51.100\.7"', "198.51.100.7"),
        ("for=6.6.6.6, for=198.51.100.7;proto=http, for=10.3.3.3", "198.51.100.7"),
        ('for="a, for=6.6.6.6", for=198.51.100.7', "198.51.100.7"),
        ("for=_hidden", PROXY),
        ("for=unknown", PROXY),
        ("proto=https", PROXY),
        ("for=198.51.100.7, proto=https", PROXY),
        ('for="198.51.100.7', PROXY),
        ("for=198.51.100.7 for=198.51.100.8", PROXY),
        ("198.51.100.7", PROXY),
        ("", PROXY),
        ("for=", PROXY),
    ],
)
def test_the_forwarded_header_is_read_the_same_way(header: str, address: str) -> None:
    assert client(forwarded=header) == address


def test_headers_from_untrusted_peers_are_ignored() -> None:
    for peer in ("198.51.100.7", "2001:db8::1", UNIX, "192.0.2.2"):
        assert client(peer, x_forwarded_for="6.6.6.6") == peer
        assert client(peer, Proxies(), forwarded="for=6.6.6.6") == peer


def test_a_spoofed_second_header_is_not_believed() -> None:
    assert client(x_forwarded_for="198.51.100.7", forwarded="for=6.6.6.6") == PROXY
    assert client(x_forwarded_for="198.51.100.7", forwarded="nonsense") == PROXY
    assert client(x_forwarded_for="198.51.100.7", forwarded="for=198.51.100.7") == "198.51.100.7"


def test_a_proxy_on_the_unix_socket_can_be_trusted() -> None:
    assert client(UNIX, Proxies([UNIX]), x_forwarded_for="198.51.100.7") == "198.51.100.7"
    assert client("10.0.0.1", Proxies([UNIX]), x_forwarded_for="198.51.100.7") == "10.0.0.1"


def test_a_trusted_ipv4_proxy_is_recognized_on_a_dual_stack_socket() -> None:
    assert client("::ffff:10.0.0.1", x_forwarded_for="198.51.100.7") == "198.51.100.7"


@given(st.text(st.characters(max_codepoint=255)), st.text('for=",;[]:. 0123456789abcdef\\', max_size=60))
def test_any_header_yields_an_address(first: str, second: str) -> None:
    for header in (first, second, f"{first}, 198.51.100.7"):
        for name in ("forwarded", "x_forwarded_for"):
            address = client(PROXY, TRUSTING, **{name: header})
            assert client_network(address)
            assert address == PROXY or not TRUSTING.trusts(address) or address.startswith(("10.", "192.", "2001"))
    assert client(x_forwarded_for=f"{first}, 198.51.100.7") == "198.51.100.7"


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        ({}, "http"),
        ({b"x-forwarded-proto": b"https"}, "https"),
        ({b"x-forwarded-proto": b"HTTPS, http"}, "https"),
        ({b"x-forwarded-proto": b"http, https"}, "http"),
        ({b"x-forwarded-proto": b"httpsx"}, "http"),
        ({b"forwarded": b'for=198.51.100.7;proto="https"'}, "https"),
        ({b"forwarded": b"Proto=https; for=198.51.100.7"}, "https"),
        ({b"forwarded": b"for=x;notproto=https"}, "http"),
        ({b"forwarded": b"for=198.51.100.7, proto=https"}, "http"),
    ],
)
def test_only_trusted_proxies_set_the_scheme(headers: dict[bytes, bytes], scheme: str) -> None:
    assert TRUSTING.client_scheme(PROXY, headers) == scheme
    assert TRUSTING.client_scheme("198.51.100.7", headers) == "http"


def test_which_addresses_can_be_trusted() -> None:
    for good in ("10.0.0.0/8", "10.0.0.1/8", "10.0.0.1", "::1", "fd00::/8", UNIX):
        assert check_trusted(good) == good
    for bad in ("", "10.0.0.0/33", "proxy.example.org", "10.0.0", "*"):
        with pytest.raises(ValueError, match=r"."):
            check_trusted(bad)


def test_a_client_is_counted_by_its_network() -> None:
    assert client_network("2001:db8::1") == client_network("2001:db8::ffff:1") != client_network("2001:db8:0:1::1")
    assert client_network("198.51.100.7") == client_network("::ffff:198.51.100.7") == "198.51.100.7"
    assert client_network(UNIX) == UNIX
