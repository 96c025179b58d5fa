"""The table of endpoints, which server and client both read: where each command and question goes, and as what.

The server adds prose, and what it does besides (`server/routes`); the client needs no more than this.
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
    """Its name in descriptions, and in a batch."""
    method: str
    path: str
    message_type: Any = None
    """The kind of command or question that a request stands for, where it is one."""
    reply: Any = None
    """What the library makes of the answer; None for what it does not use."""
    body: type[b.Shape] | None = None
    query: type[b.Shape] | None = None
    scope: Scope | None = "read"
    """What the token must be good for; None where any will do."""
    is_public: bool = False
    """Needs no token."""
    is_store_wide: bool = False
    """Not about names, and so not for a token that is limited to some."""
    is_batch: bool = False
    """Brings several commands, and so may be larger."""
    is_repeatable: bool = True
    """Whether doing it twice is the same as once, also when others have done something in between."""
    params: tuple[str, ...] = ()
    """The names of the segments that can be anything. What it asks has a field for each."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "params", tuple(_PARAM.findall(self.path)))

    def target_for(self, asked: Any) -> str:
        """Path and query."""
        path = self.path
        for name in self.params:
            path = path.replace(f"{{{name}}}", quote(getattr(asked, name), safe=""))
        query = {} if self.query is None else msgspec.to_builtins(self.query.of(asked))
        written = {name: ",".join(value) if isinstance(value, list) else value for name, value in query.items()}
        return f"{path}?{urlencode(written)}" if query else path

    def body_for(self, asked: Any, wait: float = 0) -> b.Shape | None:
        if self.body is None:
            return None
        return self.body.of(asked, wait_seconds=wait) if wait else self.body.of(asked)

    def can_repeat(self, asked: Any) -> bool:
        """Whether `asked` may be sent again after it may have worked. Without a lease, it may end the next session."""
        is_known = getattr(asked, "lease_id", "") is not None or isinstance(asked, c.ClaimTerms)  # by its request
        return self.is_repeatable and is_known


def _at(
    operation: str, line: str, message_type: Any = None, reply: Any = None, sends: Any = None, **more: Any
) -> Endpoint:
    method, path = line.split(" ")
    sent = {"query" if method == "GET" else "body": sends}
    return Endpoint(
        operation=operation, method=method, path=path, message_type=message_type, reply=reply, **sent, **more
    )


_CLAIM: dict[str, Any] = {"scope": "claim"}
_ADMIN_OF_ALL: dict[str, Any] = {"scope": "admin", "is_store_wide": True}
# About whatever claim or attempt there is: the second time it could be the next one.
_ONCE: dict[str, Any] = {"scope": "admin", "is_repeatable": False}
_PUBLIC: dict[str, Any] = {"is_public": True}

_JOB, _SESSION = "/jobs/{job_id}", "/sessions/{session_id}"

ENDPOINTS = [
    _at("claim_job", f"POST {_JOB}/claim", c.ClaimJob, r.ClaimReply, b.ClaimBody, **_CLAIM),
    _at("heartbeat_job", f"POST {_JOB}/heartbeat", c.HeartbeatJob, r.HeartbeatReply, b.HeartbeatBody, **_CLAIM),
    _at("checkpoint_job", f"POST {_JOB}/checkpoint", c.CheckpointJob, r.CheckpointReply, b.CheckpointBody, **_CLAIM),
    _at("release_job", f"POST {_JOB}/release", c.ReleaseJob, r.ReleaseReply, b.ReleaseBody, **_CLAIM),
    _at("undo", "POST /undo", c.Undo, r.UndoReply, b.UndoBody, **_CLAIM),
    _at("get_job", f"GET {_JOB}", q.GetJob, r.JobView),
    _at("find_similar", f"GET {_JOB}/similar", q.FindSimilar, r.SimilarNames),
    _at("list_jobs", "GET /jobs", q.ListJobs, r.JobPage, b.JobsQuery),
    _at("list_heartbeats", "GET /heartbeats", q.ListHeartbeats, r.Heartbeats, b.HeartbeatsQuery),
    _at("list_claims", "GET /claims", q.ListClaims, ClaimsPage, b.ClaimsQuery),
    _at("enqueue", "POST /jobs", c.Enqueue, r.EnqueueReply, b.EnqueueBody, **_CLAIM),
    _at("requeue_job", f"POST {_JOB}/requeue", c.RequeueJob, r.JobView, b.RequeueBody, **_ONCE),
    _at("cancel_job", f"POST {_JOB}/cancel", c.CancelJob, r.JobView, b.CancelBody, **_ONCE),
    _at("request_stop", f"POST {_JOB}/stop", c.RequestStop, r.JobView, b.ReasonBody, **_ONCE),
    _at("discard_job", f"POST {_JOB}/discard", c.DiscardJob, r.JobView, b.ReasonBody, **_ONCE),
    _at("force_release_job", f"POST {_JOB}/force-release", c.ForceReleaseJob, r.JobView, b.ReasonBody, **_ONCE),
    _at("requeue_matching", "POST /jobs/requeue", c.RequeueMatching, r.ChangedReply, b.RequeueMatchingBody, **_ONCE),
    _at("discard_matching", "POST /jobs/discard", c.DiscardMatching, r.ChangedReply, b.MatchingBody, **_ONCE),
    _at("recover", "POST /recover", c.Recover, r.RecoverReply, **_ADMIN_OF_ALL),
    _at("claim_next", "POST /queues/{queue}/claim", c.ClaimNext, r.ClaimReply, b.ClaimNextBody, **_CLAIM),
    _at("get_queue", "GET /queues/{queue}", q.GetQueue, r.QueueStatus),
    _at("list_queues", "GET /queues", q.ListQueues, r.QueueList),
    _at("limit_queue", "PUT /queues/{queue}/limit", c.SetQueue, r.QueueView, b.LimitQueueBody, **_ADMIN_OF_ALL),
    _at("set_queue", "PUT /queues/{queue}", c.SetQueue, r.QueueView, b.SetQueueBody, **_ADMIN_OF_ALL),
    _at("open_session", "POST /sessions", c.OpenSession, r.SessionReply, b.OpenSessionBody, **_CLAIM),
    _at("keepalive", f"POST {_SESSION}/keepalive", c.KeepSessionAlive, r.KeepaliveReply, b.SessionLeaseBody, **_CLAIM),
    _at("get_session", f"GET {_SESSION}", q.GetSession, r.SessionView),
    _at("list_sessions", "GET /sessions", q.ListSessions, r.SessionPage, b.SessionsQuery),
    _at("save_context", f"PUT {_SESSION}/context", c.SaveSession, r.SavedReply, b.SaveSessionBody, **_CLAIM),
    _at("hand_over", f"POST {_SESSION}/hand-over", c.HandOverSession, r.HandedOverReply, b.HandOverBody, **_CLAIM),
    _at("claim_task", f"POST {_SESSION}/claim", c.ClaimTask, r.ClaimReply, b.ClaimTaskBody, **_CLAIM),
    _at("release_task", f"POST {_SESSION}/release", c.ReleaseTask, r.ReleaseReply, b.ReleaseTaskBody, **_CLAIM),
    _at("close_session", f"DELETE {_SESSION}", c.CloseSession, r.ClosedReply, b.SessionLeaseBody, **_CLAIM),
    _at("batch", "POST /batch", sends=b.BatchBody, scope=None, is_batch=True),
    _at("events", "GET /events", q.ListEvents, r.EventPage, b.EventsQuery),
    # As existing lock clients know them
    _at("acquire_lock", "POST /locks/{job_id}/acquire", c.AcquireLock, sends=b.AcquireBody, **_CLAIM),
    _at("renew_lock", "POST /locks/{job_id}/renew", c.HeartbeatJob, sends=b.RenewBody, **_CLAIM),
    _at("release_lock", "POST /locks/{job_id}/release", c.ReleaseLock, sends=b.ReleaseLockBody, **_CLAIM),
    _at("get_lock", "GET /locks/{job_id}", q.GetJob),
    _at("list_locks", "GET /locks", sends=b.LocksQuery),
    _at("watch_lock", "GET /locks/{job_id}/watch"),
    # Who may do what
    _at("create_token", "POST /tokens", c.CreateToken, r.TokenView, b.TokenBody, **_ADMIN_OF_ALL),
    _at("list_tokens", "GET /tokens", q.ListTokens, r.TokenList, **_ADMIN_OF_ALL),
    _at("revoke_token", "DELETE /tokens/{token_id}", c.RevokeToken, r.TokenView, **_ADMIN_OF_ALL),
    _at("who_am_i", "GET /auth/whoami", q.WhoAmI, r.PrincipalView, scope=None),
    _at("rotate_token", "POST /auth/token/rotate", sends=b.RotateBody, scope=None),
    # For agents
    _at("mcp", "POST /mcp", scope=None),
    _at("mcp_resource", "GET /.well-known/oauth-protected-resource/mcp", **_PUBLIC),
    _at("resource", "GET /.well-known/oauth-protected-resource", **_PUBLIC),
    # The live page
    _at("page", "GET /", **_PUBLIC),
    _at("log_in", "POST /ui/login", sends=b.LoginBody, **_PUBLIC),
    _at("log_out", "POST /ui/logout", **_PUBLIC),
    _at("make_link", "POST /auth/link", scope=None),
    # The server itself
    _at("livez", "GET /livez", **_PUBLIC),
    _at("readyz", "GET /readyz", c.Probe, r.ProbeReply, **_PUBLIC),
    _at("health", "GET /health", **_PUBLIC),
    _at("status", "GET /status", **_PUBLIC),
    _at("figures", "GET /figures", q.GetFigures, r.Figures, b.FiguresQuery, is_store_wide=True),
    _at("metrics_page", "GET /metrics", **_PUBLIC),
    _at("openapi", "GET /openapi.json", **_PUBLIC),
    _at("api_page", "GET /docs", **_PUBLIC),
]
BY_OPERATION = {endpoint.operation: endpoint for endpoint in ENDPOINTS}
BY_KIND = {endpoint.message_type: endpoint for endpoint in ENDPOINTS if endpoint.reply is not None}
"""Where the library sends what; of two that stand for the same, to the last."""
