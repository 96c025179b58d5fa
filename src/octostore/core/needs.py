"""What a store must load before a batch of commands can be decided."""

from typing import TypeAlias

import msgspec

from octostore.core.limits import SWEEP_LIMIT
from octostore.core.model import Status
from octostore.core.session_keys import SessionKey

Selection: TypeAlias = tuple[tuple[str, ...] | None, str]
"""The kinds (None: all) and the name prefix of the jobs a caller wants."""


class LineNeed(msgspec.Struct):
    """The front of a queue, separately for each selection of kinds and names.

    Includes up to `SWEEP_LIMIT` expired claims of the queue, by name.
    """

    selections: set["Selection"]
    count: int = 0


class JobFilter(msgspec.Struct, frozen=True):
    """Which jobs to list: in name order after `after`, those stored with `status` (None: any).

    For a status other than `claimed`, expired claims must be included: by now, they may have that status.
    """

    status: Status | None
    prefix: str
    queue: str | None
    after: str


class Needs(msgspec.Struct):
    """A claimed job must come with the session its claim is bound to, and a queued job with its queue."""

    jobs: set[str] = msgspec.field(default_factory=set)
    documents_of: set[str] = msgspec.field(default_factory=set)
    """Jobs whose payload, result and checkpoint are needed too. They are also needed for every job in one of
    `lines`, because any of those jobs may become the first in line.
    """
    sessions: set[SessionKey] = msgspec.field(default_factory=set)
    claims_of: set[SessionKey] = msgspec.field(default_factory=set)
    """Sessions whose bound claims are all needed."""
    beside: set[str] = msgspec.field(default_factory=set)
    """For each of these jobs, every claim bound to the same session is needed."""
    news_of: set[SessionKey] = msgspec.field(default_factory=set)
    """Sessions whose bound claims are needed only if the owner was asked to stop, or may be stuck."""
    in_flight_of: set[SessionKey] = msgspec.field(default_factory=set)
    """Sessions whose lost jobs are needed too, with the documents of all their jobs."""
    queues: set[str] = msgspec.field(default_factory=set)
    counted_queues: set[str] = msgspec.field(default_factory=set)
    """Queues whose claimed jobs must be counted although they have no limit yet."""
    lines: dict[str, LineNeed] = msgspec.field(default_factory=dict)
    lists: dict[JobFilter, int] = msgspec.field(default_factory=dict)
    """Lists of jobs not known by name, and their lengths. `WorkingSet.listed_to` must say how far each is complete.

    Each includes up to `SWEEP_LIMIT` expired claims, by name, unless all expired claims are loaded anyway.
    """
    requests: set[tuple[str, str, str]] = msgspec.field(default_factory=set)
    ended: set[tuple[str, str]] = msgspec.field(default_factory=set)
    """(principal, request id) whose ended claims and sessions are needed."""
    tokens: set[str] = msgspec.field(default_factory=set)
    digests: set[bytes] = msgspec.field(default_factory=set)
    """Digests whose tokens are needed too."""
    claim_counts: set[tuple[str, bool]] = msgspec.field(default_factory=set)
    """Live claims that must be counted: (principal, True for its locks or False for its other claims)."""
    session_counts: set[str] = msgspec.field(default_factory=set)
    """Principals whose live sessions must be counted."""
    queued_counts: set[str] = msgspec.field(default_factory=set)
    """Principals whose queued jobs must be counted."""
    sweep_limit: int = SWEEP_LIMIT
    """How many expired claims to load. `WorkingSet.has_all_expired` must say whether these are all."""
