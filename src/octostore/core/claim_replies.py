"""The claims of a time window, as callers see them."""

from typing import Literal, TypeAlias

from octostore.core.model import HowEnded, Status
from octostore.core.moments import Moment
from octostore.core.replies import ProgressView, Reply, StopView

Attention: TypeAlias = Literal["lost", "stuck", "late", "stopping", "failed", "dead"]
"""Why someone should look at a job, the most urgent first."""


class ClaimView(Reply, frozen=True):
    """A claim, live or ended. A claim ends as soon as it expires, whether or not the log says so yet."""

    owner: str
    principal: str | None
    """The owner's principal. Like `ttl` and `took_over_from`, it is None if it is no longer in the log."""
    fencing_token: int
    attempt: int
    claimed_at: Moment
    heartbeat_at: Moment
    ttl: float | None
    expires_at: Moment | None = None
    """When it expires unless its owner sends a heartbeat; None once it has ended."""
    ended_at: Moment | None = None
    """None while it is live."""
    how: HowEnded | None = None
    reason: str | None = None
    """Why it ended. For an expired claim, what was missed: "no heartbeat for 3.001 s, TTL 3 s"."""
    note: str | None = None
    """Its owner's note for the next owner."""
    took_over_from: str | None = None
    """The previous owner, if it lost the job."""
    handed_over_by: str | None = None
    """The previous owner, if it handed over its session."""
    progress: ProgressView | None = None
    """Only for a live claim, like the fields below up to `stop_requested`."""
    late_at: Moment | None = None
    """After this time, the claim is `late`: its owner has missed two heartbeats."""
    late: bool = False
    stuck: bool = False
    """Whether its owner sends heartbeats, but has reported no progress for longer than `max_silence`."""
    max_silence: float | None = None
    """How many seconds its owner may go without reporting progress."""
    stop_requested: StopView | None = None
    session_id: str | None = None
    host: str | None = None
    pid: int | None = None


class JobClaims(Reply, frozen=True):
    """The claims of a job, oldest first. `more` is true if some are left out.

    `attention` says why someone should look: `lost` (the claim expired or was taken away, and nobody has taken over),
    `stuck`, `late`, `stopping` (the owner was asked to stop), `failed` (but not dead), or `dead`.
    """

    job_id: str
    queue: str | None
    kind: str | None
    status: Status
    attention: Attention | None
    claims: list[ClaimView]
    more: bool


class ClaimsPage(Reply, frozen=True):
    """Claims that were live at some time from `since` to `at`, grouped by job, the most urgent job first.

    The state is as of event `seq`: follow the log from there, and you miss nothing and see nothing twice. `more` is
    true if jobs may have been left out. `last_claim_at` is when one of the jobs was last claimed, if that was recent
    enough to be found.
    """

    at: Moment
    since: Moment
    seq: int
    rows: list[JobClaims]
    more: bool
    last_claim_at: Moment | None
