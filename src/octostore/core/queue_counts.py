"""What a store counts in a queue, for the rules."""

from typing import NamedTuple

import msgspec


class QueueCounts(msgspec.Struct):
    """The jobs of a queue that are not in the working set. A number above `count_to` means at least that many.

    With kinds, ready, later and claimed jobs are of these kinds; settled jobs cannot be claimed, and are all counted.
    """

    ready: int = 0
    oldest_due_at: int | None = None
    """When the oldest ready job became due."""
    later: int = 0
    due_at: int | None = None
    """When the first of the later jobs is due."""
    claimed: int = 0
    owners: list[tuple[str, str]] = []
    """(job, owner) of the first `OWNERS_FROM_CLAIMS` claims by name."""
    has_more_claims: bool = False
    """Whether there may be claims that were not checked for the kinds asked for."""
    dead: int = 0
    done: int = 0


class Happened(NamedTuple):
    """What happened in a queue within one time bucket: how often, and when last."""

    queue: str
    type: str
    bucket: int
    number: int
    last_at: int


class LookBack(NamedTuple):
    """Queue activity at the end of the log. `began_at` is the moment of the last event before it, if there is one.

    Anything older than the rates is in the bucket before the first.
    """

    happened: list[Happened]
    began_at: int | None
