"""The live page: the same data, in a browser."""

from octostore._version import __version__
from octostore.server.assets import assets
from octostore.server.calls import Call
from octostore.server.http import PAGE_START, Answer
from octostore.server.router import Route
from octostore.wire.answers import About

TAG = "page"
HTML = b"text/html; charset=utf-8"
BY_ACCEPT = [(b"vary", b"accept")]


async def page(call: Call) -> Answer:
    if b"text/html" in call.request.headers.get(b"accept", b"").lower():
        return Answer(assets().shell, content_type=HTML, headers=BY_ACCEPT, start=PAGE_START)
    return Answer(
        About(name="OctoStore", version=__version__, docs="/docs", openapi="/openapi.json"), headers=BY_ACCEPT
    )


async def asset(call: Call) -> Answer:
    return assets().by_path[call.request.raw_path].answer(call.request)


ROUTES = [
    Route.at(
        "page",
        handler=page,
        summary="The live page, or where to go from here",
        description="Browsers, and all others whose `Accept` names `text/html`, get the page.",
        answers={200: About},
        example={"answer": {"name": "OctoStore", "docs": "/docs", "openapi": "/openapi.json"}},
    ),
]
ASSET = Route(
    operation="asset",
    method="GET",
    path="/ui/assets",
    is_public=True,
    handler=asset,
    tag=TAG,
    summary="What pages load",
)
"""Found at each path of `Assets.by_path`. Their names are for the pages alone, so nothing describes them."""
