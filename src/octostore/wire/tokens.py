"""The token format: `octo_`, 256 random bits, and a checksum that catches typing errors without asking the store."""

import hashlib
import re
import secrets
import string
import zlib

from octostore.core.errors import InvalidInput

PREFIX = "octo_"
SECRET_BYTES = 32
SECRET_CHARACTERS = 43  # 62^43 > 2^256
CHECKSUM_CHARACTERS = 6  # 62^6 > 2^32
_DIGITS = string.digits + string.ascii_letters
TOKEN_IN_TEXT = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{SECRET_CHARACTERS},}}")
"""Matches a token inside other text, even a mistyped one."""


def new_token() -> str:
    return format_token(secrets.token_bytes(SECRET_BYTES))


def format_token(secret: bytes) -> str:
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a token has {SECRET_BYTES} random bytes, not {len(secret)}")
    body = _base62(int.from_bytes(secret), SECRET_CHARACTERS)
    return PREFIX + body + _checksum(body)


def is_well_formed(token: str) -> bool:
    """Cheap, so a malformed token never costs a query."""
    body, checksum = token[len(PREFIX) : -CHECKSUM_CHARACTERS], token[-CHECKSUM_CHARACTERS:]
    return (
        token.startswith(PREFIX) and len(body) == SECRET_CHARACTERS and token.isascii() and checksum == _checksum(body)
    )


def token_digest(token: str) -> bytes:
    """What the store keeps of a token. A token has 256 random bits, so a fast hash is as safe as a slow one."""
    return hashlib.sha256(token.encode()).digest()


def check_token(field: str, token: str) -> None:
    """Raise `InvalidInput` if `token` is malformed. The message never contains the token."""
    if not is_well_formed(token):
        raise InvalidInput(
            field, f"is not an OctoStore token: tokens begin with {PREFIX} and end with a checksum; copy it again"
        )


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), CHECKSUM_CHARACTERS)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
