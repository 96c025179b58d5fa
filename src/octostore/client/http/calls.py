"""Commands and questions as HTTP calls, and the answers as replies."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from octostore.core import commands as c
from octostore.core import questions as q
from octostore.core import replies as r
from octostore.core.events import Event
from octostore.core.moments import to_datetime
from octostore.wire import bodies


class HttpCall(NamedTuple):
    method: str
    path: str
    body: bytes | None
    read: Callable[[bytes], Any]
    subject: str = ""
    """What it is about, for error texts."""
    is_repeatable: bool = True
    """Whether doing it twice is the same as once, also when others have done something in between."""


_encode = msgspec.json.Encoder().encode


def call_of(asked: c.Command[Any] | q.Question[Any], wait: float = 0) -> HttpCall:
    """Raises `TypeError` for what only the server itself may ask."""
    make = _CALLS.get(type(asked))
    if make is None:
        raise TypeError(f"a {type(asked).__name__} cannot be asked of a server")
    if isinstance(asked, c.ClaimJob | c.ClaimNext | c.ClaimTask):
        return make(asked, wait)
    return make(asked)


def _raw(document: bytes | None) -> Any:
    return None if document is None else msgspec.Raw(document)


def _path(*segments: str) -> str:
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def _reader(kind: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


_READERS: dict[Any, Callable[[bytes], Any]] = {
    kind: _reader(kind)
    for kind in (
        r.ClaimReply,
        r.HeartbeatReply,
        r.CheckpointReply,
        r.ReleaseReply,
        r.UndoReply,
        r.EnqueueReply,
        r.JobView,
        r.JobPage,
        r.QueueView,
        r.SessionReply,
        r.KeepaliveReply,
        r.SavedReply,
        r.HandedOverReply,
        r.Figures,
        r.SessionView,
        r.SessionPage,
        r.RecoverReply,
        r.TokenView,
        r.TokenList,
        r.PrincipalView,
        r.ProbeReply,
    )
}


def _post(path: str, body: msgspec.Struct | None, kind: Any, subject: str = "", method: str = "POST") -> HttpCall:
    return HttpCall(method, path, None if body is None else _encode(body), _READERS[kind], subject)


def _get(path: str, query: dict[str, Any], read: Callable[[bytes], Any], subject: str = "") -> HttpCall:
    given = urlencode({name: value for name, value in query.items() if value is not None})
    return HttpCall("GET", f"{path}?{given}" if given else path, None, read, subject)


def _terms(asked: c.ClaimTerms, wait: float) -> dict[str, Any]:
    return {
        "owner": asked.owner,
        "metadata": _raw(asked.metadata),
        "ttl_seconds": asked.ttl,
        "wait_seconds": wait,
        "session_id": asked.session_id,
        "request_id": asked.request_id,
        "lock_delay_seconds": asked.lock_delay,
    }


def _claim_job(asked: c.ClaimJob, wait: float) -> HttpCall:
    body = bodies.ClaimBody(**_terms(asked, wait), again=asked.again)
    return _post(_path("jobs", asked.job_id, "claim"), body, r.ClaimReply, asked.job_id)


def _claim_next(asked: c.ClaimNext, wait: float) -> HttpCall:
    body = bodies.ClaimNextBody(**_terms(asked, wait), kinds=None if asked.kinds is None else list(asked.kinds))
    return _post(_path("queues", asked.queue, "claim"), body, r.ClaimReply, asked.queue)


def _claim_task(asked: c.ClaimTask, wait: float) -> HttpCall:
    body = bodies.ClaimTaskBody(
        agent=asked.owner,
        queues=list(asked.queues),
        kinds=None if asked.kinds is None else list(asked.kinds),
        metadata=_raw(asked.metadata),
        ttl_seconds=asked.ttl,
        wait_seconds=wait,
        request_id=asked.request_id,
    )
    return _post(_path("sessions", asked.session_id, "claim"), body, r.ClaimReply, asked.session_id)


def _heartbeat(asked: c.HeartbeatJob) -> HttpCall:
    progress = None
    if asked.note is not None or asked.percent is not None:
        progress = bodies.ProgressBody(note=asked.note, percent=asked.percent)
    body = bodies.HeartbeatBody(lease_id=asked.lease_id, ttl_seconds=asked.ttl, progress=progress, number=asked.number)
    return _post(_path("jobs", asked.job_id, "heartbeat"), body, r.HeartbeatReply, asked.job_id)


def _checkpoint(asked: c.CheckpointJob) -> HttpCall:
    body = bodies.CheckpointBody(lease_id=asked.lease_id, data=_raw(asked.data), number=asked.number)
    return _post(_path("jobs", asked.job_id, "checkpoint"), body, r.CheckpointReply, asked.job_id)


def _ending(asked: c.ReleaseJob) -> dict[str, Any]:
    return {
        "lease_id": asked.lease_id,
        "outcome": asked.outcome,
        "result": _raw(asked.result),
        "error": asked.error,
        "note": asked.note,
        "retry_after_seconds": asked.retry_after,
    }


def _release(asked: c.ReleaseJob) -> HttpCall:
    body = bodies.ReleaseBody(**_ending(asked))
    return _post(_path("jobs", asked.job_id, "release"), body, r.ReleaseReply, asked.job_id)


def _release_task(asked: c.ReleaseTask) -> HttpCall:
    body = bodies.ReleaseTaskBody(**_ending(asked), job_id=asked.job_id)
    return _post(_path("sessions", asked.session_id, "release"), body, r.ReleaseReply, asked.job_id)


def _undo(asked: c.Undo) -> HttpCall:
    body = bodies.UndoBody(lease_id=asked.lease_id, job_id=asked.job_id, session_id=asked.session_id)
    return _post("/undo", body, r.UndoReply, asked.job_id or asked.session_id or "")


def _enqueue(asked: c.Enqueue) -> HttpCall:
    body = bodies.EnqueueBody(
        job_id=asked.job_id,
        kind=asked.kind,
        payload=_raw(asked.payload),
        queue=asked.queue,
        priority=asked.priority,
        run_at=None if asked.run_at is None else to_datetime(asked.run_at),
        max_attempts=asked.max_attempts,
    )
    return _post("/jobs", body, r.EnqueueReply, asked.job_id)


def _requeue(asked: c.RequeueJob) -> HttpCall:
    path = _path("jobs", asked.job_id, "requeue")
    body = bodies.RequeueBody(reason=asked.reason, keep_attempts=asked.keep_attempts)
    return _post(path, body, r.JobView, asked.job_id)._replace(is_repeatable=False)


def _operate(verb: str, *, is_repeatable: bool = True) -> Callable[[Any], HttpCall]:
    def make(asked: c.CancelJob | c.DiscardJob | c.ForceReleaseJob) -> HttpCall:
        path, body = _path("jobs", asked.job_id, verb), bodies.ReasonBody(reason=asked.reason)
        return _post(path, body, r.JobView, asked.job_id)._replace(is_repeatable=is_repeatable)

    return make


def _limit_queue(asked: c.LimitQueue) -> HttpCall:
    body = bodies.LimitQueueBody(max_claimed=asked.max_claimed)
    return _post(_path("queues", asked.queue, "limit"), body, r.QueueView, asked.queue, method="PUT")


def _open_session(asked: c.OpenSession) -> HttpCall:
    body = bodies.OpenSessionBody(
        agent=asked.agent, ttl_seconds=asked.ttl, session_id=asked.session_id, request_id=asked.request_id
    )
    return _post("/sessions", body, r.SessionReply, asked.session_id)


def _keepalive(asked: c.KeepSessionAlive) -> HttpCall:
    body = bodies.SessionLeaseBody(lease_id=asked.lease_id)
    return _post(_path("sessions", asked.session_id, "keepalive"), body, r.KeepaliveReply, asked.session_id)


def _save_session(asked: c.SaveSession) -> HttpCall:
    body = bodies.SaveSessionBody(
        context=_raw(asked.context), phase=asked.phase, lease_id=asked.lease_id, number=asked.number
    )
    return _post(_path("sessions", asked.session_id, "context"), body, r.SavedReply, asked.session_id, method="PUT")


def _hand_over(asked: c.HandOverSession) -> HttpCall:
    body = bodies.HandOverBody(to_agent=asked.to_agent, note=asked.note, lease_id=asked.lease_id)
    return _post(_path("sessions", asked.session_id, "hand-over"), body, r.HandedOverReply, asked.session_id)


def _close_session(asked: c.CloseSession) -> HttpCall:
    def read(nothing: bytes) -> r.ClosedReply:
        if nothing:
            raise ValueError("this is no answer of ours")
        return r.ClosedReply(session_id=asked.session_id)

    body = _encode(bodies.SessionLeaseBody(lease_id=asked.lease_id))
    return HttpCall("DELETE", _path("sessions", asked.session_id), body, read, asked.session_id)


def _create_token(asked: c.CreateToken) -> HttpCall:
    body = bodies.TokenBody(
        token_id=asked.token_id,
        name=asked.name,
        scopes=asked.scopes,
        prefix=asked.prefix,
        expires_in_seconds=asked.expires_in,
        digest=asked.digest.hex(),
    )
    return _post("/tokens", body, r.TokenView, asked.token_id)


def _revoke_token(asked: c.RevokeToken) -> HttpCall:
    return _post(_path("tokens", asked.token_id), None, r.TokenView, asked.token_id, method="DELETE")


def _get_job(asked: q.GetJob) -> HttpCall:
    return _get(_path("jobs", asked.job_id), {}, _READERS[r.JobView], asked.job_id)


def _list_jobs(asked: q.ListJobs) -> HttpCall:
    query = {
        "prefix": asked.prefix or None,
        "status": asked.status,
        "queue": asked.queue,
        "limit": asked.limit,
        "cursor": asked.cursor,
    }
    return _get("/jobs", query, _READERS[r.JobPage])


def _get_session(asked: q.GetSession) -> HttpCall:
    return _get(_path("sessions", asked.session_id), {}, _READERS[r.SessionView], asked.session_id)


def _list_sessions(asked: q.ListSessions) -> HttpCall:
    query = {"status": asked.status, "limit": asked.limit, "cursor": asked.cursor}
    return _get("/sessions", query, _READERS[r.SessionPage])


def _list_events(asked: q.ListEvents) -> HttpCall:
    return _get(events_path(asked), {}, _read_events)


def events_path(asked: q.ListEvents) -> str:
    query = {
        "after": asked.after,
        "job": asked.job_id,
        "prefix": asked.prefix,
        "session": asked.session_id,
        "limit": asked.limit,
    }
    return "/events?" + urlencode({name: value for name, value in query.items() if value is not None})


class _Page(msgspec.Struct):
    events: list[Event]
    after: int


_read_page = msgspec.json.Decoder(_Page).decode
_read_event = msgspec.json.Decoder(Event).decode


def _read_events(body: bytes) -> r.EventPage:
    page = _read_page(body)
    return r.EventPage(events=[_with_moments(event) for event in page.events], after=page.after)


def event_from(data: bytes) -> Event:
    return _with_moments(_read_event(data))


def _with_moments(event: Event) -> Event:
    """The moments among an event's details, as moments again."""
    for name, value in event.data.items():
        if name.endswith("_at") and isinstance(value, str):
            event.data[name] = msgspec.convert(value, datetime)
    return event


_CALLS: dict[type[Any], Callable[..., HttpCall]] = {
    c.ClaimJob: _claim_job,
    c.ClaimNext: _claim_next,
    c.ClaimTask: _claim_task,
    c.HeartbeatJob: _heartbeat,
    c.CheckpointJob: _checkpoint,
    c.ReleaseJob: _release,
    c.ReleaseTask: _release_task,
    c.Undo: _undo,
    c.Enqueue: _enqueue,
    c.CancelJob: _operate("cancel"),
    c.DiscardJob: _operate("discard"),
    # These are about whatever claim or attempt there is: the second time it could be the next one.
    c.RequeueJob: _requeue,
    c.ForceReleaseJob: _operate("force-release", is_repeatable=False),
    c.LimitQueue: _limit_queue,
    c.OpenSession: _open_session,
    c.KeepSessionAlive: _keepalive,
    c.SaveSession: _save_session,
    c.HandOverSession: _hand_over,
    c.CloseSession: _close_session,
    c.CreateToken: _create_token,
    c.RevokeToken: _revoke_token,
    c.Probe: lambda _asked: _get("/readyz", {}, _READERS[r.ProbeReply]),
    c.Recover: lambda _asked: _post("/recover", None, r.RecoverReply),
    q.GetFigures: lambda _asked: _get("/figures", {}, _READERS[r.Figures]),
    q.GetJob: _get_job,
    q.ListJobs: _list_jobs,
    q.ListEvents: _list_events,
    q.GetSession: _get_session,
    q.ListSessions: _list_sessions,
    q.WhoAmI: lambda _asked: _get("/auth/whoami", {}, _READERS[r.PrincipalView]),
    q.ListTokens: lambda _asked: _get("/tokens", {}, _READERS[r.TokenList]),
}
