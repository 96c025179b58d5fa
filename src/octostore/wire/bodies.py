"""Request bodies and queries, and how each converts to a core command or question, and back."""

import re
from collections.abc import Callable
from datetime import datetime
from functools import cache, partial
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import msgspec
from msgspec import Meta, Raw

from octostore.core import limits
from octostore.core.encoding import encode_any, encode_json
from octostore.core.errors import InvalidInput
from octostore.core.model import Outcome
from octostore.core.moments import to_datetime, to_moment
from octostore.wire import fields as f

_HEXADECIMAL = re.compile("[0-9a-fA-F]{64}")


def _is(field: str, *values: Any) -> dict[str, Any]:
    """The JSON Schema condition that `field` has one of `values`."""
    return {"properties": {field: {"enum": list(values)}}, "required": [field]}


class Shape(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A body or query. It has the fields of its command or question, with `_seconds` added where they are seconds."""

    RULES: ClassVar[list[dict[str, Any]]] = []
    """Conditions between fields, as JSON Schema. The commands check them."""
    DOCUMENTS_AT: ClassVar[int] = 1
    """The nesting level of the caller's JSON documents, whose depth is counted from there."""
    CORE_NAMES: ClassVar[dict[str, str | None]] = {"wait_seconds": None}
    """Fields that have another name in the core, and that name; None if the core has no such field."""

    def values(self) -> dict[str, Any]:
        """The fields for the command or question."""
        values = msgspec.structs.asdict(self)
        for wire, core, codec in _translated_fields(type(self)):
            value = values.pop(wire)
            if core is not None:
                values[core] = codec.inward(value) if codec else value
        return values

    @classmethod
    def of(cls, message: Any, **more: Any) -> Self:
        for wire, core, codec in _fields(cls):
            if core is not None:
                value = getattr(message, core)
                more[wire] = codec.outward(value) if codec else value
        return cls(**more)


def with_wire_name(error: InvalidInput, shape: type[Shape]) -> InvalidInput:
    """Name the field in `error` as the caller sent it."""
    return error.about(next((wire for wire, core, _ in _fields(shape) if core == error.field), error.field))


def one_of(one: str, other: str) -> dict[str, Any]:
    """The JSON Schema condition that exactly one of two fields is given."""
    return {
        "oneOf": [
            {"properties": {field: {"type": "string"}, left_out: {"type": "null"}}, "required": [field]}
            for field, left_out in ((one, other), (other, one))
        ]
    }


class Body(Shape, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Unknown fields are refused: ignoring one could do something the caller did not ask for."""


class _Codec(NamedTuple):
    inward: Callable[[Any], Any]
    outward: Callable[[Any], Any]


class _Field(NamedTuple):
    wire: str
    core: str | None
    codec: _Codec | None


@cache
def _fields(shape: type[Shape]) -> tuple[_Field, ...]:
    names = {name: shape.CORE_NAMES.get(name, name.removesuffix("_seconds")) for name in shape.__struct_fields__}
    return tuple(_Field(wire, core, _CODECS.get(core or "")) for wire, core in names.items())


@cache
def _translated_fields(shape: type[Shape]) -> tuple[_Field, ...]:
    """The fields that differ from the core's."""
    return tuple(field for field in _fields(shape) if field.codec or field.wire != field.core)


class _Terms(Body):
    owner: f.Owner | None = None
    metadata: f.Metadata = None
    ttl_seconds: f.Ttl = limits.TTL_DEFAULT_SECONDS
    wait_seconds: f.Wait = 0
    session_id: f.BoundTo | None = None
    request_id: f.RequestId | None = None
    lock_delay_seconds: f.LockDelay = 0
    host: f.Host | None = None
    pid: f.Pid | None = None
    max_silence_seconds: f.MaxSilence | None = None
    traceparent: f.Traceparent | None = None


class ClaimBody(_Terms):
    again: Annotated[bool, Meta(description="Claim the job even if it is done.")] = False


class ClaimNextBody(_Terms):
    kinds: f.Kinds | None = None
    until_done: Annotated[
        bool, Meta(description="Stop waiting, with `empty` and `all_done`, once every job is done or dead.")
    ] = False


class ClaimTaskBody(Body):
    agent: f.Agent
    queues: f.TaskQueues
    kinds: f.Kinds | None = None
    metadata: f.Metadata = None
    ttl_seconds: f.TaskTtl = limits.TTL_DEFAULT_SECONDS
    wait_seconds: f.Wait = 0
    request_id: f.RequestId | None = None
    host: f.Host | None = None
    pid: f.Pid | None = None
    max_silence_seconds: f.MaxSilence | None = None
    traceparent: f.Traceparent | None = None
    lease_id: Annotated[f.LeaseId, Meta(description="The lease of the session, if you have it open.")] | None = None

    CORE_NAMES: ClassVar = {"agent": "owner", "wait_seconds": None}


class ProgressBody(Body):
    note: f.ProgressNote | None = None
    percent: f.Percent | None = None


class LeaseBody(Body):
    lease_id: f.LeaseId
    fencing_token: f.OwnToken | None = None


class HeartbeatBody(LeaseBody, kw_only=True):
    ttl_seconds: f.Ttl | None = None
    progress: (
        Annotated[
            f.ProgressNote | ProgressBody,
            Meta(description="What you are doing, as text, or as a note and a percentage."),
        ]
        | None
    ) = None
    number: f.WriteNumber | None = None

    CORE_NAMES: ClassVar = {"progress": None}

    def values(self) -> dict[str, Any]:
        progress = ProgressBody(note=self.progress) if isinstance(self.progress, str) else self.progress
        return Shape.values(self) | (progress.values() if progress else {})

    @classmethod
    def of(cls, message: Any, **more: Any) -> Self:
        body = super().of(message, **more)
        has_progress = message.note is not None or message.percent is not None
        body.progress = ProgressBody.of(message) if has_progress else None
        return body


class CheckpointBody(LeaseBody, kw_only=True):
    data: f.Checkpoint
    number: f.WriteNumber | None = None


class ReleaseBody(LeaseBody, kw_only=True):
    outcome: Annotated[Outcome, Meta(description="How the work ended.")] = "released"
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


class ReleaseTaskBody(ReleaseBody, kw_only=True):
    job_id: f.JobId


class UndoBody(Body):
    """Either `job_id` or `session_id`: the latter for a session, or for a task claimed together with its session."""

    lease_id: f.LeaseId
    job_id: f.JobId | None = None
    session_id: f.OwnSessionId | None = None

    RULES: ClassVar = [one_of("job_id", "session_id")]


class EnqueueBody(Body):
    kind: f.Kind
    payload: f.Payload = None
    job_id: f.NewJobId | None = None
    queue: f.Queue = "default"
    priority: f.Priority = limits.PRIORITY_DEFAULT
    run_at: f.RunAt | None = None
    delay_seconds: f.Delay | None = None
    max_attempts: f.MaxAttempts = limits.MAX_ATTEMPTS_DEFAULT
    traceparent: f.Traceparent | None = None

    RULES: ClassVar = [
        {
            "anyOf": [
                {"properties": {"run_at": {"type": "null"}}},
                {"properties": {"delay_seconds": {"type": "null"}}},
            ]
        }
    ]


class ReasonBody(Body):
    reason: f.Reason | None = None


class CancelBody(ReasonBody):
    drain: f.Drain = False


class RequeueBody(ReasonBody):
    keep_attempts: f.KeepAttempts = False


class MatchingBody(Body):
    reason: f.ReasonForAll
    prefix: f.Prefix = ""
    queue: f.OnlyQueue | None = None
    kind: f.OnlyKind | None = None
    after: f.AfterJob | None = None
    limit: f.MatchingLimit = limits.MATCHING_DEFAULT


class RequeueMatchingBody(MatchingBody):
    keep_attempts: f.KeepAttempts = False


class LimitQueueBody(Body):
    max_claimed: f.MaxClaimed | None


class SetQueueBody(ReasonBody):
    max_claimed: f.MaxClaimed | msgspec.UnsetType | None = msgspec.UNSET
    paused: f.Paused | None = None

    RULES: ClassVar = [{"anyOf": [{"required": ["max_claimed"]}, {"required": ["paused"]}]}]


class OpenSessionBody(Body):
    """Without an `agent`, this is a lock client's session: 60 seconds by default, and always between 10 and 300."""

    agent: f.Owner | None = None
    ttl_seconds: f.SessionTtl | None = None
    session_id: f.NewSessionId | None = None
    request_id: f.SessionRequestId | None = None

    RULES: ClassVar = [
        {
            "if": {"properties": {"agent": {"type": "string"}}, "required": ["agent"]},
            "then": {"properties": {"ttl_seconds": {"minimum": 1, "maximum": limits.TTL_MAX_MS // 1_000}}},
        }
    ]

    def values(self) -> dict[str, Any]:
        return {**Shape.values(self), "ttl": self._ttl(), "without_lease": self.agent is None}

    def _ttl(self) -> float:
        if self.agent is not None:
            return limits.TTL_DEFAULT_SECONDS if self.ttl_seconds is None else self.ttl_seconds
        requested = limits.LOCK_TTL_DEFAULT_SECONDS if self.ttl_seconds is None else self.ttl_seconds
        return min(max(requested, f.LOCK_SESSION_TTL_MIN), f.LOCK_SESSION_TTL_MAX)


class SessionLeaseBody(Body):
    """The principal of a lock client's session may leave out the lease."""

    lease_id: f.SessionLease | None = None


class SaveSessionBody(Body):
    context: f.Context
    phase: f.PhaseWord | None = None
    lease_id: f.SessionLease | None = None
    number: f.WriteNumber | None = None


class HandOverBody(Body):
    to_agent: f.ToAgent
    note: f.Note | None = None
    lease_id: f.SessionLease | None = None


class TokenBody(Body):
    name: f.TokenName
    scopes: f.Scopes = ("read", "claim")
    prefix: f.Prefix = ""
    expires_in_seconds: f.ExpiresIn | None = None
    token_id: f.NewTokenId | None = None
    digest: f.Digest | None = None


class LoginBody(Body):
    """Either `token` or `code`."""

    token: f.Secret | None = None
    code: f.Code | None = None

    RULES: ClassVar = [one_of("token", "code")]


class RotateBody(Body):
    digest: f.Digest | None = None


class BatchBody(Body):
    commands: f.Commands
    atomic: f.Atomic = True

    DOCUMENTS_AT: ClassVar = 3


# The lock routes. Existing clients send other fields too, which are ignored as they always were.


class LockBody(Shape, kw_only=True, omit_defaults=True):
    """The body of a lock route."""


class AcquireBody(LockBody):
    ttl_seconds: f.LockTtl = limits.LOCK_TTL_DEFAULT_SECONDS
    metadata: f.LockMetadata | None = None
    session_id: f.BoundTo | None = None
    ephemeral: Annotated[bool, Meta(description="Release the lock when its session ends.")] = False
    lock_delay_seconds: f.LockDelay = 0
    holder: f.Holder | None = None

    RULES: ClassVar = [
        {
            "if": _is("ephemeral", True),
            "then": {"properties": {"session_id": {"type": "string"}}, "required": ["session_id"]},
        }
    ]


class RenewBody(LockBody):
    lease_id: f.LockLease
    ttl_seconds: f.LockTtl = limits.LOCK_TTL_DEFAULT_SECONDS


class ReleaseLockBody(LockBody):
    lease_id: f.LockLease


# Queries


class PrefixQuery(Body):
    prefix: f.Prefix | None = None


class PageQuery(PrefixQuery):
    limit: f.PageLimit = limits.PAGE_DEFAULT


class LocksQuery(PrefixQuery):
    limit: f.PageLimit = limits.PAGE_MAX
    cursor: f.Cursor | None = None


class JobsQuery(PageQuery):
    status: f.StatusWord | None = None
    queue: f.Queue | None = None
    cursor: f.JobsCursor | None = None
    order: f.OrderWord = "name"
    owner: f.OnlyOwner | None = None
    kind: f.OnlyKind | None = None


class HeartbeatsQuery(Body):
    jobs: f.HeartbeatsOf

    CORE_NAMES: ClassVar = {"jobs": "job_ids"}


class FiguresQuery(Body):
    max_age: f.FiguresAge = 0


class ClaimsQuery(PrefixQuery):
    window: f.Window = limits.WINDOW_DEFAULT_SECONDS
    queue: f.Queue | None = None
    owner: f.AnyOwner | None = None
    status: f.StatusWord | None = None
    lost: f.OnlyLost = False
    limit: f.ClaimRows = limits.CLAIM_ROWS_MAX


class SessionsQuery(Body):
    status: f.SessionStatusWord | None = None
    limit: f.PageLimit = limits.PAGE_DEFAULT
    cursor: f.SessionCursor | None = None


class EventsQuery(PageQuery):
    after: f.EventSeq = 0
    job: f.OnlyJob | None = None
    session: f.OnlySession | None = None
    since: f.Since | None = None
    types: f.EventTypes | None = None
    heartbeats: f.AlsoHeartbeatsOf | None = None

    CORE_NAMES: ClassVar = {"job": "job_id", "session": "session_id", "heartbeats": None}


def convert_whole_floats(value: Any, kind: type) -> Any:
    """Accept 5.0 for 5: JSON makes no difference, and some languages only have floats."""
    if isinstance(value, dict):
        for name in _whole_fields(kind):
            if isinstance(value.get(name), float) and value[name].is_integer():
                value[name] = int(value[name])
    return value


def split_lists(query: dict[str, Any], kind: type) -> dict[str, Any]:
    """Split comma-separated values. No name contains a comma."""
    for name in _list_fields(kind):
        if name in query:
            query[name] = query[name].split(",")
    return query


@cache
def _list_fields(kind: type) -> list[str]:
    return _fields_of_type(kind, msgspec.inspect.ListType)


@cache
def _whole_fields(kind: type) -> list[str]:
    return _fields_of_type(kind, msgspec.inspect.IntType)


def _fields_of_type(kind: type, field_type: type[msgspec.inspect.Type]) -> list[str]:
    fields = msgspec.structs.fields(kind)
    return [field.name for field in fields if _allows(field_type, msgspec.inspect.type_info(field.type))]


def _allows(field_type: type[msgspec.inspect.Type], info: msgspec.inspect.Type) -> bool:
    if isinstance(info, msgspec.inspect.UnionType):
        return any(_allows(field_type, option) for option in info.types)
    if isinstance(info, msgspec.inspect.Metadata):
        return _allows(field_type, info.type)
    return isinstance(info, field_type)


# Codecs for fields whose JSON form differs from the core's, by their core names


def _unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _digest_from(text: str) -> bytes:
    if not _HEXADECIMAL.fullmatch(text):  # `bytes.fromhex` alone would accept blanks
        raise InvalidInput("digest", "must be 64 hexadecimal digits")
    return bytes.fromhex(text)


def _document(field: str) -> _Codec:
    """JSON, or None for no document."""
    return _Codec(partial(encode_json, field), _unless_none(Raw))


def _moment(field: str) -> _Codec:
    return _Codec(_unless_none(partial(_moment_from, field)), _unless_none(to_datetime))


def _moment_from(field: str, sent: datetime) -> int:
    if sent.tzinfo is None:
        raise InvalidInput(field, "has no time zone; append Z for UTC, as in 2026-07-01T10:00:00Z")
    return to_moment(field, sent)


_LIST = _Codec(_unless_none(tuple), _unless_none(list))
_CODECS = {
    "metadata": _document("metadata"),
    "payload": _document("payload"),
    "result": _document("result"),
    # In these, null is a document like any other.
    "data": _Codec(partial(encode_any, "checkpoint"), Raw),
    "context": _Codec(partial(encode_any, "context"), Raw),
    "kinds": _LIST,
    "queues": _LIST,
    "run_at": _moment("run_at"),
    "since": _moment("since"),
    "types": _LIST,
    "job_ids": _LIST,
    "digest": _Codec(_unless_none(_digest_from), _unless_none(bytes.hex)),
}
