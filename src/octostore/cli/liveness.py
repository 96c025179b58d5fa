"""Whether an owner is on time with its heartbeats."""

from datetime import datetime

from octostore.core.replies import JobOwner

LATE_SHARE = 0.5
"""Owners heartbeat three times per TTL; one that has missed that by so much has had a problem."""


def is_late(claim: JobOwner, now: datetime) -> bool:
    ttl = claim.expires_at - claim.heartbeat_at
    return now - claim.heartbeat_at > ttl * LATE_SHARE
