"""The calls of the library as commands: defaults filled in, JSON encoded, and each safe to send twice."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from octostore.client.owner import default_owner
from octostore.core import commands as c
from octostore.core.encoding import encode_any, encode_json
from octostore.core.errors import InvalidInput
from octostore.core.limits import MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT
from octostore.core.model import Outcome, Phase, Scope
from octostore.core.moments import to_moment
from octostore.stores.ids import new_job_id, new_request_id, new_session_id, new_token_id


def claim_job(
    job_id: str,
    owner: str | None,
    metadata: Any,
    ttl: float,
    *,
    session_id: str | None,
    request_id: str | None,
    again: bool,
    lock_delay: float,
) -> c.ClaimJob:
    return c.ClaimJob(
        job_id=job_id,
        owner=default_owner() if owner is None else owner,
        metadata=encode_json("metadata", metadata),
        ttl=ttl,
        session_id=session_id,
        request_id=new_request_id() if request_id is None else request_id,
        again=again,
        lock_delay=lock_delay,
    )


def claim_jobs(job_ids: Iterable[str], owner: str | None, metadata: Any, ttl: float, **more: Any) -> list[c.ClaimJob]:
    """All on the same terms, and without request ids of their own."""
    who = default_owner() if owner is None else owner
    document = encode_json("metadata", metadata)
    return [c.ClaimJob(job_id=job_id, owner=who, metadata=document, ttl=ttl, **more) for job_id in job_ids]


def claim_next(
    queue: str,
    *,
    kinds: Sequence[str] | None,
    owner: str | None,
    metadata: Any,
    ttl: float,
    session_id: str | None,
    request_id: str | None,
) -> c.ClaimNext:
    return c.ClaimNext(
        queue=queue,
        kinds=None if kinds is None else _listed("kinds", kinds),
        owner=default_owner() if owner is None else owner,
        metadata=encode_json("metadata", metadata),
        ttl=ttl,
        session_id=session_id,
        request_id=new_request_id() if request_id is None else request_id,
    )


def claim_task(
    session_id: str,
    agent: str | None,
    *,
    queues: Sequence[str],
    kinds: Sequence[str] | None,
    metadata: Any,
    ttl: float,
    request_id: str | None,
) -> c.ClaimTask:
    return c.ClaimTask(
        session_id=session_id,
        owner=default_owner() if agent is None else agent,
        queues=_listed("queues", queues),
        kinds=None if kinds is None else _listed("kinds", kinds),
        metadata=encode_json("metadata", metadata),
        ttl=ttl,
        request_id=new_request_id() if request_id is None else request_id,
    )


def _listed(field: str, words: Sequence[str]) -> tuple[str, ...]:
    if isinstance(words, str):
        # It would pass for a list of one-letter words, and the worker would wait for ever.
        raise InvalidInput(field, f"must be a list of {field}, such as [{words!r}]")
    return tuple(words)


def checkpoint_job(job_id: str, lease_id: str, data: Any) -> c.CheckpointJob:
    return c.CheckpointJob(job_id=job_id, lease_id=lease_id, data=encode_any("checkpoint", data))


def release_job(
    job_id: str,
    lease_id: str,
    outcome: Outcome,
    *,
    result: Any,
    error: str | None,
    note: str | None,
    retry_after: float | None,
) -> c.ReleaseJob:
    return c.ReleaseJob(
        job_id=job_id,
        lease_id=lease_id,
        outcome=outcome,
        result=encode_json("result", result),
        error=error,
        note=note,
        retry_after=retry_after,
    )


def release_task(
    session_id: str,
    job_id: str,
    lease_id: str,
    outcome: Outcome,
    *,
    result: Any,
    error: str | None,
    note: str | None,
    retry_after: float | None,
) -> c.ReleaseTask:
    return c.ReleaseTask(
        session_id=session_id,
        job_id=job_id,
        lease_id=lease_id,
        outcome=outcome,
        result=encode_json("result", result),
        error=error,
        note=note,
        retry_after=retry_after,
    )


def enqueue(
    kind: str,
    payload: Any,
    *,
    job_id: str | None,
    queue: str,
    priority: int,
    run_at: datetime | None,
    max_attempts: int,
) -> c.Enqueue:
    return c.Enqueue(
        job_id=new_job_id() if job_id is None else job_id,
        kind=kind,
        payload=encode_json("payload", payload),
        queue=queue,
        priority=priority,
        run_at=None if run_at is None else to_moment("run_at", run_at),
        max_attempts=max_attempts,
    )


def enqueue_each(jobs: Iterable[Mapping[str, Any]], usual: dict[str, Any]) -> list[c.Enqueue]:
    """`usual` is what holds for all that do not say otherwise."""
    usual = {
        "payload": None,
        "job_id": None,
        "queue": "default",
        "priority": PRIORITY_DEFAULT,
        "run_at": None,
        "max_attempts": MAX_ATTEMPTS_DEFAULT,
        **usual,
    }
    wanted = [{**usual, **job} for job in jobs]
    for job in wanted:
        unknown = job.keys() - usual.keys() - {"kind"}
        if unknown or "kind" not in job:
            raise InvalidInput(
                *((f"{unknown.pop()}", "is nothing that a job has") if unknown else ("kind", "is required"))
            )
    return [enqueue(**job) for job in wanted]


def open_session(agent: str | None, ttl: float, session_id: str | None, request_id: str | None) -> c.OpenSession:
    return c.OpenSession(
        session_id=new_session_id() if session_id is None else session_id,
        agent=default_owner() if agent is None else agent,
        ttl=ttl,
        request_id=new_request_id() if request_id is None else request_id,
    )


def save_session(session_id: str, lease_id: str, context: Any, phase: Phase | None) -> c.SaveSession:
    return c.SaveSession(session_id=session_id, lease_id=lease_id, context=encode_any("context", context), phase=phase)


def create_token(
    token: str, name: str, *, scopes: Sequence[Scope], prefix: str, expires_in: float | None
) -> c.CreateToken:
    from octostore.wire.tokens import digest_of  # noqa: PLC0415  # few processes make one

    if isinstance(scopes, str):
        raise InvalidInput("scopes", f"must be a list of scopes, such as [{scopes!r}]")
    return c.CreateToken(
        token_id=new_token_id(),
        name=name,
        digest=digest_of(token),
        scopes=tuple(scopes),
        prefix=prefix,
        expires_in=expires_in,
    )
