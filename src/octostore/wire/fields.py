"""The fields of requests: what each one means, and its limits as JSON Schema.

The types check only the shape. The limits are the core's: the schema documents them, and the commands check them. JSON
Schema counts characters where we count bytes, and cannot tell letters from other characters beyond ASCII. So the schema
is exact for ASCII, and accepts some other texts that the server then refuses.
"""

from datetime import datetime
from typing import Annotated, Any, TypeAlias, get_args

from msgspec import Meta

from octostore.core import limits
from octostore.core.events import DETAILS
from octostore.core.model import Phase, Scope, SessionStatus, Status
from octostore.core.questions import Order
from octostore.core.traceparent import EXAMPLE

# Name patterns use neither lookahead nor Unicode classes, so that every JSON Schema implementation understands them.
_NOT_IN_NAMES = r"\x00-,/:-@\[-\^`{-\x7f"
_NOT_IN_JOBS = r"\x00-\x22$-*,/;<>?\[-\^`{-\x7f"


def _component(limit: int, without: str = _NOT_IN_NAMES) -> str:
    """One component of a name, except `.` and `..`."""
    char, char_but_dot = f"[^{without}]", f"[^.{without}]"
    no_dot_first = f"{char_but_dot}{char}{{0,{limit - 1}}}"
    one_dot_first = rf"\.{char_but_dot}{char}{{0,{limit - 2}}}"
    two_dots_first = rf"\.\.{char}{{1,{limit - 2}}}"
    return f"(?:{no_dot_first}|{one_dot_first}|{two_dots_first})"


_COMPONENT = _component(limits.NAME_COMPONENT_BYTES)
_JOB_COMPONENT = _component(limits.NAME_COMPONENT_BYTES, _NOT_IN_JOBS)
JOB_ID_PATTERN = f"^{_JOB_COMPONENT}(?:/{_JOB_COMPONENT})*$"
LOCK_NAME_PATTERN = f"^{_COMPONENT}(?:/{_COMPONENT})*$"
NAME_PATTERN = f"^{_COMPONENT}$"
SESSION_ID_PATTERN = f"^{_component(limits.SESSION_ID_BYTES)}$"
SESSION_PATTERN = rf"^(?:[^\x00-\x1f\x7f-\x9f]{{1,{limits.PRINCIPAL_BYTES}}}/)?{_component(limits.SESSION_ID_BYTES)}$"
PREFIX_PATTERN = f"^(?:[^{_NOT_IN_JOBS}]|/)*$"
LINE_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*$"
TOKEN_NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\[]*$"  # noqa: S105  # a token's name, not a token
TEXT_PATTERN = r"^[^\x00]*$"
TRACEPARENT_PATTERN = "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
NO_TRACE_PATTERN = "^00-(?:0{32}-|.{32}-0{16}-)"


UNIT = "x-octostore-unit"
"""In a schema: what `maxLength` counts, if not bytes. To JSON Schema itself, it is always characters."""


def _text(description: str, limit: int, example: str, *, minimum: int = 0, pattern: str = LINE_PATTERN) -> Meta:
    bounds = {"minLength": minimum, "maxLength": limit, "pattern": pattern}
    return Meta(description=description, examples=[example], extra_json_schema=bounds)


def _number(description: str, low: float, high: float, example: float) -> Meta:
    bounds = {"minimum": low, "maximum": high}
    return Meta(description=description, examples=[example], extra_json_schema=bounds)


def _time(description: str, example: str) -> Meta:
    year_1970_or_later = {"format": "date-time", "pattern": "^(?:19[7-9][0-9]|[2-9][0-9]{3})-"}
    return Meta(description=description, examples=[example], extra_json_schema=year_1970_or_later)


def _json(description: str, limit: int, example: Any) -> Meta:
    size = f"{limit:,} bytes" if limit % 1_024 or limit == limits.METADATA_BYTES else f"{limit // 1_024} KiB"
    return Meta(description=f"{description}: any JSON, up to {size}.", examples=[example])


# Names


def _job(description: str, example: str = "github-issue-1842", pattern: str = JOB_ID_PATTERN) -> Meta:
    return _text(description, limits.JOB_ID_BYTES, example, minimum=1, pattern=pattern)


def _own_session(description: str) -> Meta:
    return _text(description, limits.SESSION_ID_BYTES, "agent-3", minimum=1, pattern=SESSION_ID_PATTERN)


def _session(description: str) -> Meta:
    limit = limits.PRINCIPAL_BYTES + 1 + limits.SESSION_ID_BYTES
    return _text(description, limit, "agent-3", minimum=1, pattern=SESSION_PATTERN)


def _name(description: str, example: str) -> Meta:
    return _text(description, limits.NAME_COMPONENT_BYTES, example, minimum=1, pattern=NAME_PATTERN)


def _several(description: str, example: str, limit: int) -> Meta:
    return Meta(description=description, examples=[[example]], extra_json_schema={"minItems": 1, "maxItems": limit})


JobId: TypeAlias = Annotated[
    str,
    _job(
        "The job's name: letters, digits, `-`, `_`, `.`, `#`, `:`, `@`, `+` and `=`, in components separated by `/`. "
        "Percent-encode it in a URL: `/` is `%2F`, `#` is `%23`, and in a query `+` is `%2B`."
    ),
]
LockName: TypeAlias = Annotated[
    str,
    _job(
        "The lock's name: letters, digits, `-`, `_` and `.`, in components separated by `/`, which is `%2F` in a URL. "
        "A job whose name has other characters cannot be used as a lock.",
        "deploy-main",
        LOCK_NAME_PATTERN,
    ),
]


JobName: TypeAlias = Annotated[str, _job("A job's name.")]
HeartbeatsOf: TypeAlias = Annotated[
    list[JobName],
    _several("Up to 200 job names, separated by commas.", "github-issue-1842", limits.HEARTBEATS_MAX),
]
AlsoHeartbeatsOf: TypeAlias = Annotated[
    list[JobName],
    _several(
        "Streams only: also send the heartbeats of these jobs (up to 200 names, separated by commas).",
        "github-issue-1842",
        limits.HEARTBEATS_MAX,
    ),
]
OnlyJob: TypeAlias = Annotated[str, _job("Only events of this job.")]
NewJobId: TypeAlias = Annotated[str, _job("The job's name; generated by default.", "build-3f1c2aa")]
Cursor: TypeAlias = Annotated[str, _job("The `cursor` of the previous page.", "build-3f1c2aa")]
AfterJob: TypeAlias = Annotated[
    str, _job("The `after` of the previous response: only jobs whose names sort after it.", "build-3f1c2aa")
]
Prefix: TypeAlias = Annotated[
    str, _text("Only names that begin with this.", limits.JOB_ID_BYTES, "team-a/", pattern=PREFIX_PATTERN)
]
OnlyQueue: TypeAlias = Annotated[str, _name("Only jobs in this queue.", "default")]
OnlyKind: TypeAlias = Annotated[str, _name("Only jobs of this kind.", "build")]
Queue: TypeAlias = Annotated[str, _name("The queue.", "default")]
Kind: TypeAlias = Annotated[str, _name("The kind of work.", "build")]
Kinds: TypeAlias = Annotated[list[Kind], _several("Only jobs of these kinds.", "build", limits.KINDS_MAX)]
SessionId: TypeAlias = Annotated[
    str,
    _session("The id of your session. For operators, `ci%2Fagent-3` is the session `agent-3` of the principal `ci`."),
]
OwnSessionId: TypeAlias = Annotated[str, _own_session("The id of your session.")]
BoundTo: TypeAlias = Annotated[str, _own_session("The id of the session to bind the claim to; it must be yours.")]
OnlySession: TypeAlias = Annotated[
    str,
    _session("Only events of your session with this id. For operators, `ci/agent-3` is session `agent-3` of `ci`."),
]
TaskQueues: TypeAlias = Annotated[
    list[Queue],
    _several("The queues to claim a task from, in this order.", "tasks", limits.TASK_QUEUES_MAX),
]
SessionCursor: TypeAlias = Annotated[str, _session("The `cursor` of the previous page.")]
NewSessionId: TypeAlias = Annotated[
    str, _own_session("The id of a new session, or of one to resume; generated by default.")
]
TokenId: TypeAlias = Annotated[str, _name("The token's id, not its secret.", "tok-1")]
NewTokenId: TypeAlias = Annotated[str, _name("The token's id; generated by default.", "tok-1")]

# Secrets, and what makes a call safe to repeat

LeaseId: TypeAlias = Annotated[
    str,
    _text(
        "The secret `lease_id` from the response to the claim.",
        limits.LEASE_ID_BYTES,
        "0b9e1c9e-6a5c-4f6e-9d0c-2f6f3f0f8f11",
        minimum=1,
    ),
]
SessionLease: TypeAlias = Annotated[LeaseId, Meta(description="The session's secret `lease_id`.")]
OwnToken: TypeAlias = Annotated[
    int,
    _number(
        "The fencing token that came with the lease. If the store has never issued one this high, it was restored from "
        "an older backup. You then get 503 `unreachable` with the reason `restored_behind` instead of `lease_lost`.",
        1,
        limits.JSON_INTEGER_MAX,
        1,
    ),
]
WriteNumber: TypeAlias = Annotated[
    int,
    _number(
        "A number that increases with each write of this kind under the same lease. A write whose number is not higher "
        "than the last one counts as late and changes nothing. Without a number, every write counts.",
        1,
        limits.JSON_INTEGER_MAX,
        7,
    ),
]
Holder: TypeAlias = Annotated[
    str,
    _text(
        "Identifies the caller among agents that share this token. The agent that has the lock gets its lease again; "
        "any other gets `held`. The `Idempotency-Key` header means the same. Without either, only session and metadata "
        "distinguish agents, so give each agent its own `holder`.",
        limits.TEXT_BYTES,
        "agent-3",
        minimum=1,
    ),
]
HolderHeader: TypeAlias = Annotated[
    str, _text("The same as `holder` in the body, which takes precedence.", limits.TEXT_BYTES, "agent-3", minimum=1)
]
LockLease: TypeAlias = Annotated[
    str,
    Meta(
        description="The secret `lease_id` from the response to `acquire`.",
        examples=["0b9e1c9e-6a5c-4f6e-9d0c-2f6f3f0f8f11"],
        extra_json_schema={"format": "uuid"},
    ),
]
RequestId: TypeAlias = Annotated[
    str, _text("A retry with the same id gets the same claim.", limits.REQUEST_ID_BYTES, "4f1c2a6e", minimum=1)
]
SessionRequestId: TypeAlias = Annotated[RequestId, Meta(description="A retry with the same id gets the same session.")]
OwnOrigin: TypeAlias = Annotated[
    str, Meta(description="The server's own origin, as browsers send it; or send `Sec-Fetch-Site: same-origin`.")
]
Secret: TypeAlias = Annotated[str, Meta(description="A token; it begins with `octo_`.")]
Code: TypeAlias = Annotated[str, Meta(description="The code from `POST /auth/link`.")]
Digest: TypeAlias = Annotated[
    str,
    Meta(
        description="The hexadecimal SHA-256 of a token you made yourself. Without it, the server generates a token.",
        extra_json_schema={"pattern": "^[0-9a-fA-F]{64}$"},
    ),
]

Traceparent: TypeAlias = Annotated[
    str,
    Meta(
        description="Your position in a trace (W3C Trace Context). The `traceparent` header means the same.",
        examples=[EXAMPLE],
        extra_json_schema={"pattern": TRACEPARENT_PATTERN, "not": {"pattern": NO_TRACE_PATTERN}},
    ),
]
TraceparentHeader: TypeAlias = Annotated[
    str,
    Meta(
        description="Your position in a trace (W3C Trace Context); ignored if malformed. A `traceparent` in the body "
        "takes precedence.",
        examples=[EXAMPLE],
    ),
]

# Free text

Owner: TypeAlias = Annotated[
    str, _text("A name for people to read; by default the token's name.", limits.TEXT_BYTES, "agent-3", minimum=1)
]
Agent: TypeAlias = Annotated[
    str, _text("The agent's name, for people to read.", limits.TEXT_BYTES, "agent-3", minimum=1)
]
OnlyOwner: TypeAlias = Annotated[str, _text("Only jobs this owner has now.", limits.TEXT_BYTES, "agent-3", minimum=1)]
AnyOwner: TypeAlias = Annotated[
    str, _text("Only jobs this owner has, or had within the window.", limits.TEXT_BYTES, "agent-3", minimum=1)
]
Host: TypeAlias = Annotated[
    str,
    _text(
        "The machine the owner runs on, so that people can find it; by default the address the request came from.",
        limits.TEXT_BYTES,
        "runner-7",
        minimum=1,
    ),
]
ToAgent: TypeAlias = Annotated[
    str, _text("The agent that opens the session next.", limits.TEXT_BYTES, "agent-4", minimum=1)
]
ReasonForAll: TypeAlias = Annotated[
    str, _text("The reason, recorded in the log for each job.", limits.TEXT_BYTES, "the disk was full", minimum=1)
]
Reason: TypeAlias = Annotated[str, _text("The reason, recorded in the log.", limits.TEXT_BYTES, "the worker is stuck")]
Note: TypeAlias = Annotated[
    str, _text("What the next owner should know.", limits.NOTE_BYTES, "half of it is uploaded", pattern=TEXT_PATTERN)
]
ProgressNote: TypeAlias = Annotated[
    str, _text("What the owner is doing.", limits.NOTE_BYTES, "running tests", pattern=TEXT_PATTERN)
]
ErrorText: TypeAlias = Annotated[
    str, _text("What went wrong.", limits.ERROR_BYTES, "tests failed", pattern=TEXT_PATTERN)
]
LockMetadata: TypeAlias = Annotated[
    str,
    _text("Text for others to see.", limits.LOCK_METADATA_CHARACTERS, "host=runner-7 build=1842", pattern=TEXT_PATTERN),
    Meta(extra_json_schema={UNIT: "characters"}),
]
TokenName: TypeAlias = Annotated[
    str,
    _text(
        "Whom the token is for: the principal in the log (with the prefix, if any) and the default owner.",
        limits.TEXT_BYTES,
        "ci",
        minimum=1,
        pattern=TOKEN_NAME_PATTERN,
    ),
]

# Documents

Metadata: TypeAlias = Annotated[Any, _json("For others to see", limits.METADATA_BYTES, {"branch": "fix-1842"})]
Checkpoint: TypeAlias = Annotated[Any, _json("What the next owner needs", limits.CHECKPOINT_BYTES, {"step": 3})]
Result: TypeAlias = Annotated[Any, _json("Only with `done`", limits.RESULT_BYTES, {"pr": 77})]
Payload: TypeAlias = Annotated[Any, _json("What the worker needs", limits.PAYLOAD_BYTES, {"commit": "3f1c2aa"})]
Context: TypeAlias = Annotated[
    Any, _json("What the next agent needs", limits.CONTEXT_BYTES, {"phase": "planning", "turn": 4})
]

# Times, in seconds

WAIT_MAX_SECONDS = 60
LOCK_SESSION_TTL_MIN, LOCK_SESSION_TTL_MAX = 10, 300
Ttl: TypeAlias = Annotated[
    float, _number("The claim expires this long after its last heartbeat.", 1, limits.TTL_MAX_MS // 1_000, 120)
]
TaskTtl: TypeAlias = Annotated[
    Ttl, Meta(description="The session and its task expire this long after the last heartbeat.")
]
LockTtl: TypeAlias = Annotated[
    float,
    _number("The lock expires this long after the last acquire or renew.", 1, limits.LOCK_TTL_MAX_MS // 1_000, 60),
]
SessionTtl: TypeAlias = Annotated[
    float,
    Meta(
        description=(
            "The session expires this long after its last keepalive. With an `agent`: "
            f"1 to {limits.TTL_MAX_MS // 1_000:,}, default {limits.TTL_DEFAULT_SECONDS}. Without one: "
            f"{LOCK_SESSION_TTL_MIN} to {LOCK_SESSION_TTL_MAX} (other values are adjusted), default "
            f"{limits.LOCK_TTL_DEFAULT_SECONDS}."
        ),
        examples=[60],
    ),
]
Wait: TypeAlias = Annotated[
    float, _number("How long to wait if nothing can be claimed at once.", 0, WAIT_MAX_SECONDS, 0)
]
MaxSilence: TypeAlias = Annotated[
    float,
    _number(
        "How long the owner may send heartbeats without reporting progress (`progress` in a heartbeat, or a "
        "checkpoint) before it counts as `stuck`. No limit by default.",
        1,
        limits.TTL_MAX_MS // 1_000,
        600,
    ),
]
LockDelay: TypeAlias = Annotated[
    float, _number("How long nobody can claim the job after this claim ends.", 0, limits.LOCK_DELAY_MAX_MS // 1_000, 0)
]
RetryAfter: TypeAlias = Annotated[
    float,
    _number(
        "Only with `failed` or `deferred`: seconds until the next attempt.", 0, limits.RETRY_AFTER_MAX_MS // 1_000, 900
    ),
]
ExpiresIn: TypeAlias = Annotated[
    float,
    _number(
        "Seconds until the token expires. By default, it never expires.", 1, limits.TOKEN_LIFE_MAX_MS // 1_000, 86_400
    ),
]
Delay: TypeAlias = Annotated[
    float,
    _number(
        "How long to wait before the job can run. Cannot be combined with `run_at`.",
        0,
        limits.DELAY_MAX_MS // 1_000,
        60,
    ),
]
RunAt: TypeAlias = Annotated[
    datetime, _time("The earliest time the job can run; include a time zone.", "2026-08-01T06:00:00Z")
]

# Other numbers and words

Pid: TypeAlias = Annotated[int, _number("The owner's process id on `host`.", 1, limits.PID_MAX, 4711)]
Priority: TypeAlias = Annotated[
    int, _number("Lower runs first.", limits.PRIORITY_MIN, limits.PRIORITY_MAX, limits.PRIORITY_DEFAULT)
]
MaxAttempts: TypeAlias = Annotated[
    int,
    _number("The job is dead after this many attempts.", 1, limits.MAX_ATTEMPTS_MAX, limits.MAX_ATTEMPTS_DEFAULT),
]
MaxClaimed: TypeAlias = Annotated[
    int,
    _number("Maximum number of jobs claimed at a time; null removes the limit.", 1, limits.QUEUE_LIMIT_MAX, 1),
]
Paused: TypeAlias = Annotated[
    bool, Meta(description="Whether to prevent new claims from this queue until it is resumed.", examples=[True])
]
FiguresAge: TypeAlias = Annotated[
    float,
    _number("Maximum age of the figures, in seconds. 0 forces a new count.", 0, limits.FIGURES_AGE_MAX_MS // 1_000, 10),
]
Window: TypeAlias = Annotated[
    float, _number("How far back to look, in seconds.", 1, limits.WINDOW_MAX_MS // 1_000, limits.WINDOW_DEFAULT_SECONDS)
]
ClaimRows: TypeAlias = Annotated[
    int, _number("Maximum number of jobs.", 1, limits.CLAIM_ROWS_MAX, limits.CLAIM_ROWS_MAX)
]
OnlyLost: TypeAlias = Annotated[
    bool,
    Meta(description="Only jobs whose owner lost them within the window, the latest loss first.", examples=[False]),
]
Percent: TypeAlias = Annotated[float, _number("How much is done.", 0, 100, 40)]
PageLimit: TypeAlias = Annotated[int, _number("Maximum number of results.", 1, limits.PAGE_MAX, limits.PAGE_DEFAULT)]
MatchingLimit: TypeAlias = Annotated[
    int, _number("Maximum number of jobs to change.", 1, limits.MATCHING_MAX, limits.MATCHING_DEFAULT)
]
Since: TypeAlias = Annotated[
    datetime, _time("Only events since this time, which must include a time zone.", "2026-07-01T10:00:00Z")
]
EventType: TypeAlias = Annotated[
    str, Meta(description="An event type.", examples=["expired"], extra_json_schema={"enum": list(DETAILS)})
]
EventTypes: TypeAlias = Annotated[
    list[EventType],
    _several("Only events of these types, separated by commas.", "expired", len(DETAILS)),
]
EventSeq: TypeAlias = Annotated[int, _number("Only events after this `seq`.", 0, limits.SEQ_MAX, 0)]
Scopes: TypeAlias = Annotated[
    tuple[Scope, ...],
    Meta(
        description="What the token may do; `admin` includes the others.",
        examples=[["read", "claim"]],
        extra_json_schema={"minItems": 1, "uniqueItems": True},
    ),
]
OrderWord: TypeAlias = Annotated[
    str,
    Meta(
        description="`name`: by name. `run`, only with a `queue`: ready jobs in the order in which they will run, then "
        "those that are due later, claimed, dead and done.",
        extra_json_schema={"enum": list(get_args(Order))},
    ),
]
JobsCursor: TypeAlias = Annotated[
    str, Meta(description="The `cursor` of the previous page.", max_length=limits.CURSOR_BYTES)
]
StatusWord: TypeAlias = Annotated[
    str, Meta(description="Only jobs with this status.", extra_json_schema={"enum": list(get_args(Status))})
]
PhaseWord: TypeAlias = Annotated[
    Phase, Meta(description="What the session is doing now; unchanged if left out.", examples=["planning"])
]
KeepAttempts: TypeAlias = Annotated[
    bool, Meta(description="Give a dead job one more attempt instead of a full set.", examples=[False])
]
Drain: TypeAlias = Annotated[
    bool, Meta(description="Ask the owner to stop, and cancel the job when its claim ends.", examples=[False])
]
SessionStatusWord: TypeAlias = Annotated[
    str, Meta(description="Only sessions with this status.", extra_json_schema={"enum": list(get_args(SessionStatus))})
]

# Batches

Commands: TypeAlias = Annotated[
    list[dict[str, Any]],
    Meta(
        description=(
            "Each command has its name in `command`, like `claim_job`; the other fields are the path parameters and "
            "body fields of the single call. Token commands and commands for all matching jobs are not allowed, and "
            "no command can wait."
        ),
        examples=[[{"command": "claim_job", "job_id": "github-issue-1842", "owner": "agent-3"}]],
        extra_json_schema={"minItems": 1, "maxItems": limits.BATCH_MAX},
    ),
]
Atomic: TypeAlias = Annotated[
    bool, Meta(description="Run all commands in one transaction. If false, the server may use several.")
]
