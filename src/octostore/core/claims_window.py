"""Which jobs to show for a stretch of time, in which order, and with which of their claims."""

from collections.abc import Iterable
from typing import TypeAlias, get_args

import msgspec

from octostore.core import views
from octostore.core.beats import is_stuck, late_at
from octostore.core.claim_replies import Attention, ClaimView, JobClaims
from octostore.core.events import Claimed, Ended, LogEntry, decode_details, no_heartbeat
from octostore.core.limits import CLAIMS_PER_ROW
from octostore.core.model import LOSSES, Claim, Job, LastOutcome, Status
from octostore.core.moments import to_datetime
from octostore.core.questions import ListClaims
from octostore.core.session_keys import id_of
from octostore.core.working_set import WorkingSet

RANKS: tuple[Attention | None, ...] = (*get_args(Attention), None)
WAITING = {"free", "queued"}
Place: TypeAlias = tuple[int, bool, int, str]


class Glance(msgspec.Struct, frozen=True):
    """What decides whether a job is shown, and where. Until `claim` is settled, it may have run out."""

    job_id: str
    status: Status
    last_outcome: LastOutcome | None
    claimed_at: int | None = None
    expires_at: int | None = None
    ttl_ms: int | None = None
    max_silence_ms: int | None = None
    last_progress_at: int | None = None
    is_stopping: bool = False
    ended_at: int | None = None
    """When a claim on it last ended, or, where only losses count, was lost."""

    def is_live(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at > now

    def last_end(self, now: int) -> int:
        """0 where none is known."""
        run_out = 0 if self.expires_at is None or self.is_live(now) else self.expires_at
        return max(run_out, self.ended_at or 0)


def attention_of(glance: Glance, now: int) -> Attention | None:
    if glance.expires_at is not None and glance.ttl_ms is not None:
        return _of_claim(glance, glance.expires_at, glance.ttl_ms, now)
    if glance.status == "dead":
        return "dead"
    if glance.status not in WAITING:
        return None
    return "lost" if glance.last_outcome in LOSSES else "failed" if glance.last_outcome == "failed" else None


def _of_claim(glance: Glance, expires_at: int, ttl_ms: int, now: int) -> Attention | None:
    if expires_at <= now:
        return "lost"
    if is_stuck(glance, now):
        return "stuck"
    if now >= late_at(expires_at, ttl_ms):
        return "late"
    return "stopping" if glance.is_stopping else None


def place_of(glance: Glance, now: int) -> Place:
    """What needs attention, what is live, what has ended; and of each the newest first."""
    is_live = glance.is_live(now)
    newest = (glance.claimed_at or 0) if is_live else glance.last_end(now)
    return RANKS.index(attention_of(glance, now)), not is_live, -newest, glance.job_id


def place_of_loss(glance: Glance, now: int) -> Place:
    """The newest loss first."""
    return 0, False, -glance.last_end(now), glance.job_id


class EndedClaim(msgspec.Struct, frozen=True):
    """From the log."""

    entry: LogEntry
    details: Ended


def read_ends(entries: Iterable[LogEntry], since: int) -> dict[str | None, list[EndedClaim]]:
    """By job: those of `entries` with which a claim ended that was live after `since`."""
    found: dict[str | None, list[EndedClaim]] = {}
    for entry in entries:
        details = decode_details(entry)
        if isinstance(details, Ended) and details.ended_at >= since:
            found.setdefault(entry.job_id, []).append(EndedClaim(entry, details))
    return found


class JobStory(msgspec.Struct, frozen=True):
    """A job as it stands now, and how claims on it have ended, oldest first."""

    job: Job
    ended: list[EndedClaim]

    @property
    def losses(self) -> list[EndedClaim]:
        return [one for one in self.ended if one.entry.type in LOSSES]

    @property
    def shown(self) -> list[EndedClaim]:
        room = CLAIMS_PER_ROW - (self.job.claim is not None)
        return self.ended[-room:]

    @property
    def tokens(self) -> list[int]:
        """The fencing tokens of what is shown: with the events of these numbers the claims began."""
        ended = [one.details.fencing_token for one in self.shown]
        return ended if self.job.claim is None else [*ended, self.job.claim.fencing_token]

    def answers(self, question: ListClaims) -> bool:
        job = self.job
        if question.status not in {None, job.status} or (question.lost and not self.losses):
            return False
        owners = [one.details.owner for one in self.ended] + ([job.claim.owner] if job.claim else [])
        return question.owner in owners if question.owner is not None else bool(owners)

    def glance(self, ws: WorkingSet, *, only_losses: bool = False) -> Glance:
        job, claim = self.job, self.job.claim
        ends = [one.details.ended_at for one in (self.losses if only_losses else self.ended)]
        ended_at = max(ends, default=None)
        if claim is None:
            return Glance(job.job_id, job.status, job.last_outcome, ended_at=ended_at)
        return Glance(
            job.job_id,
            job.status,
            job.last_outcome,
            claim.claimed_at,
            views.expiry_of(ws, claim),
            views.ttl_of(ws, claim),
            claim.max_silence_ms,
            claim.last_progress_at,
            claim.stop_request is not None,
            ended_at,
        )

    def view(self, ws: WorkingSet, begun: dict[int, LogEntry]) -> JobClaims:
        job, shown = self.job, self.shown
        claims = [ended_claim_view(one, begun[one.details.fencing_token]) for one in shown]
        if job.claim is not None:
            claims.append(live_claim_view(ws, job, job.claim, begun[job.claim.fencing_token]))
        return JobClaims(
            job_id=job.job_id,
            queue=job.queue,
            kind=job.kind,
            status=job.status,
            attention=attention_of(self.glance(ws), ws.now),
            claims=claims,
            more=len(shown) < len(self.ended),
        )


def ended_claim_view(ended: EndedClaim, begun: LogEntry) -> ClaimView:
    details, first = ended.details, _claimed(begun)
    ttl_ms = first.ttl_ms if details.ttl_ms is None else details.ttl_ms
    reason = details.reason or details.error
    if reason is None and details.late_ms is not None:
        reason = no_heartbeat(ttl_ms, details.late_ms)
    return ClaimView(
        owner=details.owner,
        principal=begun.actor,
        fencing_token=begun.seq,
        attempt=details.attempt,
        claimed_at=to_datetime(details.claimed_at),
        heartbeat_at=to_datetime(details.heartbeat_at),
        ttl=ttl_ms / 1_000,
        expires_at=None,
        ended_at=to_datetime(details.ended_at),
        how=ended.entry.type,  # type: ignore[arg-type]  # `Ended` is the struct of exactly these types
        reason=reason,
        note=details.note,
        took_over_from=first.took_over_from,
        handed_over_by=first.handed_over_by,
        progress=None,
        late_at=None,
        late=False,
        stuck=False,
        stop_requested=None,
        session_id=None if begun.session_id is None else id_of(begun.session_id),
        host=first.host,
        pid=first.pid,
    )


def live_claim_view(ws: WorkingSet, job: Job, claim: Claim, begun: LogEntry) -> ClaimView:
    first = _claimed(begun)
    heartbeat_at, expires_at = views.heartbeat_of(ws, claim), views.expiry_of(ws, claim)
    return ClaimView(
        owner=claim.owner,
        principal=claim.principal,
        fencing_token=claim.fencing_token,
        attempt=job.attempts + 1,
        claimed_at=to_datetime(claim.claimed_at),
        heartbeat_at=to_datetime(heartbeat_at),
        ttl=claim.ttl_ms / 1_000,
        expires_at=to_datetime(expires_at),
        ended_at=None,
        how=None,
        reason=None,
        note=None,
        took_over_from=first.took_over_from,
        handed_over_by=first.handed_over_by,
        progress=views.progress_view(claim.progress),
        late_at=to_datetime(views.late_at_of(ws, claim)),
        late=views.is_late_claim(ws, claim),
        stuck=is_stuck(claim, ws.now),
        stop_requested=views.stop_view(claim),
        session_id=views.session_id_of(claim),
        host=claim.host,
        pid=claim.pid,
    )


def _claimed(entry: LogEntry) -> Claimed:
    details = decode_details(entry)
    if not isinstance(details, Claimed):
        raise TypeError(f"event {entry.seq} is {entry.type!r}, and not the beginning of a claim")
    return details
