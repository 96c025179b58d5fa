"""When to stop a command so that nothing of it is left when its lease ends."""

import msgspec

from octostore.client.lateness import MARGIN_SHARE_MAX, safety_margin

GRACE_SHARE = 0.07
"""The share of the TTL that a command gets to stop by itself, before it is killed, if its lease is not renewed.

Not more: heartbeats are a third of the TTL apart, and an outage of half the TTL must not stop any work.
"""
KILL_SHARE = 0.03
"""The minimum share of the TTL reserved for killing the command; a busy machine reserves more."""


class Lease(msgspec.Struct, frozen=True):
    """A lease that is certainly ours until `ends_at`, even if no renewal follows. Times in seconds."""

    ends_at: float
    """On the `boottime` clock."""
    ttl: float
    grace: float
    delay: float
    """How late processes are scheduled: a killed command's last write may arrive this much later."""

    def kill_at(self, delay: float = 0) -> float:
        """`delay` is how late the killing process may be scheduled."""
        return self.ends_at - max(self.ttl * KILL_SHARE, safety_margin(self.ttl, self.delay, delay))

    def stop_at(self, delay: float = 0) -> float:
        """Without grace if the whole safety margin is needed for killing."""
        kill_at = self.kill_at(delay)
        room = kill_at - (self.ends_at - self.ttl * MARGIN_SHARE_MAX)
        return kill_at - max(0.0, min(self.grace, self.ttl * GRACE_SHARE, room))
