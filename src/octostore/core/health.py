"""Whether work is getting done: figures about all jobs and sessions, judged by thresholds, with reasons in words."""

from datetime import datetime

import msgspec

from octostore.core.beats import is_late
from octostore.core.errors import InvalidInput
from octostore.core.model import HealthStatus, Phase
from octostore.core.replies import Figures, Reply, SessionView

TAKEN_BACK_MS = 3_600_000
"""How far back losses are counted."""


class Threshold(msgspec.Struct, frozen=True):
    """The counts at which the status changes; None means never.

    Example:
        >>> strict = octostore.Thresholds(dead=octostore.Threshold(1, 10))
        >>> store.health(strict).status
        'ok'
    """

    degraded: float | None = None
    unhealthy: float | None = None

    def __post_init__(self) -> None:
        if self.degraded is not None and self.unhealthy is not None and self.degraded > self.unhealthy:
            raise InvalidInput("threshold", "must not be lower for unhealthy than for degraded")


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds by which `health` judges.

    Example:
        >>> octostore.Thresholds(waiting=octostore.Threshold(1_000, 10_000)).dead.degraded
        1
    """

    late: Threshold = Threshold(1, 10)
    stuck: Threshold = Threshold(1, 10)
    dead: Threshold = Threshold(1, 100)
    taken_back: Threshold = Threshold(5, 50)
    waiting: Threshold = Threshold(None, None)
    oldest_waiting_seconds: Threshold = Threshold(300, 3_600)


class SessionHealth(Reply, frozen=True):
    """An open session, and whether its heartbeats are late."""

    session_id: str
    principal: str
    agent: str
    phase: Phase
    heartbeat_age_seconds: float
    is_late: bool
    jobs: list[str]


class Health(Reply, frozen=True):
    """`degraded` means that someone should look, `unhealthy` that work is not getting done. `reasons` says why."""

    status: HealthStatus
    reasons: list[str]
    queued: int
    running: int
    late: int
    dead: int
    oldest_waiting_seconds: float | None
    takeovers_last_hour: int
    open_sessions: int
    sessions: list[SessionHealth]
    store_id: str = ""
    stuck: int = 0


def judge(figures: Figures, sessions: list[SessionView], thresholds: Thresholds) -> Health:
    status, reasons = _judgement(figures, thresholds)
    return Health(
        status=status,
        reasons=reasons,
        store_id=figures.store_id,
        queued=figures.waiting,
        running=figures.claimed,
        late=figures.late,
        stuck=figures.stuck,
        dead=figures.dead,
        oldest_waiting_seconds=_waited(figures),
        takeovers_last_hour=figures.taken_back,
        open_sessions=figures.open_sessions,
        sessions=[_session_health(session, figures.at) for session in sessions],
    )


def judged(figures: Figures) -> Figures:
    """Judged by the default thresholds."""
    status, reasons = _judgement(figures, Thresholds())
    return msgspec.structs.replace(figures, status=status, reasons=reasons)


def _waited(figures: Figures) -> float | None:
    return None if figures.oldest_due_at is None else (figures.at - figures.oldest_due_at).total_seconds()


def _judgement(figures: Figures, thresholds: Thresholds) -> tuple[HealthStatus, list[str]]:
    waited = _waited(figures) or 0
    lost = _many(figures.taken_back, "claim expired or was", "claims expired or were")
    measured: list[tuple[Threshold, float, str]] = [
        (thresholds.oldest_waiting_seconds, waited, f"a job has been waiting for {waited:,.0f} s"),
        (thresholds.waiting, figures.waiting, f"{_many(figures.waiting, 'job is', 'jobs are')} waiting"),
        (thresholds.late, figures.late, f"{_many(figures.late, 'claim is', 'claims are')} late with heartbeats"),
        (
            thresholds.stuck,
            figures.stuck,
            f"{_many(figures.stuck, 'owner is', 'owners are')} stuck: alive, but making no progress",
        ),
        (thresholds.taken_back, figures.taken_back, f"{lost} taken away in the last hour"),
        (thresholds.dead, figures.dead, f"{_many(figures.dead, 'dead job needs', 'dead jobs need')} attention"),
    ]
    found = [(_level(threshold, value), text) for threshold, value, text in measured]
    status: HealthStatus = "ok"
    for level in ("degraded", "unhealthy"):
        if any(reached == level for reached, _ in found):
            status = level
    worst_first = sorted(found, key=lambda one: one[0] != "unhealthy")
    return status, [text for level, text in worst_first if level != "ok"]


def _session_health(session: SessionView, now: datetime) -> SessionHealth:
    return SessionHealth(
        session_id=session.session_id,
        principal=session.principal,
        agent=session.agent,
        phase=session.phase,
        heartbeat_age_seconds=max(0.0, (now - session.heartbeat_at).total_seconds()),
        is_late=is_late(session.heartbeat_at, session.expires_at, now),
        jobs=session.jobs,
    )


def _level(threshold: Threshold, value: float) -> HealthStatus:
    if threshold.unhealthy is not None and value >= threshold.unhealthy:
        return "unhealthy"
    if threshold.degraded is not None and value >= threshold.degraded:
        return "degraded"
    return "ok"


def _many(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"
