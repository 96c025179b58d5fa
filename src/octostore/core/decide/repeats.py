"""Calls that arrive again, late or out of order: each gets the reply of the call it repeats, and changes nothing."""

from collections.abc import Callable
from operator import attrgetter

from octostore.core import views
from octostore.core.commands import ClaimJob, ClaimNext, ClaimTask, OpenSession
from octostore.core.errors import LeaseLost
from octostore.core.model import Claim, EndedRequest, Job, Session
from octostore.core.moments import to_datetime
from octostore.core.replies import AttemptView, ClaimReply
from octostore.core.session_keys import id_of, key_in
from octostore.core.working_set import WorkingSet


def is_repeat(claim: Claim, command: ClaimJob | ClaimNext | ClaimTask) -> bool:
    return (
        command.request_id is not None
        and claim.request_id == command.request_id
        and claim.principal == command.principal
    )


def replay_claim(ws: WorkingSet, job: Job, claim: Claim) -> ClaimReply:
    """The same claim again. Someone now knows of it, so it can no longer be undone."""
    if not claim.is_replayed:
        claim.is_replayed = True
        ws.touch_job(job)
    return views.claimed_reply(ws, job, claim, replayed=True)


def note_replay(ws: WorkingSet, session: Session) -> None:
    """The same session again."""
    if not session.is_replayed:
        session.is_replayed = True
        ws.touch_session(session)


def comes_late(number: int | None, newest: int | None) -> bool:
    """Whether a numbered write was accepted before, or is older than one that was."""
    return number is not None and newest is not None and number <= newest


def check_not_ended(ws: WorkingSet, command: ClaimJob | ClaimNext | ClaimTask | OpenSession) -> None:
    """Raises `LeaseLost` if this request already had what it asks for and that has ended: it must not get it again."""
    had = what_has_ended(ws, command)
    if had:
        raise _lost(ws, max(reversed(had), key=_ended_at))  # an expiry may be recorded after what ended later


_ended_at = attrgetter("ended_at")


def what_has_ended(ws: WorkingSet, command: ClaimJob | ClaimNext | ClaimTask | OpenSession) -> list[EndedRequest]:
    """What this request had of what it asks for, in the order in which the ends were recorded."""
    if command.request_id is None:
        return []
    return [ended for ended in ws.ended[command.principal, command.request_id] if _is_what(command)(ended)]


def _is_what(command: ClaimJob | ClaimNext | ClaimTask | OpenSession) -> Callable[[EndedRequest], bool]:
    """Whether it is what `command` asks for: a request id may be used once per job, queue and session."""
    match command:
        case ClaimJob():
            return lambda ended: ended.job_id == command.job_id
        case ClaimNext():
            return lambda ended: ended.queue == command.queue
        case ClaimTask():
            return lambda ended: ended.session_id == key_in(command)
        case OpenSession():
            return lambda ended: ended.session_id == key_in(command) and ended.job_id is None


def _lost(ws: WorkingSet, ended: EndedRequest) -> LeaseLost:
    if ended.job_id is not None:
        what, name = "claim made", ended.job_id
    else:
        what, name = "session opened", id_of(ended.session_id) if ended.session_id is not None else ""
    how = ended.how.replace("_", " ")
    why = f"the {what} by this request ended at {to_datetime(ended.ended_at):%Y-%m-%d %H:%M:%S} UTC ({how})"
    job = ws.jobs.get(name) if ended.job_id is not None else None
    holder = views.owner_view(ws, job) if job is not None else None
    if holder is not None:
        why += f"; {holder.owner!r} has held the job since {holder.claimed_at:%Y-%m-%d %H:%M:%S} UTC"
    return LeaseLost(name, f"{why}. Try again with a new request_id", ended=_attempt(ended, job), holder=holder)


def _attempt(ended: EndedRequest, job: Job | None) -> AttemptView | None:
    """As the job remembers it, if it does."""
    known = [attempt for attempt in views.previous(job) if attempt.fencing_token == ended.fencing_token] if job else []
    if known:
        return known[0]
    if ended.how == "closed" or ended.how == "handed_over" or ended.job_id is None:  # noqa: PLR1714  # for mypy
        return None
    return AttemptView(
        owner=ended.owner,
        attempt=ended.attempt,
        fencing_token=ended.fencing_token,
        claimed_at=to_datetime(ended.claimed_at),
        ended_at=to_datetime(ended.ended_at),
        how=ended.how,
        error=None,
        note=None,
    )
