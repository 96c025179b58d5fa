"""How long a takeover took. The event log knows, and nobody else has to be believed."""

from collections.abc import Iterable

from octostore.cli import words
from octostore.cli.demo.messages import TakenOver
from octostore.core.events import Event


def measured(events: Iterable[Event]) -> TakenOver:
    """From the last heartbeat of whoever disappeared first to the claim of its successor."""
    rest = iter(events)
    expired = next(event for event in rest if event.type == "expired")
    claimed = next(event for event in rest if event.type == "claimed")
    return TakenOver(
        dead=expired.data["owner"],
        ttl=expired.data["ttl_ms"] / 1_000,
        seconds_after_last_heartbeat=words.seconds_between(expired.data["heartbeat_at"], claimed.at),
        seconds_after_expiry=words.seconds_between(expired.data["ended_at"], claimed.at),
    )
