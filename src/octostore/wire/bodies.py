"""What callers send, and the command that each body stands for."""

import re
from functools import cache
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from octostore.core import commands as c
from octostore.core import limits
from octostore.core.encoding import encode_any, encode_json
from octostore.core.errors import InvalidInput
from octostore.core.model import Outcome
from octostore.core.moments import to_moment
from octostore.wire import fields as f

_HEXADECIMAL = re.compile("[0-9a-fA-F]{64}")


def _is(field: str, *values: Any) -> dict[str, Any]:
    """A condition of JSON Schema."""
    return {"properties": {field: {"enum": list(values)}}, "required": [field]}


class Body(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A field that we do not know is refused, because ignoring it would do something else than was asked for."""

    RULES: ClassVar[list[dict[str, Any]]] = []
    """What holds between fields, as JSON Schema. It is the commands that check it."""


class _Terms(Body):
    owner: f.Owner | None = None
    metadata: f.Metadata = None
    ttl_seconds: f.Ttl = limits.TTL_DEFAULT_SECONDS
    wait_seconds: f.Wait = 0
    session_id: f.BoundTo | None = None
    request_id: f.RequestId | None = None
    lock_delay_seconds: f.LockDelay = 0

    def terms(self, principal: str) -> dict[str, Any]:
        check_wait(self.wait_seconds)
        return {
            "principal": principal,
            "owner": principal if self.owner is None else self.owner,
            "metadata": encode_json("metadata", self.metadata),
            "ttl": self.ttl_seconds,
            "session_id": self.session_id,
            "request_id": self.request_id,
            "lock_delay": self.lock_delay_seconds,
        }


class ClaimBody(_Terms):
    again: Annotated[bool, Meta(description="Claim it although it is done.")] = False

    def command(self, job_id: str, principal: str, max_claims: int | None = None) -> c.ClaimJob:
        return c.ClaimJob(job_id=job_id, again=self.again, max_claims=max_claims, **self.terms(principal))


class ClaimNextBody(_Terms):
    kinds: f.Kinds | None = None

    def command(self, queue: str, principal: str, prefix: str, max_claims: int | None = None) -> c.ClaimNext:
        kinds = None if self.kinds is None else tuple(self.kinds)
        return c.ClaimNext(queue=queue, kinds=kinds, prefix=prefix, max_claims=max_claims, **self.terms(principal))


class ClaimTaskBody(Body):
    agent: f.Agent
    queues: f.TaskQueues
    kinds: f.Kinds | None = None
    metadata: f.Metadata = None
    ttl_seconds: f.Ttl = limits.TTL_DEFAULT_SECONDS
    wait_seconds: f.Wait = 0
    request_id: f.RequestId | None = None

    def command(self, session_id: str, principal: str, prefix: str, max_claims: int | None = None) -> c.ClaimTask:
        check_wait(self.wait_seconds)
        return c.ClaimTask(
            session_id=session_id,
            principal=principal,
            owner=self.agent,
            queues=tuple(self.queues),
            kinds=None if self.kinds is None else tuple(self.kinds),
            prefix=prefix,
            metadata=encode_json("metadata", self.metadata),
            ttl=self.ttl_seconds,
            request_id=self.request_id,
            max_claims=max_claims,
        )


class ProgressBody(Body):
    note: f.ProgressNote | None = None
    percent: f.Percent | None = None


class HeartbeatBody(Body):
    lease_id: f.LeaseId
    ttl_seconds: f.Ttl | None = None
    progress: (
        Annotated[f.ProgressNote | ProgressBody, Meta(description="What is being done: a text, or note and percent.")]
        | None
    ) = None

    number: f.WriteNumber | None = None

    def command(self, job_id: str, principal: str) -> c.HeartbeatJob:
        progress = ProgressBody(note=self.progress) if isinstance(self.progress, str) else self.progress
        return c.HeartbeatJob(
            job_id=job_id,
            principal=principal,
            lease_id=self.lease_id,
            ttl=self.ttl_seconds,
            note=progress.note if progress else None,
            percent=progress.percent if progress else None,
            number=self.number,
        )


class CheckpointBody(Body):
    lease_id: f.LeaseId
    data: f.Checkpoint
    number: f.WriteNumber | None = None

    def command(self, job_id: str, principal: str) -> c.CheckpointJob:
        data = encode_any("checkpoint", self.data)
        return c.CheckpointJob(
            job_id=job_id, principal=principal, lease_id=self.lease_id, data=data, number=self.number
        )


class ReleaseBody(Body):
    lease_id: f.LeaseId
    outcome: Annotated[Outcome, Meta(description="How it went.")] = "released"
    result: f.Result = None
    error: f.ErrorText | None = None
    note: f.Note | None = None
    retry_after_seconds: f.RetryAfter | None = None

    RULES: ClassVar = [
        {"if": _is("outcome", "done"), "else": {"properties": {"result": {"type": "null"}}}},
        {
            "if": _is("outcome", "failed", "deferred"),
            "else": {"properties": {"retry_after_seconds": {"type": "null"}}},
        },
    ]

    def command(self, job_id: str, principal: str) -> c.ReleaseJob:
        return c.ReleaseJob(job_id=job_id, principal=principal, **self.ending())

    def ending(self) -> dict[str, Any]:
        return {
            "lease_id": self.lease_id,
            "outcome": self.outcome,
            "result": encode_json("result", self.result),
            "error": self.error,
            "note": self.note,
            "retry_after": self.retry_after_seconds,
        }


class ReleaseTaskBody(ReleaseBody, kw_only=True):
    job_id: f.JobId

    def task_command(self, session_id: str, principal: str) -> c.ReleaseTask:
        return c.ReleaseTask(session_id=session_id, job_id=self.job_id, principal=principal, **self.ending())


class UndoBody(Body):
    """One of `job_id` and `session_id`: the latter for a session, and for a task that came with one."""

    lease_id: f.LeaseId
    job_id: f.JobId | None = None
    session_id: f.BoundTo | None = None

    RULES: ClassVar = [
        {
            "oneOf": [
                {"properties": {field: {"type": "string"}, other: {"type": "null"}}, "required": [field]}
                for field, other in (("job_id", "session_id"), ("session_id", "job_id"))
            ]
        }
    ]

    def command(self, principal: str) -> c.Undo:
        return c.Undo(lease_id=self.lease_id, job_id=self.job_id, session_id=self.session_id, principal=principal)


class EnqueueBody(Body):
    kind: f.Kind
    payload: f.Payload = None
    job_id: f.NewJobId | None = None
    queue: f.Queue = "default"
    priority: f.Priority = limits.PRIORITY_DEFAULT
    run_at: f.RunAt | None = None
    max_attempts: f.MaxAttempts = limits.MAX_ATTEMPTS_DEFAULT

    def command(self, job_id: str, principal: str) -> c.Enqueue:
        return c.Enqueue(
            job_id=job_id,
            principal=principal,
            kind=self.kind,
            payload=encode_json("payload", self.payload),
            queue=self.queue,
            priority=self.priority,
            run_at=None if self.run_at is None else to_moment("run_at", self.run_at),
            max_attempts=self.max_attempts,
        )


class ReasonBody(Body):
    reason: f.Reason | None = None


class RequeueBody(ReasonBody):
    keep_attempts: f.KeepAttempts = False


class LimitQueueBody(Body):
    max_claimed: f.MaxClaimed | None


class OpenSessionBody(Body):
    """Without an `agent` it is a lock client's session: 60 seconds by default, and never under 10 or over 300."""

    agent: f.Owner | None = None
    ttl_seconds: f.SessionTtl | None = None
    session_id: f.NewSessionId | None = None
    request_id: f.RequestId | None = None

    RULES: ClassVar = [
        {
            "if": {"properties": {"agent": {"type": "string"}}, "required": ["agent"]},
            "then": {"properties": {"ttl_seconds": {"minimum": 1, "maximum": limits.TTL_MAX_MS // 1_000}}},
        }
    ]

    def command(self, session_id: str, principal: str) -> c.OpenSession:
        return c.OpenSession(
            session_id=session_id,
            principal=principal,
            agent=principal if self.agent is None else self.agent,
            ttl=self._ttl(),
            request_id=self.request_id,
        )

    def _ttl(self) -> float:
        if self.agent is not None:
            return limits.TTL_DEFAULT_SECONDS if self.ttl_seconds is None else self.ttl_seconds
        wanted = limits.LOCK_TTL_DEFAULT_SECONDS if self.ttl_seconds is None else self.ttl_seconds
        return min(max(wanted, f.LOCK_SESSION_TTL_MIN), f.LOCK_SESSION_TTL_MAX)


class SessionLeaseBody(Body):
    """The lease may be left out by the principal that opened the session."""

    lease_id: f.LeaseId | None = None


class SaveSessionBody(Body):
    context: f.Context
    phase: f.PhaseWord | None = None
    lease_id: f.LeaseId | None = None
    number: f.WriteNumber | None = None

    def command(self, session_id: str, principal: str) -> c.SaveSession:
        return c.SaveSession(
            session_id=session_id,
            lease_id=self.lease_id,
            principal=principal,
            context=encode_any("context", self.context),
            phase=self.phase,
            number=self.number,
        )


class HandOverBody(Body):
    to_agent: f.ToAgent
    note: f.Note | None = None
    lease_id: f.LeaseId | None = None

    def command(self, session_id: str, principal: str) -> c.HandOverSession:
        return c.HandOverSession(
            session_id=session_id,
            lease_id=self.lease_id,
            principal=principal,
            to_agent=self.to_agent,
            note=self.note,
        )


class TokenBody(Body):
    name: f.TokenName
    scopes: f.Scopes = ("read", "claim")
    prefix: f.Prefix = ""
    expires_in_seconds: f.ExpiresIn | None = None
    token_id: f.NewTokenId | None = None
    digest: f.Digest | None = None


class RotateBody(Body):
    digest: f.Digest | None = None


# The lock routes, as existing clients know them. What else these send is ignored, as it always was.


class LockBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A body of a lock route."""

    RULES: ClassVar[list[dict[str, Any]]] = []


class AcquireBody(LockBody):
    ttl_seconds: f.LockTtl = limits.LOCK_TTL_DEFAULT_SECONDS
    metadata: f.LockMetadata | None = None
    session_id: f.BoundTo | None = None
    ephemeral: Annotated[bool, Meta(description="It is the session's, and ends with it.")] = False
    lock_delay_seconds: f.LockDelay = 0
    holder: f.Holder | None = None

    RULES: ClassVar = [
        {
            "if": _is("ephemeral", True),
            "then": {"properties": {"session_id": {"type": "string"}}, "required": ["session_id"]},
        }
    ]

    def command(self, job_id: str, principal: str, holder: str | None, max_claims: int | None) -> c.AcquireLock:
        """`holder` is what stands for one that the body does not name."""
        return c.AcquireLock(
            job_id=job_id,
            principal=principal,
            owner=principal,
            metadata=encode_json("metadata", self.metadata),
            ttl=self.ttl_seconds,
            session_id=self.session_id,
            ephemeral=self.ephemeral,
            holder=holder if self.holder is None else self.holder,
            lock_delay=self.lock_delay_seconds,
            max_claims=max_claims,
        )


class RenewBody(LockBody):
    lease_id: f.LockLease
    ttl_seconds: f.LockTtl = limits.LOCK_TTL_DEFAULT_SECONDS


class ReleaseLockBody(LockBody):
    lease_id: f.LockLease


def with_whole_numbers(value: Any, kind: type) -> Any:
    """What JSON calls a whole number is one, also where it is written as 5.0: some languages know no other numbers."""
    if isinstance(value, dict):
        for name in _whole_fields(kind):
            if isinstance(value.get(name), float) and value[name].is_integer():
                value[name] = int(value[name])
    return value


@cache
def _whole_fields(kind: type) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind) if _is_whole(msgspec.inspect.type_info(field.type))]


def _is_whole(info: msgspec.inspect.Type) -> bool:
    if isinstance(info, msgspec.inspect.UnionType):
        return any(_is_whole(option) for option in info.types)
    if isinstance(info, msgspec.inspect.Metadata):
        return _is_whole(info.type)
    return isinstance(info, msgspec.inspect.IntType)


def check_wait(seconds: float) -> None:
    limits.check_range("wait_seconds", seconds, 0, f.WAIT_MAX_SECONDS, " seconds")


def digest_from(text: str | None) -> bytes | None:
    if text is None:
        return None
    if not _HEXADECIMAL.fullmatch(text):  # `bytes.fromhex` alone would let blanks through
        raise InvalidInput("digest", "must be 64 hexadecimal digits")
    return bytes.fromhex(text)
