"""All routes, grouped as on the API page."""

import re

import msgspec

from octostore.core.errors import InvalidInput
from octostore.server.assets import API_STYLE, ICON, assets
from octostore.server.router import Route, Router
from octostore.server.routes import batches, events, jobs, locks, mcp, operations, page, queues, sessions, tokens
from octostore.server.settings import Settings

_MODULES = [jobs, queues, sessions, batches, events, locks, mcp, tokens, page, operations]
ROUTES = [msgspec.structs.replace(route, tag=module.TAG) for module in _MODULES for route in module.ROUTES]
TAGS = {module.TAG: (module.__doc__ or "").strip() for module in _MODULES}
"""The description of each group of routes."""
_BASE_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*", re.ASCII)


def documented_routes(*, has_page: bool) -> list[Route]:
    """The routes that the API documentation describes."""
    return [route for route in ROUTES if has_page or route.tag != page.TAG]


def build_router(settings: Settings) -> Router:
    routes = documented_routes(has_page=settings.has_page)
    router = Router([*routes, *page.page_routes(routes)] if settings.has_page else routes)
    for path in assets().by_path:
        if settings.has_page or path.endswith((f"/{API_STYLE}", f"/{ICON}")):
            router.add(path, page.ASSET)
    return router


def check_base_path(path: str) -> None:
    if not _BASE_PATH.fullmatch(path):
        raise InvalidInput(
            "--base-path", f"is {path!r}; it must look like /octo, without characters that need percent-encoding"
        )
    first = path.split("/")[1] if path else None
    if first in {"ui", *(route.path.split("/")[1] for route in ROUTES)}:
        raise InvalidInput("--base-path", f"must not begin with /{first}, which is one of the server's own paths")
