"""The fields of requests: what each one means, and its bounds for those who read the schema.

Types only say what has the wrong shape. Limits are the core's: the schema tells them, and the commands check them. A
schema counts characters where we count bytes, and cannot tell letters from other signs beyond ASCII; so it is exact
for ASCII, and lets through some other texts that are then refused.
"""

from datetime import datetime
from typing import Annotated, Any, TypeAlias, get_args

from msgspec import Meta

from octostore.core import limits
from octostore.core.events import DETAILS
from octostore.core.model import Phase, Scope, SessionStatus, Status
from octostore.core.questions import Order
from octostore.core.traceparent import EXAMPLE

# Patterns of names: no lookahead and no classes of Unicode, so that every implementation of JSON Schema can read them.
_NOT_IN_NAMES = r"\x00-,/:-@\[-\^`{-\x7f"
_NOT_IN_JOBS = r"\x00-\x22$-*,/;<>?\[-\^`{-\x7f"


def _component(limit: int, without: str = _NOT_IN_NAMES) -> str:
    """One component of a name, which is neither `.` nor `..`."""
    sign, sign_but_dot = f"[^{without}]", f"[^.{without}]"
    first = f"{sign_but_dot}{sign}{{0,{limit - 1}}}"
    after_a_dot = rf"\.{sign_but_dot}{sign}{{0,{limit - 2}}}"
    after_two = rf"\.\.{sign}{{1,{limit - 2}}}"
    return f"(?:{first}|{after_a_dot}|{after_two})"


_COMPONENT = _component(limits.NAME_COMPONENT_BYTES)
_JOB_COMPONENT = _component(limits.NAME_COMPONENT_BYTES, _NOT_IN_JOBS)
JOB_ID_PATTERN = f"^{_JOB_COMPONENT}(?:/{_JOB_COMPONENT})*$"
LOCK_NAME_PATTERN = f"^{_COMPONENT}(?:/{_COMPONENT})*$"
NAME_PATTERN = f"^{_COMPONENT}$"
SESSION_ID_PATTERN = f"^{_component(limits.SESSION_ID_BYTES)}$"
SESSION_PATTERN = rf"^(?:[^\x00-\x1f\x7f-\x9f]{{1,{limits.PRINCIPAL_BYTES}}}/)?{_component(limits.SESSION_ID_BYTES)}$"
PREFIX_PATTERN = f"^(?:[^{_NOT_IN_JOBS}]|/)*$"
LINE_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*$"
TOKEN_NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\[]*$"  # noqa: S105  # of names, not of tokens
TEXT_PATTERN = r"^[^\x00]*$"
TRACEPARENT_PATTERN = "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
NO_TRACE_PATTERN = "^00-(?:0{32}-|.{32}-0{16}-)"


def _text(description: str, limit: int, example: str, *, minimum: int = 0, pattern: str = LINE_PATTERN) -> Meta:
    bounds = {"minLength": minimum, "maxLength": limit, "pattern": pattern}
    return Meta(description=description, examples=[example], extra_json_schema=bounds)


def _number(description: str, low: float, high: float, example: float) -> Meta:
    bounds = {"minimum": low, "maximum": high}
    return Meta(description=description, examples=[example], extra_json_schema=bounds)


def _json(description: str, limit: int, example: Any) -> Meta:
    size = f"{limit:,} bytes" if limit % 1_024 or limit == limits.METADATA_BYTES else f"{limit // 1_024} KiB"
    return Meta(description=f"{description}: any JSON of up to {size}.", examples=[example])


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
        "The name of the job: components of letters, digits, `-`, `_`, `.`, `#`, `:`, `@`, `+` and `=`, separated by "
        "`/`. Percent-encode it in an address: `/` is `%2F`, `#` is `%23`, and in a query `+` is `%2B`."
    ),
]
LockName: TypeAlias = Annotated[
    str,
    _job(
        "The name of the lock: components of letters, digits, `-`, `_` and `.`, separated by `/`, which is `%2F` in an "
        "address. A job whose name has other signs cannot be used as a lock.",
        "deploy-main",
        LOCK_NAME_PATTERN,
    ),
]


JobName: TypeAlias = Annotated[str, _job("The name of a job.")]
HeartbeatsOf: TypeAlias = Annotated[
    list[JobName],
    _several("Up to 200 jobs, with commas between their names.", "github-issue-1842", limits.HEARTBEATS_MAX),
]
AlsoHeartbeatsOf: TypeAlias = Annotated[
    list[JobName],
    _several(
        "Only on a stream: also send the heartbeats of these jobs (up to 200, with commas between their names).",
        "github-issue-1842",
        limits.HEARTBEATS_MAX,
    ),
]
OnlyJob: TypeAlias = Annotated[str, _job("Only this job.")]
NewJobId: TypeAlias = Annotated[str, _job("Its name; by default a new one.", "build-3f1c2aa")]
Cursor: TypeAlias = Annotated[str, _job("The `cursor` of the page before.", "build-3f1c2aa")]
AfterJob: TypeAlias = Annotated[
    str, _job("The `after` of the answer before: only jobs whose names come after it.", "build-3f1c2aa")
]
Prefix: TypeAlias = Annotated[
    str, _text("Only names that begin with it.", limits.JOB_ID_BYTES, "team-a/", pattern=PREFIX_PATTERN)
]
OnlyQueue: TypeAlias = Annotated[str, _name("Only jobs of this queue.", "default")]
OnlyKind: TypeAlias = Annotated[str, _name("Only jobs of this kind.", "build")]
Queue: TypeAlias = Annotated[str, _name("The queue.", "default")]
Kind: TypeAlias = Annotated[str, _name("What kind of work it is.", "build")]
Kinds: TypeAlias = Annotated[list[Kind], _several("Only jobs of these kinds.", "build", limits.KINDS_MAX)]
SessionId: TypeAlias = Annotated[
    str,
    _session(
        "The id of one of your sessions. For operators, `ci%2Fagent-3` is the session `agent-3` of the principal `ci`."
    ),
]
BoundTo: TypeAlias = Annotated[str, _own_session("Your session to bind it to.")]
OnlySession: TypeAlias = Annotated[
    str, _session("Only this session, which is yours; to operators, `ci/agent-3` is that of the principal `ci`.")
]
TaskQueues: TypeAlias = Annotated[
    list[Queue],
    _several(
        "Where to look for a task; a later one only if there is none in those before.", "tasks", limits.TASK_QUEUES_MAX
    ),
]
SessionCursor: TypeAlias = Annotated[str, _session("The `cursor` of the page before.")]
NewSessionId: TypeAlias = Annotated[str, _own_session("The one to resume; by default a new one.")]
TokenId: TypeAlias = Annotated[str, _name("The token's id, which is not its secret.", "tok-1")]
NewTokenId: TypeAlias = Annotated[str, _name("Its id; by default a new one.", "tok-1")]

# Secrets and what makes a call repeatable

LeaseId: TypeAlias = Annotated[
    str,
    _text(
        "The secret from the answer to the claim.",
        limits.LEASE_ID_BYTES,
        "0b9e1c9e-6a5c-4f6e-9d0c-2f6f3f0f8f11",
        minimum=1,
    ),
]
OwnToken: TypeAlias = Annotated[
    int,
    _number(
        "The fencing token that came with the lease. A store that has given out none as high was put back from an "
        "older copy: it answers 503 `unreachable`, with the reason `restored_behind`, and not that the lease is lost.",
        1,
        limits.JSON_INTEGER_MAX,
        1,
    ),
]
WriteNumber: TypeAlias = Annotated[
    int,
    _number(
        "Larger for each write of this kind under the same lease: one that is not above the newest came late, and "
        "changes nothing. Without one, every write counts.",
        1,
        limits.JSON_INTEGER_MAX,
        7,
    ),
]
Holder: TypeAlias = Annotated[
    str,
    _text(
        "Which of the agents that share this token asks. Whoever has the lock gets its lease again; any other is told "
        "`held`. The header `Idempotency-Key` says the same. Without either, agents are told apart by their session "
        "and metadata alone, so give each one its own.",
        limits.TEXT_BYTES,
        "agent-3",
        minimum=1,
    ),
]
LockLease: TypeAlias = Annotated[
    str,
    Meta(
        description="The secret from the answer to `acquire`.",
        examples=["0b9e1c9e-6a5c-4f6e-9d0c-2f6f3f0f8f11"],
        extra_json_schema={"format": "uuid"},
    ),
]
RequestId: TypeAlias = Annotated[
    str, _text("A retry with the same one gets the same again.", limits.REQUEST_ID_BYTES, "4f1c2a6e", minimum=1)
]
OwnOrigin: TypeAlias = Annotated[
    str, Meta(description="The server's own, as browsers send it; or `Sec-Fetch-Site: same-origin`.")
]
Secret: TypeAlias = Annotated[str, Meta(description="A token, which begins with `octo_`.")]
Code: TypeAlias = Annotated[str, Meta(description="From `POST /auth/link`.")]
Digest: TypeAlias = Annotated[
    str,
    Meta(
        description="The SHA-256, in hexadecimal, of a token that you have made yourself. Without it, one is made.",
        extra_json_schema={"pattern": "^[0-9a-fA-F]{64}$"},
    ),
]

Traceparent: TypeAlias = Annotated[
    str,
    Meta(
        description="Where you are in a trace (W3C Trace Context). The header `traceparent` says the same.",
        examples=[EXAMPLE],
        extra_json_schema={"pattern": TRACEPARENT_PATTERN, "not": {"pattern": NO_TRACE_PATTERN}},
    ),
]
TraceparentHeader: TypeAlias = Annotated[
    str,
    Meta(
        description="Where you are in a trace (W3C Trace Context); ignored if malformed. A `traceparent` in the body "
        "takes precedence.",
        examples=[EXAMPLE],
    ),
]

# Texts for people

Owner: TypeAlias = Annotated[
    str, _text("Who this is, for people to read; by default the token's name.", limits.TEXT_BYTES, "agent-3", minimum=1)
]
Agent: TypeAlias = Annotated[str, _text("Who this is, for people to read.", limits.TEXT_BYTES, "agent-3", minimum=1)]
OnlyOwner: TypeAlias = Annotated[
    str, _text("Only jobs that this owner has now.", limits.TEXT_BYTES, "agent-3", minimum=1)
]
AnyOwner: TypeAlias = Annotated[
    str, _text("Only jobs that this owner has, or had in the window.", limits.TEXT_BYTES, "agent-3", minimum=1)
]
Host: TypeAlias = Annotated[
    str,
    _text(
        "The machine that the owner runs on, for people who have to find it; by default the address that the request "
        "came from.",
        limits.TEXT_BYTES,
        "runner-7",
        minimum=1,
    ),
]
ToAgent: TypeAlias = Annotated[str, _text("Who is to open the session next.", limits.TEXT_BYTES, "agent-4", minimum=1)]
ReasonForAll: TypeAlias = Annotated[
    str, _text("Why, for the log of each job.", limits.TEXT_BYTES, "the disk was full", minimum=1)
]
Reason: TypeAlias = Annotated[str, _text("Why, for the log.", limits.TEXT_BYTES, "the worker is stuck")]
Note: TypeAlias = Annotated[
    str, _text("What a successor should know.", limits.NOTE_BYTES, "half of it is uploaded", pattern=TEXT_PATTERN)
]
ProgressNote: TypeAlias = Annotated[
    str, _text("What is being done.", limits.NOTE_BYTES, "running tests", pattern=TEXT_PATTERN)
]
ErrorText: TypeAlias = Annotated[
    str, _text("What went wrong.", limits.ERROR_BYTES, "tests failed", pattern=TEXT_PATTERN)
]
LockMetadata: TypeAlias = Annotated[
    str,
    _text("Shown to all who may read.", limits.METADATA_BYTES, "host=runner-7 build=1842", pattern=TEXT_PATTERN),
]
TokenName: TypeAlias = Annotated[
    str,
    _text(
        "Whom it is for: the principal in the log (with the prefix, if there is one), and an owner's default.",
        limits.TEXT_BYTES,
        "ci",
        minimum=1,
        pattern=TOKEN_NAME_PATTERN,
    ),
]

# Documents

Metadata: TypeAlias = Annotated[Any, _json("For others to see", limits.METADATA_BYTES, {"branch": "fix-1842"})]
Checkpoint: TypeAlias = Annotated[Any, _json("What a successor needs", limits.CHECKPOINT_BYTES, {"step": 3})]
Result: TypeAlias = Annotated[Any, _json("Only with `done`", limits.RESULT_BYTES, {"pr": 77})]
Payload: TypeAlias = Annotated[Any, _json("What the worker needs", limits.PAYLOAD_BYTES, {"commit": "3f1c2aa"})]
Context: TypeAlias = Annotated[
    Any, _json("What the next agent needs", limits.CONTEXT_BYTES, {"phase": "planning", "turn": 4})
]

# Times, in seconds

WAIT_MAX_SECONDS = 60
LOCK_SESSION_TTL_MIN, LOCK_SESSION_TTL_MAX = 10, 300
Ttl: TypeAlias = Annotated[
    float, _number("The claim ends so long after its last heartbeat.", 1, limits.TTL_MAX_MS // 1_000, 120)
]
LockTtl: TypeAlias = Annotated[
    float, _number("The lock ends so long after it was acquired or renewed.", 1, limits.LOCK_TTL_MAX_MS // 1_000, 60)
]
SessionTtl: TypeAlias = Annotated[
    float,
    Meta(
        description=(
            f"It ends so long after its last keepalive. With an `agent` from 1 to {limits.TTL_MAX_MS // 1_000:,}, by "
            f"default {limits.TTL_DEFAULT_SECONDS}; without one {limits.LOCK_TTL_DEFAULT_SECONDS}, and never under "
            f"{LOCK_SESSION_TTL_MIN} or over {LOCK_SESSION_TTL_MAX}."
        ),
        examples=[60],
    ),
]
Wait: TypeAlias = Annotated[
    float, _number("How long to wait for the job if it cannot be had at once.", 0, WAIT_MAX_SECONDS, 0)
]
MaxSilence: TypeAlias = Annotated[
    float,
    _number(
        "How long the owner may heartbeat without reporting progress (`progress` with a heartbeat, or a checkpoint). "
        "After that it is shown as `stuck`. By default for ever.",
        1,
        limits.TTL_MAX_MS // 1_000,
        600,
    ),
]
LockDelay: TypeAlias = Annotated[
    float, _number("How long nobody can claim it after this claim ends.", 0, limits.LOCK_DELAY_MAX_MS // 1_000, 0)
]
RetryAfter: TypeAlias = Annotated[
    float, _number("Only with `failed` or `deferred`: when to try again.", 0, limits.RETRY_AFTER_MAX_MS // 1_000, 900)
]
ExpiresIn: TypeAlias = Annotated[
    float, _number("When it ends by itself.", 1, limits.TOKEN_LIFE_MAX_MS // 1_000, 86_400)
]
RunAt: TypeAlias = Annotated[
    datetime,
    Meta(
        description="Not before this; with its time zone.",
        examples=["2026-08-01T06:00:00Z"],
        extra_json_schema={"format": "date-time", "pattern": "^(?:19[7-9][0-9]|[2-9][0-9]{3})-"},
    ),
]

# Other numbers and words

Pid: TypeAlias = Annotated[int, _number("The owner's process there.", 1, limits.PID_MAX, 4711)]
Priority: TypeAlias = Annotated[
    int, _number("Lower runs first.", limits.PRIORITY_MIN, limits.PRIORITY_MAX, limits.PRIORITY_DEFAULT)
]
MaxAttempts: TypeAlias = Annotated[
    int, _number("It is dead after so many.", 1, limits.MAX_ATTEMPTS_MAX, limits.MAX_ATTEMPTS_DEFAULT)
]
MaxClaimed: TypeAlias = Annotated[
    int, _number("How many of its jobs may be claimed at once; null lifts the limit.", 1, limits.QUEUE_LIMIT_MAX, 1)
]
Paused: TypeAlias = Annotated[
    bool, Meta(description="Whether to hand out none of its jobs until it is resumed.", examples=[True])
]
FiguresAge: TypeAlias = Annotated[
    float,
    _number("How old the figures may be, in seconds. 0 counts anew.", 0, limits.FIGURES_AGE_MAX_MS // 1_000, 10),
]
Window: TypeAlias = Annotated[
    float, _number("How far back to look, in seconds.", 1, limits.WINDOW_MAX_MS // 1_000, limits.WINDOW_DEFAULT_SECONDS)
]
ClaimRows: TypeAlias = Annotated[
    int, _number("Maximum number of jobs.", 1, limits.CLAIM_ROWS_MAX, limits.CLAIM_ROWS_MAX)
]
OnlyLost: TypeAlias = Annotated[
    bool, Meta(description="Only jobs that somebody lost in the window, the newest loss first.", examples=[False])
]
Percent: TypeAlias = Annotated[float, _number("How much of it is done.", 0, 100, 40)]
PageLimit: TypeAlias = Annotated[int, _number("How many at most.", 1, limits.PAGE_MAX, limits.PAGE_DEFAULT)]
MatchingLimit: TypeAlias = Annotated[
    int, _number("How many to change at most.", 1, limits.MATCHING_MAX, limits.MATCHING_DEFAULT)
]
Since: TypeAlias = Annotated[
    datetime,
    Meta(
        description="Only what has happened since this time; with its time zone.",
        examples=["2026-07-01T10:00:00Z"],
        extra_json_schema={"format": "date-time", "pattern": "^(?:19[7-9][0-9]|[2-9][0-9]{3})-"},
    ),
]
EventType: TypeAlias = Annotated[
    str, Meta(description="A type of event.", examples=["expired"], extra_json_schema={"enum": list(DETAILS)})
]
EventTypes: TypeAlias = Annotated[
    list[EventType],
    _several("Only events of these types, with commas between them.", "expired", len(DETAILS)),
]
EventSeq: TypeAlias = Annotated[int, _number("Only what comes after the event of this `seq`.", 0, limits.SEQ_MAX, 0)]
Scopes: TypeAlias = Annotated[
    tuple[Scope, ...],
    Meta(
        description="What it may do; `admin` includes the others.",
        examples=[["read", "claim"]],
        extra_json_schema={"minItems": 1, "uniqueItems": True},
    ),
]
OrderWord: TypeAlias = Annotated[
    str,
    Meta(
        description="By name, or (`run`, with a `queue`) as they will run: ready, due later, claimed, dead, done.",
        extra_json_schema={"enum": list(get_args(Order))},
    ),
]
JobsCursor: TypeAlias = Annotated[
    str, Meta(description="The `cursor` of the page before.", max_length=limits.CURSOR_BYTES)
]
StatusWord: TypeAlias = Annotated[
    str, Meta(description="Only jobs that are so.", extra_json_schema={"enum": list(get_args(Status))})
]
PhaseWord: TypeAlias = Annotated[
    Phase, Meta(description="What the session is doing now; without it, that stays.", examples=["planning"])
]
KeepAttempts: TypeAlias = Annotated[
    bool, Meta(description="Give a dead job one more attempt, and not all of them again.", examples=[False])
]
Drain: TypeAlias = Annotated[
    bool, Meta(description="Ask an owner to stop, and cancel the job when its claim ends.", examples=[False])
]
SessionStatusWord: TypeAlias = Annotated[
    str, Meta(description="Only sessions that are so.", extra_json_schema={"enum": list(get_args(SessionStatus))})
]

# Batches

Commands: TypeAlias = Annotated[
    list[dict[str, Any]],
    Meta(
        description=(
            "Each has its name in `command`, such as `claim_job`; all else is what the single call has in its address "
            "and its body. Any command but those about tokens and about all jobs that match; none can wait."
        ),
        examples=[[{"command": "claim_job", "job_id": "github-issue-1842", "owner": "agent-3"}]],
        extra_json_schema={"minItems": 1, "maxItems": limits.BATCH_MAX},
    ),
]
Atomic: TypeAlias = Annotated[
    bool, Meta(description="All in one transaction, so that nobody sees a part of it; else in as many as are needed.")
]
