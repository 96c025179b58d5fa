"""Sessions: a worker's own heartbeat, for any number of claims, and a context that outlives it."""

from typing import TypeAlias

from octostore.core import views
from octostore.core.beats import renew_after
from octostore.core.commands import ClaimTask, CloseSession, HandOverSession, KeepSessionAlive, OpenSession, SaveSession
from octostore.core.decide import needs
from octostore.core.decide.ending import How, end_claim, remember_session
from octostore.core.decide.expiry import job_as_of_now, settle_session
from octostore.core.decide.lease import same_lease
from octostore.core.decide.repeats import check_not_ended, comes_late, note_replay
from octostore.core.decide.rules import decides
from octostore.core.decide.silence import report_if_stuck
from octostore.core.decide.stopping import deliver_stop_request
from octostore.core.errors import Held, LeaseLost, LimitExceeded, NotAllowed
from octostore.core.events import SessionEnded, SessionOpened, SessionSaved
from octostore.core.model import Claim, Job, Phase, Session, read_in_flight
from octostore.core.moments import to_datetime
from octostore.core.phases import next_phase
from octostore.core.replies import ClosedReply, KeepaliveReply, SavedReply, SessionReply, StopView
from octostore.core.session_keys import NamesSession, id_of, key_in, no_such_session
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet

_Write: TypeAlias = KeepSessionAlive | SaveSession | HandOverSession | CloseSession | ClaimTask


@decides(OpenSession, needs.session_with_claims, needs.in_flight, needs.ended, needs.session_count)
def open_session(ws: WorkingSet, command: OpenSession, sources: Sources) -> SessionReply:
    known = own_session(ws, command, sources)
    if known is not None and known.status == "open" and is_repeat(known, command):
        note_replay(ws, known)
        return opened(ws, known, sources, replayed=True)
    check_not_ended(ws, command)
    if known is not None and known.status == "open" and not is_offered_to(known, command):
        raise Held(
            f"session {command.session_id!r}",
            owner=known.agent,
            claimed_at=to_datetime(known.opened_at),
            heartbeat_at=to_datetime(known.heartbeat_at),
            expires_at=to_datetime(known.expires_at),
        )
    return opened(ws, begin_session(ws, command, sources), sources, replayed=False)


def own_session(ws: WorkingSet, command: OpenSession, sources: Sources) -> Session | None:
    """The session with that id as of now, if it exists."""
    known = ws.session(key_in(command))
    if known is not None:
        settle_session(ws, known, sources)
    return known


def is_repeat(session: Session, command: OpenSession) -> bool:
    return command.request_id is not None and session.request_id == command.request_id


def is_offered_to(session: Session, command: OpenSession) -> bool:
    return session.offered and session.agent == command.agent


def _check_count(ws: WorkingSet, command: OpenSession) -> None:
    limit = command.max_sessions
    if limit is not None and ws.session_counts[command.principal] >= limit:
        problem = f"you already have {limit:,} open sessions, the maximum; close one first"
        raise LimitExceeded(problem, limit=limit)


def begin_session(ws: WorkingSet, command: OpenSession, sources: Sources, phase: Phase | None = None) -> Session:
    """A new session, or one that continues: after it ended, or handed over with its claims."""
    key = key_in(command)
    before = ws.session(key)
    if before is None or before.status != "open":
        _check_count(ws, command)
    ttl_ms = round(command.ttl * 1_000)
    details = SessionOpened(
        command.agent,
        ttl_ms,
        ws.now + ttl_ms,
        resumed=before is not None,
        phase=phase,
        phase_before=before.phase if before and phase else None,
        without_lease=command.without_lease,
    )
    ws.record("session_opened", details, actor=command.principal, session_id=key)
    session = ws.session(key)
    if session is None:
        raise AssertionError("a session_opened event makes a session")
    session.lease_id = sources.new_lease_id()
    session.request_id = command.request_id
    session.giver_lease_id = before.giver_lease_id if before and before.offered else None
    for job in ws.claims_of(session.session_id):
        if job.claim is not None:
            job.claim.lease_id = session.lease_id
            job.claim.ttl_ms = session.ttl_ms
            ws.touch_job(job)
    ws.sessions_with_all_claims.add(session.session_id)
    return session


def opened(ws: WorkingSet, session: Session, sources: Sources, *, replayed: bool) -> SessionReply:
    names = [job.job_id for job in ws.claims_of(session.session_id)]
    names += [name for name in read_in_flight(session) if name not in names]
    in_flight = [views.in_flight_view(ws, job_as_of_now(ws, name, sources), session) for name in names]
    return views.opened_reply(ws, session, in_flight, replayed=replayed)


@decides(KeepSessionAlive, needs.session_with_news)
def keep_session_alive(ws: WorkingSet, command: KeepSessionAlive, sources: Sources) -> KeepaliveReply:
    session = held_session(ws, command, sources)
    session.heartbeat_at = ws.now
    session.expires_at = ws.now + session.ttl_ms
    ws.touch_session(session)
    return KeepaliveReply(
        session_id=id_of(session.session_id),
        expires_at=to_datetime(session.expires_at),
        remaining_ms=session.ttl_ms,
        renew_after_ms=renew_after(session.ttl_ms),
        stuck_jobs=[job.job_id for job, claim in _claims_of(ws, session) if report_if_stuck(ws, job, claim)],
        stop_requested=_stops_of(ws, session, command.principal),
    )


def _claims_of(ws: WorkingSet, session: Session) -> list[tuple[Job, Claim]]:
    return [(job, job.claim) for job in ws.claims_of(session.session_id) if job.claim is not None]


def _stops_of(ws: WorkingSet, session: Session, actor: str) -> dict[str, StopView]:
    news = {
        job.job_id: deliver_stop_request(ws, job, claim, actor)
        for job, claim in _claims_of(ws, session)
        if claim.stop_request is not None
    }
    return {job_id: stop for job_id, stop in news.items() if stop is not None}


@decides(SaveSession, needs.session)
def save_session(ws: WorkingSet, command: SaveSession, sources: Sources) -> SavedReply:
    session = held_session(ws, command, sources)
    if comes_late(command.number, session.save_number):
        return _saved(session)
    phase = next_phase(session, command.phase)
    details = SessionSaved(
        context_bytes=len(command.context),
        agent=session.agent,
        phase=phase,
        phase_before=session.phase if phase else None,
    )
    ws.record("session_saved", details, actor=command.principal, session_id=session.session_id)
    ws.set_context(session, command.context)
    session.save_number = command.number or session.save_number
    return _saved(session)


def _saved(session: Session) -> SavedReply:
    return SavedReply(
        session_id=id_of(session.session_id),
        context_seq=session.context_seq or 0,
        phase=session.phase,
        number=session.save_number,
    )


@decides(CloseSession, needs.session_with_claims)
def close_session(ws: WorkingSet, command: CloseSession, sources: Sources) -> ClosedReply:
    session = ws.session(key_in(command))
    if session is None or session.status != "closed" or not may_write(session, command):
        session = held_session(ws, command, sources)
        end_session(ws, session, command.principal, sources)
    return ClosedReply(session_id=id_of(session.session_id))


def end_session(ws: WorkingSet, session: Session, actor: str, sources: Sources, phase: Phase | None = None) -> None:
    for job in ws.claims_of(session.session_id):
        if job.claim is not None:
            end = How("released", ended_at=ws.now, reason="its session was closed")
            end_claim(ws, job, job.claim, end, actor=actor, sources=sources)
    before = session.phase if phase else None
    details = SessionEnded(agent=session.agent, ended_at=ws.now, phase=phase, phase_before=before)
    remember_session(ws, session, "closed", ws.now)
    ws.record("session_closed", details, actor=actor, session_id=session.session_id)


def open_session_of(ws: WorkingSet, command: NamesSession) -> Session:
    """The live session that a claim will be bound to."""
    session = ws.session(key_in(command))
    if session is None:
        raise no_such_session(key_in(command))
    if _has_ended(ws, session):
        raise LeaseLost(id_of(session.session_id), _how_ended(session))
    return session


def held_session(ws: WorkingSet, command: _Write, sources: Sources) -> Session:
    """The live session the command may write to."""
    session = ws.session(key_in(command))
    if session is None or not (may_write(session, command) or session.principal == command.principal):
        raise no_such_session(key_in(command))
    settle_session(ws, session, sources)
    session_id = id_of(session.session_id)
    if not may_write(session, command):
        if command.lease_id is None:
            raise NotAllowed(
                f"writing to session {session_id!r} needs its lease_id. Without it, only an operator (an admin token) "
                "can close the session or hand it over"
            )
        raise LeaseLost(session_id, _what_became_of(ws, session))
    if _has_ended(ws, session):
        raise LeaseLost(session_id, _how_ended(session))
    return session


def may_write(session: Session, command: _Write) -> bool:
    if command.lease_id is not None:
        return same_lease(session.lease_id, command.lease_id)
    if isinstance(command, HandOverSession | CloseSession) and command.is_by_operator:
        return True
    return session.without_lease and session.principal == command.principal


def _what_became_of(ws: WorkingSet, session: Session) -> str:
    """For the holder of an earlier lease."""
    if _has_ended(ws, session):
        return f"{_how_ended(session)}; its last agent was {session.agent!r}"
    if session.offered:
        return f"the session was handed over to {session.agent!r}, who has not opened it yet"
    return f"{session.agent!r} has the session now, and is alive"


def _has_ended(ws: WorkingSet, session: Session) -> bool:
    """Even if its expiry is not recorded yet."""
    return session.status != "open" or session.expires_at <= ws.now


def _how_ended(session: Session) -> str:
    how = "closed" if session.status == "closed" else "expired"
    return f"the session {how} at {to_datetime(session.expires_at):%Y-%m-%d %H:%M:%S} UTC"
