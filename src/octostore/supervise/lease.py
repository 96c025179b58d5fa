"""When a command has to be stopped, so that nothing of it is left when its lease ends."""

import msgspec

from octostore.client.lateness import IN_HAND_SHARE, in_hand

GRACE_SHARE = 0.07
"""Of a lease that nobody renews, how much is left for the command to stop by itself before it is killed.

Not more: heartbeats are a third of the TTL apart, and a store that is away for half of it must not end any work.
"""
DEATH_SHARE = 0.03
"""And how much for the killing, on a machine that has time."""


class Lease(msgspec.Struct, frozen=True):
    """One that is surely ours until `ends_at`, should this be the last that is heard of it. Times in seconds."""

    ends_at: float
    """A moment of `boottime`."""
    ttl: float
    grace: float
    delay: float
    """How late a process gets its turn: what the command was writing when it was killed may arrive by so much later."""

    def kill_at(self, delay: float = 0) -> float:
        """`delay` is how late whoever kills it may be."""
        return self.ends_at - max(self.ttl * DEATH_SHARE, in_hand(self.ttl, self.delay, delay))

    def stop_at(self, delay: float = 0) -> float:
        """Where all that can be kept in hand is needed for the killing, there is no grace."""
        kill_at = self.kill_at(delay)
        room = kill_at - (self.ends_at - self.ttl * IN_HAND_SHARE)
        return kill_at - max(0.0, min(self.grace, self.ttl * GRACE_SHARE, room))
