"""The application: handles every request, from the first check to the response."""

import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import msgspec

from octostore.core.commands import AnyCommand
from octostore.core.encoding import decode_strictly
from octostore.core.errors import InvalidInput
from octostore.core.limits import JSON_DEPTH
from octostore.server.calls import Call, admit, handle_error, respond, wait_and_respond
from octostore.server.guard import Guard
from octostore.server.http import ClientDisconnected, Request, Response, StreamingResponse, encode
from octostore.server.log import log_event
from octostore.server.principals import Principal
from octostore.server.refusals import retry_after, too_fast, wrong_shape
from octostore.server.router import Route, decode_param
from octostore.server.routes import ROUTES, build_router
from octostore.server.services import Services
from octostore.wire.bodies import Shape, convert_whole_floats, split_lists
from octostore.wire.failures import Failure, Problem
from octostore.wire.shapes import shape_problem

PROBLEM_JSON = b"application/problem+json"
CLIENT_CLOSED_REQUEST = 499  # nginx's status for it
UNAUTHORIZED = 401
MAX_PATH_LOGGED = 500

Waiting: TypeAlias = Coroutine[Any, Any, Any]
Outcome: TypeAlias = Response | Waiting | None
"""None if the command was submitted, and the store will call back."""

ANYBODY = Principal(name="anybody", scopes=frozenset())


class App:
    def __init__(self, services: Services) -> None:
        self.services = services
        self._guard = Guard(services.settings)
        self._router = build_router(services.settings)
        self._base_path = services.settings.base_path
        self._logs_access = services.settings.access_log
        self._limits = (services.settings.max_body_bytes, services.settings.max_batch_bytes)
        services.routes = {route.operation: route for route in ROUTES}

    def handle_request(self, request: Request) -> Waiting | None:
        """Use plain calls until there is something to wait for; the store calls back.

        A task and a future for each request would cost as much as all the rest.
        """
        request.began_at = time.perf_counter()
        try:
            outcome = self._begin(request)
        except Exception as error:  # noqa: BLE001  # here and below: every exception becomes a response
            self._end(request, error)
            return None
        if isinstance(outcome, Response):
            self._end(request, outcome)
            return None
        return None if outcome is None else self._wait(request, outcome)

    def _begin(self, request: Request) -> Outcome:
        request.response_headers = self._guard.check(request)
        if request.method == "OPTIONS" and (preflight := self._guard.preflight(request)):
            return Response(b"", 204, headers=preflight)
        if self._base_path and (elsewhere := self._strip(request)):
            return elsewhere
        route, params = self._router.find(request.method, request.raw_path)
        request.route = route
        if route.is_page:
            self._guard.check_page(request)
        if "%" in request.raw_path:
            params = {name: decode_param(name, value) for name, value in params.items()}
        if route.has_deadline:
            request.until = self.services.standstill.deadline_of(request)
        principal = ANYBODY if route.is_public else self.services.auth.cached_principal(request)
        if principal is None or not request.is_received:
            return self._read(request, route, params, principal)
        call = self._let_in(Call(route, params, request, principal, self.services))
        return self._handle_call(call, request.complete_body(self._limits[route.is_batch]))

    def _strip(self, request: Request) -> Response | None:
        """Remove the base path, unless a proxy did. Redirect a request for the page without its final slash."""
        if request.raw_path.startswith(f"{self._base_path}/"):
            request.raw_path = request.raw_path[len(self._base_path) :]
        elif request.raw_path == self._base_path:
            query = b"?%b" % request.raw_query if request.raw_query else b""
            return Response(b"", 308, headers=[(b"location", b"%b/%b" % (self._base_path.encode(), query))])
        return None

    async def _read(self, request: Request, route: Route, params: dict[str, str], principal: Principal | None) -> Any:
        """Check the token before reading the rest of the body."""
        principal = principal or await self.services.auth.principal(request)
        call = self._let_in(Call(route, params, request, principal, self.services))
        outcome = self._handle_call(call, await request.body(self._limits[route.is_batch]))
        return await outcome if isinstance(outcome, Coroutine) else outcome

    def _let_in(self, call: Call) -> Call:
        route, principal = call.route, call.principal
        if not route.is_public:
            call.request.principal = principal.name
            pause_ms = self.services.rates.take(principal.name)
            if pause_ms:
                raise too_fast(pause_ms)
            admit(principal, route)
        if route.query is not None:
            call.query = _read_query(call.request, route.query)
        return call

    def _handle_call(self, call: Call, body: bytes) -> Outcome:
        route = call.route
        if route.body is not None:
            call.body = _read_body(body, route.body)
        if route.handler is not None:
            return route.handler(call)
        wait = getattr(call.body, "wait_seconds", 0)
        if wait:
            return wait_and_respond(call, wait)
        command = route.prepare(call)
        self.services.store.ask_for([command], _OnReply(call, command, self._end))
        return None

    async def _wait(self, request: Request, waiting: Waiting) -> None:
        outcome: Any = ClientDisconnected()
        try:
            outcome = await waiting
            if outcome is not None and not isinstance(outcome, Response):
                await outcome.run()
        except Exception as error:  # noqa: BLE001
            outcome = error
        finally:
            if outcome is not None:
                self._end(request, outcome)

    def _end(self, request: Request, outcome: Response | StreamingResponse | Exception) -> None:
        status = 200
        try:
            if isinstance(outcome, Response):
                status = outcome.status
                request.send(outcome)
            elif isinstance(outcome, Exception):
                status = self._refuse(request, outcome)
        except Exception as error:  # noqa: BLE001
            status = self._refuse(request, error)
        request.close()
        seconds = time.perf_counter() - request.began_at
        name = "none" if request.route is None else request.route.name
        self.services.metrics.on_request(name, status, seconds)
        if self._logs_access:
            _log_access(request, status, seconds)

    def _refuse(self, request: Request, error: Exception) -> int:
        if isinstance(error, ClientDisconnected):
            return CLIENT_CLOSED_REQUEST
        refusal = handle_error(self.services, request, request.route, error)
        failure = refusal.failure
        headers = [*refusal.headers, *retry_after(failure.retry_after_ms)]
        if refusal.status == UNAUTHORIZED and request.route is not None and request.route.challenge is not None:
            headers = request.route.challenge(request, headers)
        response = Response(failure, refusal.status, headers=headers)
        if PROBLEM_JSON in request.headers.get(b"accept", b"").lower():
            response = Response(_problem(refusal.status, failure), refusal.status, PROBLEM_JSON, headers)
        if request.has_begun:
            request.abort()  # part of a response has been sent
        else:
            request.send(response)
        return refusal.status


class _OnReply(msgspec.Struct):
    """Receives the reply to a command as a future would, and sends the response."""

    call: Call
    command: AnyCommand
    end: Callable[[Request, Response | Exception], None]

    def done(self) -> bool:
        return False

    def set_result(self, replies: list[Any]) -> None:
        try:
            response = respond(self.call, self.command, replies[0])
        except Exception as error:  # noqa: BLE001
            self.end(self.call.request, error)
            error.__traceback__ = None  # it refers to this frame, which refers to the error
        else:
            self.end(self.call.request, response)

    def set_exception(self, fault: Exception) -> None:
        self.set_result([fault])


def _log_access(request: Request, status: int, seconds: float) -> None:
    """Leave out the query, which may contain sensitive text."""
    log_event(
        logging.INFO,
        "request",
        "answered",
        method=request.method,
        path=request.raw_path[:MAX_PATH_LOGGED],
        route=None if request.route is None else request.route.path,
        status=status,
        ms=round(seconds * 1_000, 1),
        principal=request.principal,
        address=request.client_address,
        request_id=request.id,
    )


def _problem(status: int, failure: Failure) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(encode(failure))  # `to_builtins` refuses the metadata of a holder
    if "status" in fields:  # a job's status, which would look like the HTTP status here
        fields["job_status"] = fields.pop("status")
    problem = Problem(
        type=f"urn:octostore:error:{failure.code}",
        title=failure.error,
        status=status,
        detail=failure.details,
        instance=f"urn:octostore:request:{failure.request_id}",
        code=failure.code,
        request_id=failure.request_id,
    )
    return fields | msgspec.structs.asdict(problem)


def _read_body(body: bytes, kind: type[Shape]) -> Any:
    value: Any = {}
    if body and not body.isspace():
        value = decode_strictly("body", body, JSON_DEPTH + kind.DOCUMENTS_AT)
    try:
        return msgspec.convert(convert_whole_floats(value, kind), kind)
    except msgspec.ValidationError as error:
        raise wrong_shape(shape_problem(error, kind)) from None
    except UnicodeEncodeError:
        raise InvalidInput("body", "is not valid Unicode text (it has a lone surrogate)") from None


def _read_query(request: Request, kind: type) -> Any:
    try:
        return msgspec.convert(split_lists(request.query, kind), kind, strict=False)
    except msgspec.ValidationError as error:
        raise shape_problem(error, kind, "query") from None
