"""What callers send, and the command that each body stands for.

Types only say what has the wrong shape. Limits are the core's: the schema tells them, and the commands check them.
"""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from octostore.core import commands as c
from octostore.core import limits
from octostore.core.encoding import encode_any, encode_json
from octostore.core.errors import InvalidInput
from octostore.core.model import Outcome, Scope
from octostore.core.moments import to_moment


def _text(description: str, limit: int, example: str, minimum: int = 0) -> Meta:
    bounds = {"minLength": minimum, "maxLength": limit}
    return Meta(description=description, examples=[example], extra_json_schema=bounds)


def _number(description: str, low: float, high: float, example: float) -> Meta:
    bounds = {"minimum": low, "maximum": high}
    return Meta(description=description, examples=[example], extra_json_schema=bounds)


Owner: TypeAlias = Annotated[
    str, _text("Who this is, for people to read; by default the token's name.", limits.TEXT_BYTES, "agent-3", 1)
]
Ttl: TypeAlias = Annotated[
    float,
    _number("The claim ends so long after its last heartbeat.", 1, limits.TTL_MAX_MS // 1_000, 120),
]
WAIT_MAX_SECONDS = 60
Wait: TypeAlias = Annotated[
    float, _number("How long to wait for the job if it cannot be had at once.", 0, WAIT_MAX_SECONDS, 0)
]
LockDelay: TypeAlias = Annotated[
    float,
    _number("How long nobody can claim it after this claim ends.", 0, limits.LOCK_DELAY_MAX_MS // 1_000, 0),
]
RequestId: TypeAlias = Annotated[
    str,
    _text("A retry with the same one gets the same claim again.", limits.REQUEST_ID_BYTES, "4f1c2a6e", 1),
]
LeaseId: TypeAlias = Annotated[
    str,
    _text("The secret from the answer to the claim.", limits.LEASE_ID_BYTES, "0b9e1c9e-6a5c-4f6e-9d0c-2f6f3f0f8f11", 1),
]
SessionId: TypeAlias = Annotated[
    str,
    _text("The session to which to bind it.", limits.SESSION_ID_BYTES, "9b2f6c1e-51b1-4b43-8f0c-0a3f1f0c7d55", 1),
]
Metadata: TypeAlias = Annotated[
    Any,
    Meta(description="Any JSON of up to 1,024 bytes, shown to all who may read.", examples=[{"branch": "fix-1842"}]),
]
Reason: TypeAlias = Annotated[str, _text("Why, for the log.", limits.TEXT_BYTES, "the worker is stuck")]
Note: TypeAlias = Annotated[str, _text("What a successor should know.", limits.NOTE_BYTES, "half of it is uploaded")]
Digest: TypeAlias = Annotated[
    str,
    Meta(
        description="The SHA-256, in hexadecimal, of a token that you have made yourself. Without it, one is made.",
        extra_json_schema={"pattern": "^[0-9a-f]{64}$"},
    ),
]


class Body(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A field that we do not know is refused, because ignoring it would do something else than was asked for."""


class _Terms(Body):
    owner: Owner | None = None
    metadata: Metadata = None
    ttl_seconds: Ttl = limits.TTL_DEFAULT_SECONDS
    wait_seconds: Wait = 0
    session_id: SessionId | None = None
    request_id: RequestId | None = None
    lock_delay_seconds: LockDelay = 0

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
    kinds: Annotated[list[str], Meta(description="Only jobs of these kinds.", examples=[["build"]])] | None = None

    def command(self, queue: str, principal: str, prefix: str, max_claims: int | None = None) -> c.ClaimNext:
        kinds = None if self.kinds is None else tuple(self.kinds)
        return c.ClaimNext(queue=queue, kinds=kinds, prefix=prefix, max_claims=max_claims, **self.terms(principal))


class ProgressBody(Body):
    note: Annotated[str, _text("What is being done.", limits.NOTE_BYTES, "running tests")] | None = None
    percent: Annotated[float, _number("How much of it is done.", 0, 100, 40)] | None = None


class HeartbeatBody(Body):
    lease_id: LeaseId
    ttl_seconds: Ttl | None = None
    progress: (
        Annotated[str | ProgressBody, Meta(description="What is being done: a text, or note and percent.")] | None
    ) = None

    def command(self, job_id: str, principal: str) -> c.HeartbeatJob:
        progress = ProgressBody(note=self.progress) if isinstance(self.progress, str) else self.progress
        return c.HeartbeatJob(
            job_id=job_id,
            principal=principal,
            lease_id=self.lease_id,
            ttl=self.ttl_seconds,
            note=progress.note if progress else None,
            percent=progress.percent if progress else None,
        )


class CheckpointBody(Body):
    lease_id: LeaseId
    data: Annotated[
        Any, Meta(description="What a successor needs to go on: JSON of up to 64 KiB.", examples=[{"step": 3}])
    ]

    def command(self, job_id: str, principal: str) -> c.CheckpointJob:
        data = encode_any("checkpoint", self.data)
        return c.CheckpointJob(job_id=job_id, principal=principal, lease_id=self.lease_id, data=data)


class ReleaseBody(Body):
    lease_id: LeaseId
    outcome: Annotated[Outcome, Meta(description="How it went.")] = "released"
    result: Annotated[Any, Meta(description="With `done`: JSON of up to 64 KiB.", examples=[{"pr": 77}])] = None
    error: Annotated[str, _text("What went wrong.", limits.ERROR_BYTES, "tests failed")] | None = None
    note: Note | None = None
    retry_after_seconds: (
        Annotated[
            float,
            _number("With `failed` or `deferred`: when to try again.", 0, limits.RETRY_AFTER_MAX_MS // 1_000, 900),
        ]
        | None
    ) = None

    def command(self, job_id: str, principal: str) -> c.ReleaseJob:
        return c.ReleaseJob(
            job_id=job_id,
            principal=principal,
            lease_id=self.lease_id,
            outcome=self.outcome,
            result=encode_json("result", self.result),
            error=self.error,
            note=self.note,
            retry_after=self.retry_after_seconds,
        )


class EnqueueBody(Body):
    kind: Annotated[str, _text("What kind of work it is.", limits.NAME_COMPONENT_BYTES, "build", 1)]
    payload: Annotated[Any, Meta(description="JSON of up to 256 KiB.", examples=[{"commit": "3f1c2aa"}])] = None
    job_id: Annotated[str, _text("Its name; by default a new one.", limits.JOB_ID_BYTES, "build-3f1c2aa", 1)] | None = (
        None
    )
    queue: Annotated[str, _text("Where to put it.", limits.NAME_COMPONENT_BYTES, "default", 1)] = "default"
    priority: Annotated[
        int, _number("Lower runs first.", limits.PRIORITY_MIN, limits.PRIORITY_MAX, limits.PRIORITY_DEFAULT)
    ] = limits.PRIORITY_DEFAULT
    run_at: Annotated[datetime, Meta(description="Not before this.", tz=None)] | None = None
    max_attempts: Annotated[
        int,
        _number("It is dead after so many.", 1, limits.MAX_ATTEMPTS_MAX, limits.MAX_ATTEMPTS_DEFAULT),
    ] = limits.MAX_ATTEMPTS_DEFAULT

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
    reason: Reason | None = None


class LimitQueueBody(Body):
    max_claimed: (
        Annotated[int, _number("How many of its jobs may be claimed at once.", 1, limits.QUEUE_LIMIT_MAX, 1)] | None
    )


class OpenSessionBody(Body):
    """Without an `agent` it is a lock client's session: 60 seconds by default, and never under 10 or over 300."""

    agent: Owner | None = None
    ttl_seconds: (
        Annotated[float, _number("It ends so long after its last keepalive.", 1, limits.TTL_MAX_MS // 1_000, 60)] | None
    ) = None
    session_id: (
        Annotated[str, _text("The one to resume; by default a new one.", limits.SESSION_ID_BYTES, "agent-3", 1)] | None
    ) = None
    request_id: RequestId | None = None

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
        return min(max(wanted, LOCK_SESSION_TTL_MIN), LOCK_SESSION_TTL_MAX)


LOCK_SESSION_TTL_MIN, LOCK_SESSION_TTL_MAX = 10, 300


class SessionLeaseBody(Body):
    """The lease may be left out by the principal that opened the session."""

    lease_id: LeaseId | None = None


class SaveSessionBody(Body):
    context: Annotated[Any, Meta(description="JSON of up to 256 KiB.", examples=[{"phase": "planning", "turn": 4}])]
    lease_id: LeaseId | None = None

    def command(self, session_id: str, principal: str) -> c.SaveSession:
        context = encode_any("context", self.context)
        return c.SaveSession(session_id=session_id, lease_id=self.lease_id, principal=principal, context=context)


class TokenBody(Body):
    name: Annotated[
        str, _text("Whom it is for: the principal in the log, and an owner's default.", limits.TEXT_BYTES, "ci", 1)
    ]
    scopes: Annotated[tuple[Scope, ...], Meta(description="What it may do.", examples=[["read", "claim"]])] = (
        "read",
        "claim",
    )
    prefix: Annotated[str, _text("Only names that begin with it.", limits.JOB_ID_BYTES, "team-a/")] = ""
    expires_in_seconds: (
        Annotated[float, _number("When it ends by itself.", 1, limits.TOKEN_LIFE_MAX_MS // 1_000, 86_400)] | None
    ) = None
    token_id: Annotated[str, _text("By default a new one.", limits.NAME_COMPONENT_BYTES, "tok-1", 1)] | None = None
    digest: Digest | None = None


class RotateBody(Body):
    digest: Digest | None = None


# The lock routes, as existing clients know them. What else these send is ignored, as it always was.


class LockBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A body of a lock route."""


LockTtl: TypeAlias = Annotated[
    float, _number("The lock ends so long after it was acquired or renewed.", 1, limits.LOCK_TTL_MAX_MS // 1_000, 60)
]


class AcquireBody(LockBody):
    ttl_seconds: LockTtl = limits.LOCK_TTL_DEFAULT_SECONDS
    metadata: (
        Annotated[str, _text("Shown to all who may read.", limits.METADATA_BYTES, "host=runner-7 build=1842")] | None
    ) = None
    session_id: SessionId | None = None
    ephemeral: Annotated[bool, Meta(description="It is the session's, and ends with it.")] = False
    lock_delay_seconds: LockDelay = 0

    def command(self, job_id: str, principal: str, max_claims: int | None) -> c.AcquireLock:
        return c.AcquireLock(
            job_id=job_id,
            principal=principal,
            owner=principal,
            metadata=encode_json("metadata", self.metadata),
            ttl=self.ttl_seconds,
            session_id=self.session_id,
            ephemeral=self.ephemeral,
            lock_delay=self.lock_delay_seconds,
            max_claims=max_claims,
        )


class RenewBody(LockBody):
    lease_id: LeaseId
    ttl_seconds: LockTtl = limits.LOCK_TTL_DEFAULT_SECONDS


class ReleaseLockBody(LockBody):
    lease_id: LeaseId


def check_wait(seconds: float) -> None:
    limits.check_range("wait_seconds", seconds, 0, WAIT_MAX_SECONDS, " seconds")


def digest_from(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidInput("digest", "must be 64 hexadecimal digits") from None
