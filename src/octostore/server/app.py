"""The application: one way in for every request, from the first check to the last header."""

import logging
import time
from typing import Any

import msgspec

from octostore.core.encoding import decode_strictly
from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.core.limits import JSON_DEPTH
from octostore.server.calls import Call, admit
from octostore.server.guard import Guard
from octostore.server.http import Answer, ClientGone, Request, Streaming
from octostore.server.principals import Principal
from octostore.server.refusals import refusal_of, retry_after, too_fast
from octostore.server.router import Route, Router, params_of
from octostore.server.routes import ROUTES
from octostore.server.services import Services
from octostore.server.shapes import problem_of, shape_error
from octostore.wire.bodies import Shape, with_whole_numbers
from octostore.wire.failures import Failure, Problem

log = logging.getLogger("octostore.server")

PROBLEM_JSON = b"application/problem+json"
SERVER_ERROR = 500
SHOWN_BYTES = 200


ANYBODY = Principal(name="anybody", scopes=frozenset())


class App:
    def __init__(self, services: Services) -> None:
        self.services = services
        self._guard = Guard(services.settings)
        self._router = Router(ROUTES)
        services.routes = {route.operation: route for route in ROUTES}

    async def answer(self, request: Request) -> None:
        started = time.perf_counter()
        status = 499  # what others call a client that has gone
        try:
            answer = await self._handle(request)
            if isinstance(answer, Answer):
                status = answer.status
                request.send(answer)
            else:
                status = 200
                await self._stream(answer)
        except ClientGone:
            pass
        except Exception as error:  # noqa: BLE001  # the one place where everything is answered
            status = self._refuse(request, error)
        finally:
            request.close()
            seconds = time.perf_counter() - started
            self.services.metrics.on_request(request.route_name, status, seconds)
            log.debug("%s %s %d %.1f ms", request.id, request.route_name, status, seconds * 1_000)

    async def _handle(self, request: Request) -> Any:
        request.answer_headers = self._guard.check(request)
        preflight = self._guard.preflight(request)
        if preflight is not None:
            return Answer(b"", 204, headers=preflight)
        route, values = self._router.find(request.method, request.raw_path)
        request.route_name = route.name
        try:
            params = params_of(route, values)
            if route.has_deadline:
                request.until = self.services.attention.deadline_of(request)
            principal = ANYBODY
            if not route.is_public:
                principal = self.services.auth.known(request) or await self.services.auth.principal(request)
                self._let_in(principal, route)
            call = Call(route, params, request, principal, self.services)
            if route.query is not None:
                call.query = _read_query(request, route.query)
            settings = self.services.settings
            body = await request.body(settings.max_batch_bytes if route.is_batch else settings.max_body_bytes)
            if route.body is not None:
                call.body = _read_body(body, route.body)
            return await route.handler(call)
        except OctoStoreError as error:
            # Existing lock clients know other words for some errors.
            raise (route.translate(error) if route.translate else error) from None

    def _let_in(self, principal: Principal, route: Route) -> None:
        pause_ms = self.services.rates.take(principal.name)
        if pause_ms:
            raise too_fast(pause_ms)
        admit(principal, route)

    async def _stream(self, stream: Streaming) -> None:
        self.services.metrics.streams += 1
        try:
            await stream.run()
        finally:
            self.services.metrics.streams -= 1

    def _refuse(self, request: Request, error: Exception) -> int:
        refusal = refusal_of(error)
        if refusal.status == SERVER_ERROR:
            log.error("%s %s failed", request.id, request.method, exc_info=error)
        failure = refusal.failure
        failure.request_id = request.id
        headers = [*refusal.headers, *retry_after(failure.retry_after_ms)]
        answer = Answer(failure, refusal.status, headers=headers)
        if PROBLEM_JSON in request.headers.get(b"accept", b"").lower():
            answer = Answer(_problem(refusal.status, failure), refusal.status, PROBLEM_JSON, headers)
        if request.has_begun:
            request.abort()  # a part of another answer is on its way
        else:
            request.send(answer)
        return refusal.status


def _problem(status: int, failure: Failure) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(failure)
    if "status" in told:  # a job's would be taken for the HTTP status here
        told["job_status"] = told.pop("status")
    problem = Problem(
        type=f"urn:octostore:error:{failure.code}",
        title=failure.error,
        status=status,
        detail=failure.details,
        instance=f"urn:octostore:request:{failure.request_id}",
        code=failure.code,
        request_id=failure.request_id,
    )
    return told | msgspec.structs.asdict(problem)


def _read_body(body: bytes, kind: type[Shape]) -> Any:
    value: Any = {}
    if body.strip():
        value = decode_strictly("body", body, JSON_DEPTH + kind.DOCUMENTS_AT)
    try:
        return msgspec.convert(with_whole_numbers(value, kind), kind)
    except msgspec.ValidationError as error:
        raise shape_error(error) from None
    except UnicodeEncodeError:
        raise InvalidInput("body", "is not valid Unicode text (it has a lone surrogate)") from None


def _read_query(request: Request, kind: type) -> Any:
    try:
        return msgspec.convert(request.query, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(*problem_of("query", error)) from None
