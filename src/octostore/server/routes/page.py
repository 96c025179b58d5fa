"""The live page: the store in a browser."""

import time
from collections.abc import Iterable

import msgspec

from octostore._version import __version__
from octostore.core.errors import InvalidInput
from octostore.core.moments import to_datetime
from octostore.server.assets import assets
from octostore.server.auth import check_token_format, log_refusal
from octostore.server.calls import Call
from octostore.server.http import PAGE_RESPONSE_START, Request, Response
from octostore.server.logins import LINK_SECONDS
from octostore.server.refusals import bad_code
from octostore.server.router import Route
from octostore.wire import bodies
from octostore.wire import fields as f
from octostore.wire.responses import About, LoginLink
from octostore.wire.tokens import token_digest

TAG = "page"
HTML = b"text/html; charset=utf-8"
BY_ACCEPT = [(b"vary", b"accept")]


async def page(call: Call) -> Response:
    if b"text/html" in call.request.headers.get(b"accept", b"").lower():
        return Response(assets().shell, content_type=HTML, headers=BY_ACCEPT, start=PAGE_RESPONSE_START)
    base = call.request.base_path
    about = About(
        name="OctoStore", version=__version__, page=f"{base}/", docs=f"{base}/docs", openapi=f"{base}/openapi.json"
    )
    return Response(about, headers=BY_ACCEPT)


async def log_in(call: Call) -> Response:
    body: bodies.LoginBody = call.body
    request, services = call.request, call.services
    digest = _digest_in(call, body)
    principal = await services.auth.find_principal(request, digest)
    request.principal = principal.name
    cookie = services.logins.cookie(digest, principal.expires_at_ms, is_secure=_is_secure(request))
    return Response(b"", 204, headers=[(b"set-cookie", cookie)])


def _digest_in(call: Call, body: bodies.LoginBody) -> bytes:
    """The digest of the token to log in with."""
    auth = call.services.auth
    match body:
        case bodies.LoginBody(token=str(token), code=None):
            check_token_format(call.request, token)
            return token_digest(token)
        case bodies.LoginBody(token=None, code=str(code)):
            digest = call.services.logins.redeem(code)
            if digest is None:
                raise auth.slow_down(call.request, log_refusal(call.request, "unknown", refusal=bad_code()))
            return digest
    raise InvalidInput("body", "needs either a token or a code")


def _is_secure(request: Request) -> bool:
    """Whether the browser uses HTTPS, as a trusted proxy or the page's own origin says."""
    return request.scheme == "https" or request.headers.get(b"origin", b"").lower().startswith(b"https://")


async def log_out(call: Call) -> Response:
    cookie = call.services.logins.expired_cookie(is_secure=_is_secure(call.request))
    return Response(b"", 204, headers=[(b"set-cookie", cookie)])


async def make_link(call: Call) -> Response:
    digest, _ = call.services.auth.read_credentials(call.request)
    expires_at = to_datetime(round(time.time() * 1_000) + LINK_SECONDS * 1_000)
    return Response(LoginLink(code=call.services.logins.new_code(digest), expires_at=expires_at))


async def asset(call: Call) -> Response:
    return assets().by_path[call.request.raw_path].respond(call.request)


ROUTES = [
    Route.for_operation(
        "page",
        handler=page,
        summary="The live page, or links to the documentation",
        description="Browsers, and other clients that accept `text/html`, get the page. All others get the links.",
        responses={200: About},
        example={"response": {"name": "OctoStore", "page": "/", "docs": "/docs", "openapi": "/openapi.json"}},
    ),
    Route.for_operation(
        "log_in",
        handler=log_in,
        is_page=True,
        summary="Log a browser in",
        description=(
            "Sets a cookie that works in place of the token on every server on the store, for at most seven days. The "
            "cookie stops working when the token expires, is rotated or is revoked. The page uses it below `/ui/api/`, "
            "which has the same calls as the API (for example, `GET /ui/api/jobs`), except locks, `/mcp`, "
            "`/auth/token/rotate` and `/auth/link`. Paths below `/ui/api/` accept only the cookie, and no other path "
            "accepts it. Requests that change something must come from the page itself; browsers prove this with "
            "`Origin` or `Sec-Fetch-Site`."
        ),
        headers={"Origin": f.OwnOrigin},
        responses={204: None},
        codes={401: ("authentication_failed",), 429: ("rate_limited",), 503: ("unreachable",)},
        example={"headers": {"Origin": "$OCTOSTORE_URL"}, "body": {"token": "$OCTOSTORE_TOKEN"}},
    ),
    Route.for_operation(
        "log_out",
        handler=log_out,
        is_page=True,
        summary="Log a browser out",
        description="Removes its cookie. To end all logins of a token, rotate or revoke the token.",
        headers={"Origin": f.OwnOrigin},
        responses={204: None},
        example={"headers": {"Origin": "$OCTOSTORE_URL"}},
    ),
    Route.for_operation(
        "make_link",
        handler=make_link,
        summary="Make a link that logs a browser in",
        description=(
            "The link is `/#login=CODE`. It works once, within a minute, on the server that made it. `octostore ui` "
            "makes one and opens it."
        ),
        responses={200: LoginLink},
        example={"response": {"code": "Jq3b1Zl0m5kXGdXqf6yPzq4m8vN2rT7sWc9uE1oAxYk"}},
    ),
]
ASSET = Route(
    operation="asset",
    method="GET",
    path="/ui/assets",
    is_public=True,
    handler=asset,
    tag=TAG,
    summary="Files for the pages",
)
"""Serves each path of `Assets.by_path`. Only our own pages use them, so the API documentation leaves them out."""


MOUNT = "/ui/api"
_NOT_MOUNTED = {"locks", "agents", TAG}
"""Groups of routes that the page does not need, or must not use."""


def page_routes(routes: Iterable[Route]) -> list[Route]:
    """The same routes again, for the page and its cookie."""
    return [
        msgspec.structs.replace(route, path=MOUNT + route.path, is_page=True)
        for route in routes
        if route.tag not in _NOT_MOUNTED and route.operation != "rotate_token"
    ]
