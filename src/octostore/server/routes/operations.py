"""The server itself: whether it lives, what it does, what it offers."""

import time

from octostore._version import __version__
from octostore.core.errors import OctoStoreError
from octostore.core.questions import GetFigures
from octostore.core.replies import Figures
from octostore.server import metrics
from octostore.server.calls import Call
from octostore.server.description import description
from octostore.server.examples import NOW
from octostore.server.http import Answer
from octostore.server.refusals import Refusal, shutting_down
from octostore.server.router import Route
from octostore.wire.answers import Health, Readiness, ServerStatus

TAG = "server"
HTML = b"text/html; charset=utf-8"


async def livez(_call: Call) -> Answer:
    return Answer(Health(status="ok", version=__version__))


async def health(call: Call) -> Answer:
    return await livez(call)


async def readyz(call: Call) -> Answer:
    if call.services.is_stopping:
        raise shutting_down()
    reply = await call.services.probe()
    return Answer(Readiness(status="ready", seq=reply.seq, at=reply.at, version=reply.version))


async def status(call: Call) -> Answer:
    counts = await call.services.figures()
    counted = call.services.metrics
    return Answer(
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
        )
    )


async def figures(call: Call) -> Answer:
    call.principal.require_everything()
    return Answer(await call.services.store.ask(GetFigures()))


async def metrics_page(call: Call) -> Answer:
    counts = await call.services.figures()
    page = call.services.metrics.render(
        counts, waiting=call.services.waiting.waiting, with_queues=await _may_read_all(call)
    )
    return Answer(page, content_type=metrics.CONTENT_TYPE)


async def _may_read_all(call: Call) -> bool:
    """Names of queues are only for those who may read everything."""
    try:
        principal = await call.services.auth.principal(call.request)
    except (Refusal, OctoStoreError):
        return False
    return principal.may("read") and not principal.prefix


async def openapi(call: Call) -> Answer:
    document, _ = await call.services.store.in_thread(description)
    return Answer(document)


async def api_page(call: Call) -> Answer:
    _, page = await call.services.store.in_thread(description)
    return Answer(page, content_type=HTML)


ROUTES = [
    Route(
        method="GET",
        path="/livez",
        handler=livez,
        tag=TAG,
        is_public=True,
        summary="Whether the server runs",
        answers={200: Health},
        example={},
    ),
    Route(
        method="GET",
        path="/readyz",
        handler=readyz,
        tag=TAG,
        is_public=True,
        summary="Whether the store can be written to",
        description="Writes to the store, at most once a second.",
        answers={200: Readiness},
        codes={503: ("unreachable", "shutting_down")},
        example={},
    ),
    Route(
        method="GET",
        path="/health",
        handler=health,
        tag=TAG,
        is_public=True,
        summary="The same as /livez, under the name that lock clients know",
        answers={200: Health},
        example={},
    ),
    Route(
        method="GET",
        path="/status",
        handler=status,
        tag=TAG,
        is_public=True,
        summary="What the server has done since it started",
        answers={200: ServerStatus},
        codes={503: ("unreachable",)},
        example={
            "answer": {
                "active_locks": 1,
                "total_acquires": 318,
                "total_releases": 317,
                "open_sessions": 2,
                "dead_jobs": 0,
            }
        },
    ),
    Route(
        method="GET",
        path="/figures",
        handler=figures,
        tag=TAG,
        summary="How much there is of everything, and how it goes",
        description="`late` are claims whose owners have missed heartbeats, but still have time.",
        answers={200: Figures},
        codes={503: ("unreachable",)},
        example={
            "answer": {
                "claimed": 0,
                "late": 0,
                "dead": 0,
                "open_sessions": 0,
                "waiting": 1,
                "oldest_due_at": NOW,
                "taken_back": 0,
                "queued": {"default": 1},
            },
            "first": ["enqueue"],
        },
    ),
    Route(
        method="GET",
        path="/metrics",
        handler=metrics_page,
        tag=TAG,
        is_public=True,
        summary="Figures for Prometheus",
        description="With a token that may read everything, also by queue.",
        content_type="text/plain",
        answers={200: str},
        codes={503: ("unreachable",)},
        example={},
    ),
    Route(
        method="GET",
        path="/openapi.json",
        handler=openapi,
        tag=TAG,
        is_public=True,
        summary="This description, for machines",
        answers={200: dict},
        example={},
    ),
    Route(
        method="GET",
        path="/docs",
        handler=api_page,
        tag=TAG,
        is_public=True,
        summary="This description, for people",
        content_type="text/html",
        answers={200: str},
        example={},
    ),
]
