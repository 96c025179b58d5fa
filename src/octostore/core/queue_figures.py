"""Recent activity in queues, from the end of the log: counts per minute, and the last claim."""

from collections import defaultdict

import msgspec

from octostore.core.limits import BUCKET_MS, LOOK_BACK_MS
from octostore.core.moments import to_datetime_or_none
from octostore.core.queue_counts import LookBack
from octostore.core.replies import QueueFigures, QueueRates, QueueStatus

_RATE_OF = {"enqueued": "enqueued", "done": "done", "failed": "failed", "expired": "failed"}


class Activity:
    """`since` is the moment from which the counts are complete."""

    def __init__(self, now: int, looked: LookBack) -> None:
        self.since = rates_begin(now) if looked.began_at is None else max(rates_begin(now), looked.began_at + 1)
        self._last_claims: dict[str, int] = {}
        first = self.since // BUCKET_MS
        buckets = now // BUCKET_MS - first + 1
        self._counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * max(0, buckets))
        for queue, event_type, bucket, number, last_at in looked.happened:
            if event_type == "claimed":
                self._last_claims[queue] = max(last_at, self._last_claims.get(queue, 0))
            elif bucket >= first:
                self._counts[queue, _RATE_OF[event_type]][bucket - first] += number

    def figures_of(self, status: QueueStatus) -> QueueFigures:
        rates = {name: self._counts[status.queue, name] for name in QueueRates.__struct_fields__}
        return QueueFigures(
            **msgspec.structs.asdict(status),
            last_claim_at=to_datetime_or_none(self._last_claims.get(status.queue)),
            rates=QueueRates(**rates),
        )


def rates_begin(now: int) -> int:
    """On a full minute, so that the last bucket is the current minute and there are at most 60."""
    return (now - LOOK_BACK_MS) // BUCKET_MS * BUCKET_MS + BUCKET_MS
