"""Logins on the live page: a signed cookie that every server on the store accepts, and links that log in once.

A cookie contains the digest of its token, which is looked up on each request. So it never allows more than the token.
"""

import hashlib
import hmac
import secrets
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from octostore.server.http import Request
from octostore.server.refusals import login_expired, no_login

LOGIN_SECONDS = 7 * 86_400
LINK_SECONDS = 60
LINKS_PER_TOKEN = 10
CODE_BYTES = 32
STORE_CHARACTERS = 8
_SIGNED = struct.Struct(">32sQ")
"""The token's digest, and when the login ends, in milliseconds."""


class Login(NamedTuple):
    token_digest: bytes
    ends_at_ms: int


class _Link(NamedTuple):
    digest: bytes
    until: float
    """By `monotonic`."""


class Logins:
    """`base_path` is the path under which browsers see the server."""

    def __init__(self, base_path: str = "") -> None:
        self._path = f"{base_path}/ui/"
        self._key, self._name = b"", ""
        self._links: dict[bytes, _Link] = {}
        """By the digest of the code, oldest first."""

    def start(self, store_id: str, key: bytes) -> None:
        self._name = f"octostore-{store_id[:STORE_CHARACTERS]}"
        self._key = key

    # Cookies

    def cookie(self, digest: bytes, token_ends_at_ms: int | None, *, is_secure: bool) -> bytes:
        """The `Set-Cookie` value that logs a browser in."""
        now_ms = round(time.time() * 1_000)
        ends_at_ms = now_ms + LOGIN_SECONDS * 1_000
        if token_ends_at_ms is not None:
            ends_at_ms = min(ends_at_ms, token_ends_at_ms)
        signed = _SIGNED.pack(digest, ends_at_ms)
        value = urlsafe_b64encode(signed + self._signature(signed)).decode()
        return self._header(value, (ends_at_ms - now_ms) // 1_000, is_secure=is_secure)

    def expired_cookie(self, *, is_secure: bool) -> bytes:
        """The `Set-Cookie` value that logs a browser out."""
        return self._header("", 0, is_secure=is_secure)

    def read_login(self, request: Request) -> Login:
        """Read the login from the cookie. Raises a refusal if there is no valid one. Does not check the token."""
        values = [value for value in _cookies(request, self._name.encode()) if value]
        if not values:
            raise no_login()
        for value in values:  # several if another path on this host set one of the same name
            login = self._read(value)
            if login is not None and login.ends_at_ms > time.time() * 1_000:
                return login
        raise login_expired()

    def _header(self, value: str, seconds: int, *, is_secure: bool) -> bytes:
        secure = "; Secure" if is_secure else ""
        text = f"{self._name}={value}; Max-Age={seconds}; Path={self._path}; HttpOnly; SameSite=Strict{secure}"
        return text.encode("ascii")

    def _read(self, value: bytes) -> Login | None:
        try:
            content = urlsafe_b64decode(value)
        except ValueError:
            return None
        signed, signature = content[: _SIGNED.size], content[_SIGNED.size :]
        if len(signed) != _SIGNED.size or not hmac.compare_digest(signature, self._signature(signed)):
            return None
        return Login(*_SIGNED.unpack(signed))

    def _signature(self, signed: bytes) -> bytes:
        return hmac.digest(self._key, b"login\0" + signed, "sha256")

    # Links

    def new_code(self, digest: bytes) -> str:
        """A code that works once, within a minute, on this server only. Too many codes per token drop the oldest."""
        now = time.monotonic()
        self._links = {code: link for code, link in self._links.items() if link.until > now}
        of_token = [code for code, link in self._links.items() if link.digest == digest]
        for code in of_token[: max(0, len(of_token) + 1 - LINKS_PER_TOKEN)]:
            del self._links[code]
        made = secrets.token_urlsafe(CODE_BYTES)
        self._links[_digest_of(made)] = _Link(digest, now + LINK_SECONDS)
        return made

    def redeem(self, code: str) -> bytes | None:
        """The digest of the token that the code was made for; None if the code is not valid."""
        link = self._links.pop(_digest_of(code), None)
        return None if link is None or link.until <= time.monotonic() else link.digest


def _digest_of(code: str) -> bytes:
    return hashlib.sha256(code.encode(errors="replace")).digest()


def _cookies(request: Request, name: bytes) -> list[bytes]:
    pairs = (pair.strip().partition(b"=") for pair in request.headers.get(b"cookie", b"").split(b";"))
    return [value for key, _, value in pairs if key == name]
