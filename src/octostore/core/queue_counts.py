"""What a store counts of a queue, as the rules need it."""

from typing import NamedTuple

import msgspec


class QueueCounts(msgspec.Struct):
    """The jobs of a queue that are not in the working set. Numbers above `count_to` mean at least that many.

    With kinds, what is ready, later and claimed is of these kinds; what is settled nobody can get, and is all there is.
    """

    ready: int = 0
    oldest_due_at: int | None = None
    """Since when the first of these could have been claimed."""
    later: int = 0
    due_at: int | None = None
    """When the first of the later ones is due."""
    claimed: int = 0
    owners: list[tuple[str, str]] = []
    """(job, owner) of the first `OWNERS_FROM_CLAIMS` claims by name."""
    has_more_claims: bool = False
    """There are too many to know whether some are of the kinds that were asked for."""
    dead: int = 0
    done: int = 0


class Happened(NamedTuple):
    """What happened in a queue within one bucket of time: how often, and when last."""

    queue: str
    type: str
    bucket: int
    number: int
    last_at: int


class LookBack(NamedTuple):
    """What the end of the log says about queues. `began_at` is the moment of the last event before it, if there is one.

    What is older than the rates is in the bucket before their first.
    """

    happened: list[Happened]
    began_at: int | None
