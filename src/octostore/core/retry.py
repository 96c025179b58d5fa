"""When a failed job runs again."""

import msgspec

from octostore.core.errors import InvalidInput
from octostore.core.limits import RETRY_AFTER_MAX_MS


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When failed jobs run again: exponential backoff with jitter.

    Example:
        >>> store = octostore.connect("memory:", retry=octostore.RetryPolicy(base_ms=500, cap_ms=60_000))
    """

    base_ms: int = 2_000
    """The delay after the first failure."""
    factor: float = 2.0
    """The ratio of each delay to the previous one."""
    cap_ms: int = 900_000
    """The longest delay."""
    jitter: float = 0.25
    """How much of a delay may be cut at random, 0 to 1, so that jobs that failed together are not retried together."""

    def __post_init__(self) -> None:
        if not 0 <= self.base_ms <= self.cap_ms <= RETRY_AFTER_MAX_MS:
            raise InvalidInput("retry", f"needs 0 <= base_ms <= cap_ms <= {RETRY_AFTER_MAX_MS:,}")
        if not self.factor >= 1:
            raise InvalidInput("retry", "needs a factor of at least 1")
        if not 0 <= self.jitter <= 1:
            raise InvalidInput("retry", "needs a jitter from 0 to 1")


def backoff_ms(policy: RetryPolicy, failures: int, jitter: float) -> int:
    """How long to wait after this many failures; `jitter` is a random number from 0 to 1."""
    # Beyond this exponent every delay is at the cap, and a float would overflow.
    exponent = min(failures - 1, 64)
    delay_ms = min(float(policy.cap_ms), policy.base_ms * policy.factor**exponent)
    return round(delay_ms * (1 - policy.jitter * jitter))
