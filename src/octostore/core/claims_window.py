"""Which jobs to show for a time window, in what order, and with which of their claims."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from octostore.core import views
from octostore.core.beats import is_stuck, late_at
from octostore.core.claim_replies import Attention, ClaimView, JobClaims
from octostore.core.events import Claimed, Ended, LogEntry, decode_details, no_heartbeat
from octostore.core.limits import CLAIMS_PER_ROW
from octostore.core.model import LOSSES, Claim, Job, Status
from octostore.core.moments import to_datetime
from octostore.core.questions import ListClaims
from octostore.core.session_keys import id_of
from octostore.core.working_set import WorkingSet

Group: TypeAlias = Literal["lost", "stuck", "late", "stopping", "taken over", "live", "failed", "dead", "ended"]
"""The order of jobs: losses and live claims come before any number of failed and dead jobs."""
RANKS: dict[Group, int] = {group: rank for rank, group in enumerate(get_args(Group))}
WAITING = {"free", "queued"}
SortKey: TypeAlias = tuple[int, int, str]


class Glance(msgspec.Struct, frozen=True):
    """What decides whether and where a job is shown. Its claim may have expired without that being recorded."""

    job_id: str
    status: Status
    claimed_at: int | None = None
    """This and the fields up to `is_stopping` describe the claim."""
    expires_at: int | None = None
    ttl_ms: int | None = None
    max_silence_ms: int | None = None
    last_progress_at: int | None = None
    is_stopping: bool = False
    how: str | None = None
    """How the previous claim ended, unless the job has changed since."""
    ended_at: int = 0
    """When it ended; or, if only losses count, when the last loss was."""
    is_taken_over: bool = False
    """Whether someone lost the job within the window, before this claim."""

    def is_live(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at > now

    def last_end(self, now: int) -> int:
        if self.expires_at is None or self.expires_at > now:
            return self.ended_at
        return max(self.ended_at, self.expires_at)


def attention_of(glance: Glance, now: int) -> Attention | None:
    if glance.expires_at is not None and glance.ttl_ms is not None:
        return _of_claim(glance, glance.expires_at, glance.ttl_ms, now)
    if glance.status == "dead":
        return "dead"
    if glance.status not in WAITING:
        return None
    return "lost" if glance.how in LOSSES else "failed" if glance.how == "failed" else None


def _of_claim(glance: Glance, expires_at: int, ttl_ms: int, now: int) -> Attention | None:
    if expires_at <= now:
        return "lost"
    if is_stuck(glance, now):
        return "stuck"
    if now >= late_at(expires_at, ttl_ms):
        return "late"
    return "stopping" if glance.is_stopping else None


def group_of(glance: Glance, now: int) -> Group:
    attention = attention_of(glance, now)
    if attention is not None:
        return attention
    if not glance.is_live(now):
        return "ended"
    return "taken over" if glance.is_taken_over else "live"


def sort_key(glance: Glance, now: int) -> SortKey:
    """Newest first within each group."""
    newest = glance.claimed_at if glance.is_live(now) else glance.last_end(now)
    return RANKS[group_of(glance, now)], -(newest or 0), glance.job_id


def loss_sort_key(glance: Glance, now: int) -> SortKey:
    """Newest loss first."""
    return 0, -glance.last_end(now), glance.job_id


# From the log


class EndedClaim(msgspec.Struct, frozen=True):
    entry: LogEntry
    details: Ended

    @property
    def is_loss(self) -> bool:
        return self.entry.type in LOSSES


class BegunClaim(msgspec.Struct, frozen=True):
    """None if the log no longer says how the claim began."""

    principal: str | None = None
    session_id: str | None = None
    details: Claimed | None = None


UNKNOWN = BegunClaim()


def read_ends(entries: Iterable[LogEntry], since: int) -> list[EndedClaim]:
    """Those of `entries` that ended a claim that was live after `since`."""
    decoded = ((entry, decode_details(entry)) for entry in entries)
    return [
        EndedClaim(entry, details)
        for entry, details in decoded
        if isinstance(details, Ended) and details.ended_at >= since
    ]


def read_beginnings(entries: Iterable[LogEntry]) -> dict[int, BegunClaim]:
    """By fencing token, which is the seq of the event."""
    found: dict[int, BegunClaim] = {}
    for entry in entries:
        details = decode_details(entry)
        if isinstance(details, Claimed):
            session_id = None if entry.session_id is None else id_of(entry.session_id)
            found[entry.seq] = BegunClaim(entry.actor, session_id, details)
    return found


# Which jobs


def candidates(
    question: ListClaims, live: Iterable[Glance], ends: Sequence[EndedClaim], now: int, since: int
) -> list[Glance]:
    """The jobs that seem to match the question, in display order.

    `ends` are in log order. What happened to a job since its last claim ended is not known yet: jobs whose status at
    that time was not the one asked for come last.
    """
    lost = {one.entry.job_id for one in ends if one.is_loss}
    found = {glance.job_id: _marked(glance) if glance.job_id in lost else glance for glance in live}
    for one in ends:
        if not _is_about(question, one):
            continue
        job_id, how, details = one.entry.job_id or "", one.entry.type, one.details
        known = found.get(job_id)
        if known is None or (known.expires_at is None and how != "undone"):
            found[job_id] = Glance(job_id, details.status, how=how, ended_at=details.ended_at)
        elif how != "undone":
            found[job_id] = msgspec.structs.replace(known, ended_at=details.ended_at)
    key = loss_sort_key if question.lost else sort_key
    wanted = [glance for glance in found.values() if _is_wanted(question, glance, now, since)]
    return sorted(wanted, key=lambda glance: (question.status not in {None, glance.status}, key(glance, now)))


def _marked(glance: Glance) -> Glance:
    return msgspec.structs.replace(glance, is_taken_over=True)


def _is_about(question: ListClaims, ended: EndedClaim) -> bool:
    return (
        (not question.lost or ended.is_loss)
        and question.owner in {None, ended.details.owner}
        and question.queue in {None, ended.entry.queue}
    )


def _is_wanted(question: ListClaims, glance: Glance, now: int, since: int) -> bool:
    if glance.is_live(now) and not question.lost:
        return question.status in {None, "claimed"}
    return glance.last_end(now) >= since


class JobStory(msgspec.Struct, frozen=True):
    """A job as of now, and how claims on it ended, oldest first."""

    job: Job
    ended: list[EndedClaim]
    is_of_losses: bool = False
    """Whether it is shown because of its losses. If so, they and the claims right after them are the last to be cut."""

    @property
    def shown(self) -> list[EndedClaim]:
        room = CLAIMS_PER_ROW - (self.job.claim is not None)
        if not self.is_of_losses:
            return self.ended[-room:]
        places = sorted(range(len(self.ended)), key=lambda place: (self._is_of_loss(place), place))
        return [self.ended[place] for place in sorted(places[-room:])]

    def _is_of_loss(self, place: int) -> bool:
        return any(one.is_loss for one in self.ended[max(0, place - 1) : place + 1])

    @property
    def tokens(self) -> list[int]:
        """The fencing tokens of the claims shown."""
        ended = [one.details.fencing_token for one in self.shown]
        return ended if self.job.claim is None else [*ended, self.job.claim.fencing_token]

    def matches(self, question: ListClaims) -> bool:
        job = self.job
        if question.status not in {None, job.status} or question.queue not in {None, job.queue}:
            return False
        if question.lost and not any(one.is_loss for one in self.ended):
            return False
        owners = [one.details.owner for one in self.ended] + ([job.claim.owner] if job.claim else [])
        return question.owner in owners if question.owner is not None else bool(owners)

    @property
    def _last_outcome(self) -> str | None:
        """None once the job has left the state its last claim put it in: requeueing it settles the matter."""
        left = self.ended[-1].details if self.ended else None
        if (
            left is None
            or left.status == "free"
            or (left.status, left.available_at) == (self.job.status, self.job.available_at)
        ):
            return self.job.last_outcome
        return None

    def glance(self, ws: WorkingSet) -> Glance:
        job, claim = self.job, self.job.claim
        known = [one for one in self.ended if one.entry.type != "undone"] or self.ended
        counted = [one.details.ended_at for one in known if one.is_loss or not self.is_of_losses]
        how, ended_at = self._last_outcome, max(counted, default=0)
        if claim is None:
            return Glance(job.job_id, job.status, how=how, ended_at=ended_at)
        return Glance(
            job.job_id,
            job.status,
            claim.claimed_at,
            views.expiry_of(ws, claim),
            views.ttl_of(ws, claim),
            claim.max_silence_ms,
            claim.last_progress_at,
            claim.stop_request is not None,
            how,
            ended_at,
            any(one.is_loss for one in self.ended),
        )

    def view(self, ws: WorkingSet, begun: dict[int, BegunClaim], attention: Attention | None) -> JobClaims:
        job, shown = self.job, self.shown
        claims = [ended_claim_view(one, begun.get(one.details.fencing_token, UNKNOWN)) for one in shown]
        if job.claim is not None:
            claims.append(live_claim_view(ws, job, job.claim, begun.get(job.claim.fencing_token, UNKNOWN)))
        return JobClaims(
            job_id=job.job_id,
            queue=job.queue,
            kind=job.kind,
            status=job.status,
            attention=attention,
            claims=claims,
            more=len(shown) < len(self.ended),
        )


def ended_claim_view(ended: EndedClaim, begun: BegunClaim) -> ClaimView:
    details, first = ended.details, begun.details
    ttl_ms = details.ttl_ms if first is None or details.ttl_ms is not None else first.ttl_ms
    reason = details.reason or details.error
    if reason is None and ttl_ms is not None and details.late_ms is not None:
        reason = no_heartbeat(ttl_ms, details.late_ms)
    return ClaimView(
        owner=details.owner,
        principal=begun.principal,
        fencing_token=details.fencing_token,
        attempt=details.attempt,
        claimed_at=to_datetime(details.claimed_at),
        heartbeat_at=to_datetime(details.heartbeat_at),
        ttl=views.to_seconds(ttl_ms),
        ended_at=to_datetime(details.ended_at),
        how=ended.entry.type,  # type: ignore[arg-type]  # `Ended` is the struct of exactly these types
        reason=reason,
        note=details.note,
        took_over_from=first.took_over_from if first else None,
        handed_over_by=first.handed_over_by if first else None,
        session_id=begun.session_id,
        host=first.host if first else None,
        pid=first.pid if first else None,
    )


def live_claim_view(ws: WorkingSet, job: Job, claim: Claim, begun: BegunClaim) -> ClaimView:
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
        took_over_from=begun.details.took_over_from if begun.details else None,
        handed_over_by=begun.details.handed_over_by if begun.details else None,
        progress=views.progress_view(claim.progress),
        late_at=to_datetime(views.late_at_of(ws, claim)),
        late=views.is_late_claim(ws, claim),
        stuck=is_stuck(claim, ws.now),
        max_silence=views.to_seconds(claim.max_silence_ms),
        stop_requested=views.stop_view(claim),
        session_id=views.session_id_of(claim),
        host=claim.host,
        pid=claim.pid,
    )
