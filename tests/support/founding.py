"""Which calls create a missing store, and which do not."""

from collections.abc import Callable
from typing import Any

import octostore

READS: dict[str, Callable[[octostore.OctoStore], Any]] = {
    "get_job": lambda store: store.get_job("job"),
    "get_job_owner": lambda store: store.get_job_owner("job"),
    "list_heartbeats": lambda store: store.list_heartbeats(["job"]),
    "find_similar": lambda store: store.find_similar("job"),
    "list_claimed_jobs": lambda store: store.list_claimed_jobs(),
    "dead_jobs": lambda store: store.dead_jobs(),
    "list_jobs": lambda store: store.list_jobs(),
    "list_claims": lambda store: store.list_claims(),
    "queue_status": lambda store: store.queue_status("queue"),
    "list_queues": lambda store: store.list_queues(),
    "get_session": lambda store: store.get_session("session"),
    "list_sessions": lambda store: store.list_sessions(),
    "whoami": lambda store: store.whoami(),
    "list_tokens": lambda store: store.list_tokens(),
    "list_events": lambda store: store.list_events(),
    "events": lambda store: list(store.events()),
    "follow": lambda store: next(store.events(follow=True)),
    "figures": lambda store: store.figures(),
    "health": lambda store: store.health(),
    "wait_for_job": lambda store: store.wait_for_job("job", wait=0),
    "verify": lambda store: store.verify(),
}
NOT_FIRST: dict[str, Callable[[octostore.OctoStore], Any]] = {
    "heartbeat": lambda store: store.heartbeat_job("job", "lease"),
    "release": lambda store: store.release_job("job", "lease"),
    "checkpoint": lambda store: store.checkpoint_job("job", "lease", {}),
    "cancel": lambda store: store.cancel("job", reason="typo"),
    "force_release": lambda store: store.force_release("job", reason="typo"),
    "recover": lambda store: store.recover(),
    "probe": lambda store: store.probe(),
}
FIRST: dict[str, Callable[[octostore.OctoStore], Any]] = {
    "claim": lambda store: store.claim_job("job"),
    "claim_next": lambda store: store.claim_next("queue"),
    "enqueue": lambda store: store.enqueue("task"),
    "session": lambda store: store.open_session("agent"),
}
