"""The table of endpoints, shared by server and client: the method, path and body of each command and question.

The server adds handlers and documentation (`server/routes`).
"""

import re
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from octostore.core import commands as c
from octostore.core import questions as q
from octostore.core import replies as r
from octostore.core.claim_replies import ClaimsPage
from octostore.core.model import Scope
from octostore.wire import bodies as b

_PARAM = re.compile(r"{(\w+)}")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    operation: str
    """Its name in the OpenAPI document and in a batch."""
    method: str
    path: str
    message_type: Any = None
    """The command or question that a request carries; None for endpoints of the server itself."""
    reply: Any = None
    """The type that the library decodes the response into; None if the library does not call this endpoint."""
    body: type[b.Shape] | None = None
    query: type[b.Shape] | None = None
    scope: Scope | None = "read"
    """The scope a token needs; None if any token will do."""
    is_public: bool = False
    """Whether it works without a token."""
    is_store_wide: bool = False
    """Whether it affects more than single names, so a token limited to a prefix cannot use it."""
    lost_status: int = 409
    """The status of a response that says that the lease is lost."""
    is_batch: bool = False
    """Whether it carries several commands, and so may have a larger body."""
    is_repeatable: bool = True
    """Whether a second call changes nothing more, even if others wrote in between."""
    params: tuple[str, ...] = ()
    """The parameters in the path. The message has a field for each."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "params", tuple(_PARAM.findall(self.path)))

    def target_for(self, message: Any) -> str:
        """The request target: path and query."""
        path = self.path
        for name in self.params:
            path = path.replace(f"{{{name}}}", quote(getattr(message, name), safe=""))
        query = {} if self.query is None else msgspec.to_builtins(self.query.of(message))
        encoded = {name: ",".join(value) if isinstance(value, list) else value for name, value in query.items()}
        return f"{path}?{urlencode(encoded)}" if query else path

    def body_for(self, message: Any, wait: float = 0) -> b.Shape | None:
        if self.body is None:
            return None
        return self.body.of(message, wait_seconds=wait) if wait else self.body.of(message)

    def can_repeat(self, message: Any) -> bool:
        """Whether to send `message` again if the first attempt may have worked.

        Without a lease id, a repeat could end the next session. A claim needs none: its request id identifies it.
        """
        is_identified = getattr(message, "lease_id", "") is not None or isinstance(message, c.ClaimTerms)
        return self.is_repeatable and is_identified


def _row(
    operation: str, line: str, message_type: Any = None, reply: Any = None, sends: Any = None, **more: Any
) -> Endpoint:
    method, path = line.split(" ")
    sent = {"query" if method == "GET" else "body": sends}
    return Endpoint(
        operation=operation, method=method, path=path, message_type=message_type, reply=reply, **sent, **more
    )


GONE = 410
_CLAIM: dict[str, Any] = {"scope": "claim"}
_HELD: dict[str, Any] = {**_CLAIM, "lost_status": GONE}
_STORE_ADMIN: dict[str, Any] = {"scope": "admin", "is_store_wide": True}
# These name a job, not a lease: a repeat could hit the next claim or attempt.
_ONCE: dict[str, Any] = {"scope": "admin", "is_repeatable": False}
# A repeat could overwrite another operator's newer setting.
_SETTING: dict[str, Any] = {**_STORE_ADMIN, "is_repeatable": False}
_PUBLIC: dict[str, Any] = {"is_public": True}

_JOB, _SESSION = "/jobs/{job_id}", "/sessions/{session_id}"

ENDPOINTS = [
    _row("claim_job", f"POST {_JOB}/claim", c.ClaimJob, r.ClaimReply, b.ClaimBody, **_CLAIM),
    _row("heartbeat_job", f"POST {_JOB}/heartbeat", c.HeartbeatJob, r.HeartbeatReply, b.HeartbeatBody, **_CLAIM),
    _row("checkpoint_job", f"POST {_JOB}/checkpoint", c.CheckpointJob, r.CheckpointReply, b.CheckpointBody, **_CLAIM),
    _row("release_job", f"POST {_JOB}/release", c.ReleaseJob, r.ReleaseReply, b.ReleaseBody, **_CLAIM),
    _row("undo", "POST /undo", c.Undo, r.UndoReply, b.UndoBody, **_CLAIM),
    _row("get_job", f"GET {_JOB}", q.GetJob, r.JobView),
    _row("find_similar", f"GET {_JOB}/similar", q.FindSimilar, r.SimilarNames),
    _row("list_jobs", "GET /jobs", q.ListJobs, r.JobPage, b.JobsQuery),
    _row("list_heartbeats", "GET /heartbeats", q.ListHeartbeats, r.Heartbeats, b.HeartbeatsQuery),
    _row("list_claims", "GET /claims", q.ListClaims, ClaimsPage, b.ClaimsQuery),
    _row("enqueue", "POST /jobs", c.Enqueue, r.EnqueueReply, b.EnqueueBody, **_CLAIM),
    _row("requeue_job", f"POST {_JOB}/requeue", c.RequeueJob, r.JobView, b.RequeueBody, **_ONCE),
    _row("cancel_job", f"POST {_JOB}/cancel", c.CancelJob, r.JobView, b.CancelBody, **_ONCE),
    _row("request_stop", f"POST {_JOB}/stop", c.RequestStop, r.JobView, b.ReasonBody, **_ONCE),
    _row("discard_job", f"POST {_JOB}/discard", c.DiscardJob, r.JobView, b.ReasonBody, **_ONCE),
    _row("force_release_job", f"POST {_JOB}/force-release", c.ForceReleaseJob, r.JobView, b.ReasonBody, **_ONCE),
    _row("requeue_matching", "POST /jobs/requeue", c.RequeueMatching, r.ChangedReply, b.RequeueMatchingBody, **_ONCE),
    _row("discard_matching", "POST /jobs/discard", c.DiscardMatching, r.ChangedReply, b.MatchingBody, **_ONCE),
    _row("recover", "POST /recover", c.Recover, r.RecoverReply, **_STORE_ADMIN),
    _row("claim_next", "POST /queues/{queue}/claim", c.ClaimNext, r.ClaimReply, b.ClaimNextBody, **_CLAIM),
    _row("get_queue", "GET /queues/{queue}", q.GetQueue, r.QueueStatus),
    _row("list_queues", "GET /queues", q.ListQueues, r.QueueList),
    _row("limit_queue", "PUT /queues/{queue}/limit", c.SetQueue, r.QueueView, b.LimitQueueBody, **_SETTING),
    _row("set_queue", "PUT /queues/{queue}", c.SetQueue, r.QueueView, b.SetQueueBody, **_SETTING),
    _row("open_session", "POST /sessions", c.OpenSession, r.SessionReply, b.OpenSessionBody, **_CLAIM),
    _row("keepalive", f"POST {_SESSION}/keepalive", c.KeepSessionAlive, r.KeepaliveReply, b.SessionLeaseBody, **_HELD),
    _row("get_session", f"GET {_SESSION}", q.GetSession, r.SessionView),
    _row("list_sessions", "GET /sessions", q.ListSessions, r.SessionPage, b.SessionsQuery),
    _row("save_context", f"PUT {_SESSION}/context", c.SaveSession, r.SavedReply, b.SaveSessionBody, **_HELD),
    _row("hand_over", f"POST {_SESSION}/hand-over", c.HandOverSession, r.HandedOverReply, b.HandOverBody, **_HELD),
    _row("claim_task", f"POST {_SESSION}/claim", c.ClaimTask, r.ClaimReply, b.ClaimTaskBody, **_CLAIM),
    _row("release_task", f"POST {_SESSION}/release", c.ReleaseTask, r.ReleaseReply, b.ReleaseTaskBody, **_CLAIM),
    _row("close_session", f"DELETE {_SESSION}", c.CloseSession, r.ClosedReply, b.SessionLeaseBody, **_HELD),
    _row("batch", "POST /batch", sends=b.BatchBody, scope=None, is_batch=True),
    _row("events", "GET /events", q.ListEvents, r.EventPage, b.EventsQuery),
    # Locks, for existing lock clients
    _row("acquire_lock", "POST /locks/{job_id}/acquire", c.AcquireLock, sends=b.AcquireBody, **_CLAIM),
    _row("renew_lock", "POST /locks/{job_id}/renew", c.HeartbeatJob, sends=b.RenewBody, **_CLAIM),
    _row("release_lock", "POST /locks/{job_id}/release", c.ReleaseLock, sends=b.ReleaseLockBody, **_CLAIM),
    _row("get_lock", "GET /locks/{job_id}", q.GetJob),
    _row("list_locks", "GET /locks", sends=b.LocksQuery),
    _row("watch_lock", "GET /locks/{job_id}/watch"),
    # Tokens
    _row("create_token", "POST /tokens", c.CreateToken, r.TokenView, b.TokenBody, **_STORE_ADMIN),
    _row("list_tokens", "GET /tokens", q.ListTokens, r.TokenList, **_STORE_ADMIN),
    _row("revoke_token", "DELETE /tokens/{token_id}", c.RevokeToken, r.TokenView, **_STORE_ADMIN),
    _row("who_am_i", "GET /auth/whoami", q.WhoAmI, r.PrincipalView, scope=None),
    _row("rotate_token", "POST /auth/token/rotate", sends=b.RotateBody, scope=None),
    # For agents
    _row("mcp", "POST /mcp", scope=None),
    _row("mcp_resource", "GET /.well-known/oauth-protected-resource/mcp", **_PUBLIC),
    _row("resource", "GET /.well-known/oauth-protected-resource", **_PUBLIC),
    # The live page
    _row("page", "GET /", **_PUBLIC),
    _row("log_in", "POST /ui/login", sends=b.LoginBody, **_PUBLIC),
    _row("log_out", "POST /ui/logout", **_PUBLIC),
    _row("make_link", "POST /auth/link", scope=None),
    # The server itself
    _row("livez", "GET /livez", **_PUBLIC),
    _row("readyz", "GET /readyz", c.Probe, r.ProbeReply, **_PUBLIC),
    _row("health", "GET /health", **_PUBLIC),
    _row("status", "GET /status", **_PUBLIC),
    _row("figures", "GET /figures", q.GetFigures, r.Figures, b.FiguresQuery, is_store_wide=True),
    _row("metrics_page", "GET /metrics", **_PUBLIC),
    _row("openapi", "GET /openapi.json", **_PUBLIC),
    _row("api_page", "GET /docs", **_PUBLIC),
]
BY_OPERATION = {endpoint.operation: endpoint for endpoint in ENDPOINTS}
BY_KIND = {endpoint.message_type: endpoint for endpoint in ENDPOINTS if endpoint.reply is not None}
"""The endpoint the library uses for each message: the last one, if several carry it."""
