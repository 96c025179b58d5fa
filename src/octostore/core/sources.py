"""What the core cannot find out by itself, and is given with every command."""

from collections.abc import Callable

import msgspec

from octostore.core.retry import RetryPolicy


class Sources(msgspec.Struct, frozen=True):
    new_lease_id: Callable[[], str]
    """A fresh secret: unguessable, and never the same twice."""
    jitter: Callable[[], float]
    """A random number from 0 to 1."""
    retry: RetryPolicy = RetryPolicy()
