"""What a store has to load before a batch of commands can be decided."""

from typing import TypeAlias

import msgspec

from octostore.core.limits import SWEEP_LIMIT
from octostore.core.model import Status
from octostore.core.session_keys import SessionKey

Selection: TypeAlias = tuple[tuple[str, ...] | None, str]
"""The kinds (None: all) and the prefix of the names of the jobs that somebody wants."""


class LineNeed(msgspec.Struct):
    """The front of a queue, separately for each selection of kinds and names that is asked for.

    Up to `SWEEP_LIMIT` claims of the queue that have run out are part of it, by name.
    """

    selections: set["Selection"]
    count: int = 0


class JobFilter(msgspec.Struct, frozen=True):
    """Which jobs to list: in name order after `after`, those stored with `status` (None: with any).

    For a status other than `claimed`, claims that have run out are to be among them: they may have it by now.
    """

    status: Status | None
    prefix: str
    queue: str | None
    after: str


class Needs(msgspec.Struct):
    """A claimed job is to come with the session that its claim is bound to, and a job in a queue with that queue."""

    jobs: set[str] = msgspec.field(default_factory=set)
    documents_of: set[str] = msgspec.field(default_factory=set)
    """The jobs whose payload, result and checkpoint are needed too; those of every job in one of `lines` are as well,
    because it may become the first in line.
    """
    sessions: set[SessionKey] = msgspec.field(default_factory=set)
    claims_of: set[SessionKey] = msgspec.field(default_factory=set)
    """The sessions of which every bound claim is needed."""
    beside: set[str] = msgspec.field(default_factory=set)
    """The jobs of which every claim is needed that is bound to the same session."""
    news_of: set[SessionKey] = msgspec.field(default_factory=set)
    """Those of which only the bound claims are needed whose owner was asked to stop, or may be stuck."""
    in_flight_of: set[SessionKey] = msgspec.field(default_factory=set)
    """Those of which the jobs that they lost are needed, too, and the documents of all these jobs."""
    queues: set[str] = msgspec.field(default_factory=set)
    counted_queues: set[str] = msgspec.field(default_factory=set)
    """The queues whose claimed jobs are to be counted although they have no limit yet."""
    lines: dict[str, LineNeed] = msgspec.field(default_factory=dict)
    lists: dict[JobFilter, int] = msgspec.field(default_factory=dict)
    """Jobs that are not known by name, and how many. `WorkingSet.listed_to` is to tell how far they have been listed.

    Up to `SWEEP_LIMIT` claims that have run out are part of each, also by name, unless all of them are here anyway.
    """
    requests: set[tuple[str, str, str]] = msgspec.field(default_factory=set)
    ended: set[tuple[str, str]] = msgspec.field(default_factory=set)
    """(principal, request id) of which is needed what they had that has ended."""
    tokens: set[str] = msgspec.field(default_factory=set)
    digests: set[bytes] = msgspec.field(default_factory=set)
    """Whichever tokens have one of these are needed, too."""
    claim_counts: set[tuple[str, bool]] = msgspec.field(default_factory=set)
    """(principal, whether locks or other claims) whose live claims are to be counted."""
    session_counts: set[str] = msgspec.field(default_factory=set)
    """Principals whose live sessions are to be counted."""
    queued_counts: set[str] = msgspec.field(default_factory=set)
    """Principals of whose jobs is needed how many are queued."""
    sweep_limit: int = SWEEP_LIMIT
    """How many expired claims to bring along. `WorkingSet.has_all_expired` is to tell whether these are all."""
