"""What the core cannot produce on its own, and receives with every command."""

from collections.abc import Callable

import msgspec

from octostore.core.retry import RetryPolicy


class Sources(msgspec.Struct, frozen=True):
    new_lease_id: Callable[[], str]
    """A fresh, unguessable secret."""
    jitter: Callable[[], float]
    """A random number from 0 to 1."""
    retry: RetryPolicy = RetryPolicy()
