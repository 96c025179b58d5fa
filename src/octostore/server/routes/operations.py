"""The server itself: health, figures and API documentation."""

import time
from functools import cache, partial

from octostore._version import __version__
from octostore.core.errors import OctoStoreError
from octostore.server import metrics
from octostore.server.calls import Call, ask, question_route
from octostore.server.examples import DEFAULT_URL, NOW
from octostore.server.http import PAGE_RESPONSE_START, Response, encode
from octostore.server.refusals import Refusal, shutting_down
from octostore.server.router import Route
from octostore.server.routes.page import HTML
from octostore.wire.responses import Health, Readiness, ServerStatus

TAG = "server"


async def livez(call: Call) -> Response:
    return Response(Health(status="ok", version=__version__, store_id=call.services.store_id))


async def readyz(call: Call) -> Response:
    if call.services.is_stopping:
        raise shutting_down()
    reply = await call.services.probe()
    return Response(Readiness(status="ready", seq=reply.seq, at=reply.at, version=reply.version))


async def status(call: Call) -> Response:
    counts = await call.services.figures()
    counted = call.services.metrics
    return Response(
        ServerStatus(
            status="ok",
            version=__version__,
            uptime_seconds=int(time.monotonic() - counted.started_at),
            active_locks=counts.claimed,
            total_acquires=counted.total("claims", "claimed"),
            total_releases=counted.total("releases"),
            open_sessions=counts.open_sessions,
            dead_jobs=counts.dead,
            seq=counts.seq,
            store_id=counts.store_id,
        )
    )


async def figures(call: Call) -> Response:
    max_age = call.route.prepare(call).max_age
    return Response(await call.services.figures(max_age=max_age)) if max_age else await ask(call)


async def metrics_page(call: Call) -> Response:
    services, counts = call.services, await call.services.figures()
    page = services.metrics.render(
        counts,
        waiting=services.waiting.waiting,
        streams=services.streams.total,
        with_queues=await _may_read_all(call),
    )
    return Response(page, content_type=metrics.CONTENT_TYPE)


async def _may_read_all(call: Call) -> bool:
    """Queue names are only for tokens that may read everything."""
    try:
        principal = await call.services.auth.principal(call.request)
    except (Refusal, OctoStoreError):
        return False
    return principal.may("read") and not principal.prefix


async def openapi(call: Call) -> Response:
    document, _ = await _documents_of(call)
    return Response(document)


async def api_page(call: Call) -> Response:
    _, page = await _documents_of(call)
    if call.request.base_url is not None:
        page = page.replace(DEFAULT_URL.encode(), call.request.base_url.encode())
    return Response(page, content_type=HTML, start=PAGE_RESPONSE_START)


async def _documents_of(call: Call) -> tuple[bytes, bytes]:
    settings = call.services.settings
    found: tuple[bytes, bytes] = await call.services.store.in_thread(
        partial(_documents, settings.base_path, has_page=settings.has_page)
    )
    return found


@cache
def _documents(base_path: str, *, has_page: bool) -> tuple[bytes, bytes]:
    """The OpenAPI document and the API page, built on the first request: it takes a while, and few servers need it."""
    from octostore.server.api_page import render_page  # noqa: PLC0415  # imports all routes, including these
    from octostore.server.openapi import build_document  # noqa: PLC0415
    from octostore.server.routes import documented_routes  # noqa: PLC0415

    routes = documented_routes(has_page=has_page)
    document = build_document(routes, base_path)
    return encode(document), render_page(routes, document).encode()


ROUTES = [
    Route.for_operation(
        "livez",
        handler=livez,
        summary="Check that the server is running",
        responses={200: Health},
    ),
    Route.for_operation(
        "readyz",
        handler=readyz,
        summary="Check that the store accepts writes",
        description="Makes a test write, at most once a second.",
        responses={200: Readiness},
        codes={503: ("unreachable", "shutting_down")},
    ),
    Route.for_operation(
        "health",
        handler=livez,
        summary="The same as /livez, for lock clients",
        responses={200: Health},
    ),
    Route.for_operation(
        "status",
        handler=status,
        summary="Get current counts, and totals since the server started",
        responses={200: ServerStatus},
        codes={503: ("unreachable",)},
        example={
            "response": {
                "active_locks": 1,
                "total_acquires": 318,
                "total_releases": 317,
                "open_sessions": 2,
                "dead_jobs": 0,
            }
        },
    ),
    question_route(
        "figures",
        handler=figures,
        summary="Get the store's figures and overall health",
        description=(
            "`status` is `ok`, `degraded` (work gets done, but someone should look) or `unhealthy` (work is not "
            "getting done), by the same thresholds as `octostore health`; `reasons` says why. `late` counts live "
            "claims whose owners have missed two heartbeats; `stuck` counts claims whose owners send heartbeats, "
            "but have reported no progress for longer than their `max_silence`. With `max_age`, the server counts "
            "again only if its last figures are older than that; `at` is when they were counted."
        ),
        example={
            "response": {
                "claimed": 0,
                "late": 0,
                "stuck": 0,
                "dead": 0,
                "open_sessions": 0,
                "waiting": 1,
                "oldest_due_at": NOW,
                "taken_back": 0,
                "queued": {"default": 1},
                "status": "ok",
                "reasons": [],
            },
            "first": ["enqueue"],
        },
    ),
    Route.for_operation(
        "metrics_page",
        handler=metrics_page,
        summary="Prometheus metrics",
        description="A token that may read everything also gets metrics per queue.",
        content_type="text/plain",
        responses={200: str},
        codes={503: ("unreachable",)},
    ),
    Route.for_operation(
        "openapi",
        handler=openapi,
        summary="The OpenAPI document",
        responses={200: dict},
    ),
    Route.for_operation(
        "api_page",
        handler=api_page,
        summary="The API page",
        content_type="text/html",
        responses={200: str},
    ),
]
