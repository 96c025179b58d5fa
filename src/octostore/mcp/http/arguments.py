"""The tools' arguments over HTTP, where they differ: a handle names a claim or session, which lives by its TTL."""

from typing import Annotated, ClassVar, TypeAlias

from msgspec import Meta

from octostore.core.model import Phase
from octostore.mcp import arguments as g
from octostore.wire import fields as f

TTL_DEFAULT_SECONDS = 600
HANDLE_LETTERS = 400
HANDLES_MAX = 100

Handle: TypeAlias = Annotated[str, Meta(description="From the reply to your claim.", max_length=HANDLE_LETTERS)]
SessionHandle: TypeAlias = Annotated[str, Meta(description="From open_session.", max_length=HANDLE_LETTERS)]
Ttl: TypeAlias = Annotated[
    f.Ttl, Meta(description="Seconds until it expires, counted from your last call with its handle.")
]
Wait: TypeAlias = Annotated[
    float,
    Meta(
        description="Seconds to wait for it.",
        extra_json_schema={"minimum": 0, "maximum": f.WAIT_MAX_SECONDS},
    ),
]
RequestId: TypeAlias = Annotated[
    f.RequestId,
    Meta(description="Any unique text; repeat it to get a lost reply."),
]


class ClaimJob(g.ClaimJob, kw_only=True):
    WAIT_MAX_SECONDS: ClassVar = f.WAIT_MAX_SECONDS

    ttl: Ttl = TTL_DEFAULT_SECONDS
    wait: Wait = 0
    request_id: RequestId | None = None


class ClaimNext(g.ClaimNext, kw_only=True):
    WAIT_MAX_SECONDS: ClassVar = f.WAIT_MAX_SECONDS

    ttl: Ttl = TTL_DEFAULT_SECONDS
    wait: Wait = 0
    request_id: RequestId | None = None


class ByHandle(g.Arguments):
    """A claim of the agent's."""

    handle: Handle


class Progress(ByHandle, kw_only=True):
    note: Annotated[f.ProgressNote, Meta(description="What you are doing.")] | None = None
    percent: g.Percent | None = None


class Checkpoint(ByHandle, kw_only=True):
    data: f.Checkpoint


class Release(ByHandle, kw_only=True):
    outcome: g.How = "released"
    result: f.Result = None
    error: g.ErrorText | None = None
    note: Annotated[f.Note, Meta(description="For the next owner.")] | None = None
    retry_after: Annotated[f.RetryAfter, Meta(description="Seconds, if `failed` or `deferred`.")] | None = None


class ReleaseTask(Release):
    outcome: g.How = "done"


class Handles(g.Arguments):
    handles: Annotated[list[Handle], Meta(description="The handles of your claims.", max_length=HANDLES_MAX)]


class OpenSession(g.OpenSession, kw_only=True):
    ttl: Ttl = TTL_DEFAULT_SECONDS
    request_id: RequestId | None = None


class BySessionHandle(g.Arguments):
    """A session of the agent's."""

    handle: SessionHandle


class ClaimTask(g.Task, kw_only=True):
    WAIT_MAX_SECONDS: ClassVar = f.WAIT_MAX_SECONDS

    handle: SessionHandle
    wait: Wait = 0
    request_id: RequestId | None = None


class SaveSession(BySessionHandle, kw_only=True):
    context: f.Context
    phase: Annotated[Phase, Meta(description="The phase.")] | None = None


class HandOver(BySessionHandle, kw_only=True):
    to_agent: Annotated[f.ToAgent, Meta(description="Its `owner` name.")]
    note: Annotated[f.Note, Meta(description="For the next agent.")] | None = None
