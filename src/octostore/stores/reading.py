"""Replies to questions, from one consistent snapshot. Expiry is applied in memory, by the core's rule, and not saved.

The rules are imported only if something has expired, so that a process that only reads starts fast.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from octostore.core import questions as q
from octostore.core import views
from octostore.core.errors import NotFound
from octostore.core.events import public_event
from octostore.core.health import judged
from octostore.core.limits import JOBS_LOOKED_THROUGH, PAGE_MAX
from octostore.core.model import LOCAL, Job, Scope, Session, read_history
from octostore.core.moments import to_datetime
from octostore.core.needs import JobFilter, Needs
from octostore.core.replies import (
    ClaimedCount,
    EventPage,
    Figures,
    FoundLease,
    FoundTokens,
    Heartbeats,
    JobPage,
    JobView,
    PrincipalView,
    QueueList,
    QueueStatus,
    SessionPage,
    SessionView,
    SimilarNames,
    StoreKey,
    TokenList,
    TokenView,
)
from octostore.core.retry import RetryPolicy
from octostore.core.session_keys import SessionKey, id_of, no_such_session, session_key
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet
from octostore.stores.base import Backend, Reading, SessionFilter
from octostore.stores.clock import Clock
from octostore.stores.retrying import retrying

if TYPE_CHECKING:
    from octostore.core.claim_replies import ClaimsPage


def ask(backend: Backend, question: q.Question[q.A_co], clock: Clock, retry: RetryPolicy) -> q.A_co:
    return retrying(lambda: _ask_once(backend, question, clock, retry))


def _ask_once(backend: Backend, question: q.Question[q.A_co], clock: Clock, retry: RetryPolicy) -> q.A_co:
    with backend.reading() as reading:
        counters = reading.counters()
        ws = WorkingSet(now=clock(counters.mark).now, seq=counters.seq)
        handle = _HANDLERS.get(type(question))
        if handle is None:
            raise TypeError(f"stores cannot reply to a {type(question).__name__}")
        reply: q.A_co = handle(reading, ws, question, _sources(retry))
        return reply


def _sources(retry: RetryPolicy) -> Sources:
    """A snapshot claims nothing; for a retry that is not recorded yet, it reports the latest possible moment."""
    return Sources(new_lease_id=str, jitter=float, retry=retry)


def _get_job(reading: Reading, ws: WorkingSet, question: q.GetJob, sources: Sources) -> JobView:
    reading.load(ws, Needs(jobs={question.job_id}, documents_of={question.job_id}, sweep_limit=0))
    if ws.jobs[question.job_id] is None:
        return _never_seen(question.job_id)
    return views.job_view(ws, job_as_of_now(ws, question.job_id, sources))


def job_as_of_now(ws: WorkingSet, job_id: str, sources: Sources) -> Job:
    """The job as of now, whether or not its expiry is recorded."""
    job = ws.job(job_id)
    if job.claim is None or views.expiry_of(ws, job.claim) > ws.now:
        return job
    from octostore.core.decide.expiry import job_as_of_now as record_expiry  # noqa: PLC0415

    return record_expiry(ws, job_id, sources)


def _settle_session(ws: WorkingSet, session: Session, sources: Sources) -> None:
    if session.status == "open" and session.expires_at <= ws.now:
        from octostore.core.decide.expiry import settle_session  # noqa: PLC0415

        settle_session(ws, session, sources)


def _never_seen(job_id: str) -> JobView:
    return JobView(
        job_id=job_id,
        status="free",
        queue=None,
        kind=None,
        priority=None,
        attempts=0,
        max_attempts=None,
        available_at=None,
        created_at=None,
        claim=None,
        owner=None,
        last_outcome=None,
        error=None,
        note=None,
        is_known=False,
    )


def _find_similar(reading: Reading, _ws: WorkingSet, question: q.FindSimilar, _sources: Sources) -> SimilarNames:
    from octostore.core.similar import NAMES_LOOKED_AT, most_similar, places_near  # noqa: PLC0415

    name = question.job_id
    found = reading.names_near(places_near(name), question.prefix, NAMES_LOOKED_AT)
    return SimilarNames(job_id=name, is_known=name in found, similar=most_similar(name, found))


def _list_jobs(reading: Reading, ws: WorkingSet, question: q.ListJobs, sources: Sources) -> JobPage:
    if question.order == "run":
        from octostore.stores.reading_queues import list_in_run_order  # noqa: PLC0415  # here and below: rarely needed

        return list_in_run_order(reading, ws, question, sources)
    found: list[Job] = []
    after: str | None = question.cursor or ""
    limit, looked_at = PAGE_MAX if question.is_searching else question.limit + 1, 0
    while after is not None and len(found) <= question.limit:
        if question.is_searching and looked_at >= JOBS_LOOKED_THROUGH:
            break
        wanted = JobFilter(question.stored_status, question.prefix or "", question.queue, after)
        page = [job_as_of_now(ws, job.job_id, sources) for job in reading.list_jobs(ws, wanted, limit)]
        found += [job for job in page if question.matches(job)]
        looked_at += len(page)
        after = page[-1].job_id if len(page) == limit else None
    jobs = [views.job_view(ws, job, with_documents=False) for job in found[: question.limit]]
    return JobPage(jobs=jobs, cursor=jobs[-1].job_id if len(found) > len(jobs) else after)


def _list_heartbeats(reading: Reading, ws: WorkingSet, question: q.ListHeartbeats, _sources: Sources) -> Heartbeats:
    claimed = {job.job_id: job.claim for job in reading.claimed_jobs(ws, question.job_ids)}
    wanted = [(job_id, claimed.get(job_id)) for job_id in dict.fromkeys(question.job_ids)]
    return Heartbeats(
        at=to_datetime(ws.now),
        claims=[
            views.heartbeat_view(ws, job_id, claim)
            for job_id, claim in wanted
            if claim is not None and views.expiry_of(ws, claim) > ws.now
        ],
    )


def _list_claims(reading: Reading, ws: WorkingSet, question: q.ListClaims, sources: Sources) -> "ClaimsPage":
    from octostore.stores.reading_claims import list_claims  # noqa: PLC0415

    return list_claims(reading, ws, question, sources)


def _get_queue(reading: Reading, ws: WorkingSet, question: q.GetQueue, sources: Sources) -> QueueStatus:
    from octostore.stores.reading_queues import get_queue  # noqa: PLC0415

    return get_queue(reading, ws, question, sources)


def _list_queues(reading: Reading, ws: WorkingSet, question: q.ListQueues, sources: Sources) -> QueueList:
    from octostore.stores.reading_queues import list_queues  # noqa: PLC0415

    return list_queues(reading, ws, question, sources)


def _count_claimed(reading: Reading, _ws: WorkingSet, question: q.CountClaimed, _sources: Sources) -> ClaimedCount:
    return ClaimedCount(number=reading.count_claimed(question.prefix))


def _list_events(reading: Reading, _ws: WorkingSet, question: q.ListEvents, _sources: Sources) -> EventPage:
    entries, looked_through = reading.list_events(question)
    return EventPage(events=[public_event(entry) for entry in entries], after=looked_through)


def _get_session(reading: Reading, ws: WorkingSet, question: q.GetSession, sources: Sources) -> SessionView:
    key = session_key(LOCAL, question.session_id)
    reading.load(ws, Needs(sessions={key}, claims_of={key}, sweep_limit=0))
    session = ws.session(key)
    if session is None:
        raise no_such_session(key)
    _settle_session(ws, session, sources)
    return views.session_view(ws, session)


def _list_sessions(reading: Reading, ws: WorkingSet, question: q.ListSessions, sources: Sources) -> SessionPage:
    wanted = SessionFilter(question.status, question.principal, question.cursor or "", question.limit + 1)
    found = reading.list_sessions(ws, wanted)
    page = found[: question.limit]
    reading.load(ws, Needs(claims_of={session.session_id for session in page}, sweep_limit=0))
    for session in page:
        _settle_session(ws, session, sources)
    return SessionPage(
        sessions=[views.session_view(ws, session, with_context=False) for session in page],
        cursor=page[-1].session_id if len(found) > len(page) else None,
    )


def _find_token(reading: Reading, _ws: WorkingSet, question: q.FindToken, _sources: Sources) -> TokenView:
    view = _tokens_by_digest(reading, [question.digest])[0]
    if view is None:
        raise NotFound("no such token")
    return view


def _find_tokens(reading: Reading, _ws: WorkingSet, question: q.FindTokens, _sources: Sources) -> FoundTokens:
    return FoundTokens(tokens=_tokens_by_digest(reading, question.digests))


def _tokens_by_digest(reading: Reading, digests: Sequence[bytes]) -> list[TokenView | None]:
    views_by_digest = {token.digest: views.token_view(token) for token in reading.find_tokens(digests)}
    return [views_by_digest.get(digest) for digest in digests]


def _find_lease(reading: Reading, ws: WorkingSet, question: q.FindLease, _sources: Sources) -> FoundLease:
    reading.load(ws, Needs(jobs={question.job_id}, sweep_limit=0))
    job = ws.job(question.job_id)
    known = {attempt.fencing_token: attempt.lease_id for attempt in read_history(job)}
    claim = job.claim
    if claim is None or claim.fencing_token != question.fencing_token:
        return FoundLease(lease_id=known.get(question.fencing_token) or None)
    if claim.session_id is None:
        return FoundLease(lease_id=claim.lease_id)
    session_lease_id = _session_lease(ws, claim.session_id)
    return FoundLease(lease_id=claim.lease_id, session_id=id_of(claim.session_id), session_lease_id=session_lease_id)


def _find_session_lease(
    reading: Reading, ws: WorkingSet, question: q.FindSessionLease, _sources: Sources
) -> FoundLease:
    key = session_key(LOCAL, question.session_id)
    reading.load(ws, Needs(sessions={key}, sweep_limit=0))
    session = ws.session(key)
    return FoundLease(lease_id=_session_lease(ws, key), agent=session.agent if session else None)


def _session_lease(ws: WorkingSet, key: SessionKey) -> str | None:
    session = ws.session(key)
    return None if session is None else session.lease_id or None


def _list_tokens(reading: Reading, _ws: WorkingSet, _question: q.ListTokens, _sources: Sources) -> TokenList:
    return TokenList(tokens=[views.token_view(token) for token in reading.list_tokens()])


def _who_am_i(_reading: Reading, _ws: WorkingSet, _question: q.WhoAmI, _sources: Sources) -> PrincipalView:
    return PrincipalView(name=LOCAL, scopes=list(get_args(Scope)), prefix="", expires_at=None)


def _store_key(reading: Reading, _ws: WorkingSet, _question: q.GetStoreKey, _sources: Sources) -> StoreKey:
    return StoreKey(key=reading.store_key(), store_id=reading.counters().store_id)


def _figures(reading: Reading, ws: WorkingSet, _question: q.GetFigures, _sources: Sources) -> Figures:
    return judged(reading.figures(ws.now))


_HANDLERS: dict[type[q.Question[Any]], Callable[..., Any]] = {
    q.GetJob: _get_job,
    q.FindSimilar: _find_similar,
    q.ListJobs: _list_jobs,
    q.ListHeartbeats: _list_heartbeats,
    q.ListClaims: _list_claims,
    q.GetQueue: _get_queue,
    q.ListQueues: _list_queues,
    q.CountClaimed: _count_claimed,
    q.ListEvents: _list_events,
    q.GetSession: _get_session,
    q.ListSessions: _list_sessions,
    q.WhoAmI: _who_am_i,
    q.ListTokens: _list_tokens,
    q.FindToken: _find_token,
    q.FindTokens: _find_tokens,
    q.FindLease: _find_lease,
    q.FindSessionLease: _find_session_lease,
    q.GetStoreKey: _store_key,
    q.GetFigures: _figures,
}
