"""Compare secrets in constant time."""

from collections.abc import Callable
from functools import cache


def is_same_secret(one: bytes, other: bytes) -> bool:
    return _compare_digest()(one, other)


@cache
def _compare_digest() -> Callable[[bytes, bytes], bool]:
    from hmac import compare_digest  # noqa: PLC0415  # loads OpenSSL, and a claim compares no secrets

    return compare_digest
