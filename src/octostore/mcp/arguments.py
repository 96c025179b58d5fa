"""What the tools take: their names are the library's, their bounds those of the core."""

from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from octostore.core import limits
from octostore.core.encoding import shorten
from octostore.core.errors import InvalidInput
from octostore.core.model import Outcome
from octostore.wire import fields as f
from octostore.wire.bodies import with_whole_numbers

WAIT_MAX_SECONDS = 600
PAGE_DEFAULT, PAGE_MAX = 50, 200
"""How much is listed at once: all of it goes through a model."""
SHOWN_BYTES = 200
"""How much is quoted of what was wrong."""

JobId: TypeAlias = Annotated[
    f.JobId, Meta(description="The name of the job: letters, digits, any of `-_.#:@+=`, with `/` between parts.")
]
Owner: TypeAlias = Annotated[
    f.Owner,
    Meta(description="Who you are, for people and other agents to read; by default what this server was started with."),
]
Wait: TypeAlias = Annotated[
    float,
    Meta(
        description="For how many seconds to wait if it cannot be had at once. Your client may end a call sooner.",
        examples=[30],
        extra_json_schema={"minimum": 0, "maximum": WAIT_MAX_SECONDS},
    ),
]
Ttl: TypeAlias = Annotated[
    f.Ttl,
    Meta(description="How many seconds after this server's death another may take over. Not how long you may work."),
]
Limit: TypeAlias = Annotated[
    int, Meta(description="How many at most.", extra_json_schema={"minimum": 1, "maximum": PAGE_MAX})
]


class Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One that we do not know is refused, because ignoring it would do something else than was asked for."""


class Nothing(Arguments):
    pass


class OneJob(Arguments):
    job_id: JobId


class OneClaim(OneJob):
    """A claim of the agent."""


MaxSilence: TypeAlias = Annotated[
    f.MaxSilence,
    Meta(
        description="After how many seconds without report_progress or checkpoint you count as stuck, although this "
        "server is alive. Choose it for work on which a person should look if you hang; by default never."
    ),
]


class Terms(Arguments):
    owner: Owner | None = None
    metadata: f.Metadata = None
    ttl: Ttl = limits.TTL_DEFAULT_SECONDS
    max_silence: MaxSilence | None = None
    wait: Wait = 0


class ClaimJob(Terms, kw_only=True):
    job_id: JobId
    again: Annotated[bool, Meta(description="Claim it although it is done.")] = False


class ClaimNext(Terms):
    queue: f.Queue = "default"
    kinds: f.Kinds | None = None


class Progress(OneClaim):
    note: f.ProgressNote | None = None
    percent: f.Percent | None = None


class Checkpoint(OneClaim):
    data: f.Checkpoint


class Release(OneClaim):
    outcome: Annotated[
        Outcome,
        Meta(description="`done`: finished. `failed`: tried in vain. `deferred`: not now. `released`: not by me."),
    ] = "released"
    result: f.Result = None
    error: f.ErrorText | None = None
    note: f.Note | None = None
    retry_after: f.RetryAfter | None = None


class Enqueue(Arguments):
    kind: f.Kind
    payload: f.Payload = None
    job_id: (
        Annotated[f.NewJobId, Meta(description="Its name; by default a new one. A known one is not added twice.")]
        | None
    ) = None
    queue: f.Queue = "default"
    priority: f.Priority = limits.PRIORITY_DEFAULT
    run_at: f.RunAt | None = None
    max_attempts: f.MaxAttempts = limits.MAX_ATTEMPTS_DEFAULT


class Listing(Arguments):
    prefix: f.Prefix | None = None
    limit: Limit = PAGE_DEFAULT
    cursor: f.Cursor | None = None


class DeadListing(Listing):
    queue: f.Queue | None = None


class Events(Arguments):
    after: f.EventSeq = 0
    job_id: f.OnlyJob | None = None
    prefix: f.Prefix | None = None
    limit: Limit = PAGE_DEFAULT


class Operation(OneJob):
    reason: f.Reason | None = None


A = TypeVar("A", bound=Arguments)


def read(kind: type[A], given: dict[str, Any]) -> A:
    """Raises `InvalidInput`, before anything is done."""
    takes = ", ".join(kind.__struct_fields__) or "none"
    for name in given:
        if name not in kind.__struct_fields__:
            raise InvalidInput(shorten(name, SHOWN_BYTES), f"is no argument of this tool; those that it takes: {takes}")
    required = [field.name for field in msgspec.structs.fields(kind) if field.required]
    for name in required:
        if name not in given:
            raise InvalidInput(name, "is required")
    # Models write null for what they leave out.
    said = {name: value for name, value in given.items() if value is not None or name in required}
    try:
        return msgspec.convert(with_whole_numbers(said, kind), kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        raise InvalidInput(path.rstrip("`"), f"is wrong: {shorten(problem, SHOWN_BYTES)}") from None
