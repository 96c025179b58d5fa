"""Authenticated requests, and the handling that commands and questions share."""

import time
from typing import Any

import msgspec

from octostore.core.commands import AnyCommand, HeartbeatJob
from octostore.core.errors import InvalidInput, LeaseLost, LimitExceeded, OctoStoreError, Unreachable
from octostore.core.limits import check_range
from octostore.core.replies import ClaimReply, HeartbeatReply, ReleaseReply
from octostore.core.traceparent import traceparent_from
from octostore.core.undo import undo_of
from octostore.server.http import ClientDisconnected, Request, Response
from octostore.server.log import log
from octostore.server.principals import Principal
from octostore.server.refusals import Refusal, bad_token, missing_scope, refusal_for
from octostore.server.router import Route
from octostore.server.services import Services
from octostore.wire.bodies import Shape, with_wire_name
from octostore.wire.endpoints import BY_OPERATION
from octostore.wire.fields import WAIT_MAX_SECONDS, TraceparentHeader

SERVER_ERROR = 500
NOT_OUTAGES = {"closed", "late", "restored_behind"}
"""Reasons for `Unreachable` that do not mean an outage of the store."""


class Call(msgspec.Struct):
    route: Route
    params: dict[str, str]
    request: Request
    principal: Principal
    services: Services
    body: Any = None
    query: Any = None

    @property
    def host(self) -> str:
        """Where the owner runs: what it says, or else its address."""
        host: str | None = getattr(self.body, "host", None)
        return self.request.client_address if host is None else host

    def command(self, **given: Any) -> Any:
        """Build the command, with the `given` fields added. Refuses names that the token may not use.

        The store skips the command if its caller has stopped waiting, or its token has expired or been revoked.
        """
        name = self.params.get("job_id") or getattr(self.body, "job_id", None)
        if name is not None:
            self.principal.require_name(name)
        values = {} if self.body is None else self.body.values()
        if "traceparent" in self.route.headers and values.get("traceparent") is None:
            values["traceparent"] = traceparent_from(self.request.header(b"traceparent"))
        who = self.principal
        values.update(self.params, principal=who.name, until=self.request.until, permit=who.permit)
        values.update(given)
        command = self._build(values, self.body)
        if values.get("session_id") is not None:
            who.session(command.session_id)
        return command

    def question(self, **given: Any) -> Any:
        """Build the question, limited to names that the token may use, with the `given` fields added."""
        values = {} if self.query is None else self.query.values()
        if "prefix" in values:
            values["prefix"] = self.principal.restrict_prefix(values["prefix"])
        if "job_id" in self.params:
            self.principal.require_name(self.params["job_id"])
        for name in values.get("job_ids", ()):
            self.principal.require_name(name)
        return self._build({**values, **self.params, **given}, self.query)

    def _build(self, values: dict[str, Any], sent: Shape | None) -> Any:
        """Build the message. Errors name fields as the caller sent them."""
        try:
            return self.route.message_type(**values)
        except InvalidInput as error:
            raise error if sent is None else with_wire_name(error, type(sent)) from None


def admit(principal: Principal, route: Route) -> None:
    """Refuse a principal that may not use this route. Names are checked with the command."""
    if route.scope is not None and not principal.may(route.scope):
        raise missing_scope(route.scope)
    if route.is_store_wide:
        principal.require_unlimited()


def command_route(operation: str, **more: Any) -> Route:
    """A route for a command, with the default `prepare` and `respond` unless given."""
    defaults = {"prepare": Call.command, "respond": respond_with_reply}
    if hasattr(BY_OPERATION[operation].message_type, "traceparent"):
        defaults["headers"] = {"traceparent": TraceparentHeader} | more.pop("headers", {})
    return Route.for_operation(operation, **(defaults | more))


def question_route(operation: str, **more: Any) -> Route:
    """A route for a question, with the default `prepare` and `respond` unless given."""
    defaults = {"handler": ask, "prepare": Call.question, "respond": respond_with_reply}
    return Route.for_operation(operation, **(defaults | more))


async def ask(call: Call) -> Response:
    response: Response = call.route.respond(call, await call.services.store.ask(call.route.prepare(call)))
    return response


async def wait_and_respond(call: Call, wait: float) -> Response:
    check_range("wait_seconds", wait, 0, WAIT_MAX_SECONDS, " seconds")
    ends_at_ms = call.principal.expires_at_ms
    if ends_at_ms is not None:
        wait = min(wait, ends_at_ms / 1_000 - time.time())
    command = call.route.prepare(call)
    reply = await call.services.waiting.claim(command, wait, call.request)
    if not await call.services.auth.is_current(call.request, call.principal):
        call.services.waiting.undo(command, reply)
        raise bad_token()
    return respond(call, command, reply)


def respond(call: Call, command: AnyCommand, reply: Any) -> Response:
    """Build the response. Raises the store's error, or `ClientDisconnected` after undoing the claim."""
    if call.request.is_closed and undo_of(reply) is not None:
        call.services.waiting.undo(command, reply)
        raise ClientDisconnected
    count(call, command, reply)
    if isinstance(reply, Exception):
        raise reply
    response: Response = call.route.respond(call, reply)
    return response


def note_error(services: Services, principal: str | None, error: Exception) -> None:
    """React to an error: the store may be unreachable, or a principal may have reached its limit."""
    if isinstance(error, Unreachable) and error.reason not in NOT_OUTAGES:
        services.outage.begin(error)
    if isinstance(error, LimitExceeded) and principal is not None:
        services.max_claims.on_refused(principal)


def handle_error(services: Services, request: Request, route: Route | None, error: Exception) -> Refusal:
    """Note the error, log it if it is a bug, and return the response, in the codes that clients of the route expect."""
    note_error(services, request.principal, error)
    if route is not None and route.translate is not None and isinstance(error, OctoStoreError):
        error = route.translate(error)
    refusal = refusal_for(error)
    if refusal.status == SERVER_ERROR:
        what = request.method if route is None else route.operation
        log.error("%s %s failed", request.id, what, exc_info=error, extra={"event": "internal_error"})
    refusal.failure.request_id = request.id
    return refusal


def respond_with_reply(_call: Call, reply: Any) -> Response:
    return Response(reply)


def count(call: Call, command: AnyCommand, outcome: Any) -> None:
    """Update the metrics and the limits."""
    metrics = call.services.metrics
    match outcome:
        case ClaimReply():
            metrics.count("claims", outcome.status)
            call.services.max_claims.on_reply(command, outcome)
        case ReleaseReply():
            metrics.count("releases", outcome.outcome)
        case HeartbeatReply():
            metrics.count("heartbeats", "live")
        case LeaseLost() if isinstance(command, HeartbeatJob):
            metrics.count("heartbeats", "lost")
