"""The table of routes: what there is, who may use it, what it takes and gives. Everything else is derived from it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec

from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.core.model import Scope as TokenScope
from octostore.server.refusals import no_route, wrong_method

Handler: TypeAlias = Callable[..., Awaitable[Any]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    handler: Handler
    summary: str
    description: str = ""
    tag: str
    scope: TokenScope | None = "read"
    """What the token must be good for; None where any will do."""
    is_public: bool = False
    """Needs no token."""
    body: Any = None
    query: type | None = None
    headers: dict[str, Any] = {}
    """Headers that it takes, as types."""
    answers: dict[int, Any] = {}
    """What is answered with which status, as types."""
    content_type: str = "application/json"
    stream: type | None = None
    """What each event tells, where the answer is a stream of them, or can be."""
    codes: dict[int, tuple[str, ...]] = {}
    """The errors that are particular to this route, by status."""
    translate: Callable[[OctoStoreError], Exception] | None = None
    """Says an error of the store in other words, where clients expect these."""
    example: dict[str, Any] = {}
    """A request that works on an empty store: `params`, `query`, `body`; `first` names handlers to be called before.

    `answer` has what the answer to it says other than usual, `others` the same of other answers by their status, and
    `event` of the first event of a stream.
    """

    name: str = ""
    """Unique, and fit for a metric's label."""
    params: tuple[str, ...] = ()
    """The names of the segments that can be anything."""

    def __post_init__(self) -> None:
        names = [segment[1:-1] for segment in self.segments if segment.startswith("{")]
        msgspec.structs.force_setattr(self, "name", f"{self.method} {self.path}")
        msgspec.structs.force_setattr(self, "params", tuple(names))

    @property
    def has_deadline(self) -> bool:
        """Whether it does something that must not be done for somebody who has given up."""
        return self.method != "GET" and not self.is_public

    @property
    def segments(self) -> list[str]:
        return self.path.split("/")[1:]


class _Node:
    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.param: _Node | None = None
        self.routes: dict[str, Route] = {}


class Router:
    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node = self._root
        for segment in route.segments:
            if segment.startswith("{"):
                node.param = node.param or _Node()
                node = node.param
            else:
                node = node.literals.setdefault(segment, _Node())
        node.routes[route.method] = route

    def find(self, method: str, raw_path: str) -> tuple[Route, list[str]]:
        """The route, and the values of its parameters as they were sent; raises a refusal if there is none."""
        node = self._root
        values: list[str] = []
        for segment in raw_path.split("/")[1:]:
            following = node.literals.get(segment)
            if following is None:
                following = node.param
                values.append(segment)
            if following is None:
                raise no_route(raw_path)
            node = following
        if not node.routes:
            raise no_route(raw_path)
        route = node.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            raise wrong_method(method, sorted(node.routes))
        return route, values


def params_of(route: Route, values: list[str]) -> dict[str, str]:
    """The parameters by name, decoded."""
    return {name: _decoded(name, value) for name, value in zip(route.params, values, strict=True)}


def _decoded(name: str, value: str) -> str:
    if "%" not in value:
        return value
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise InvalidInput(name, "is not valid: it must be percent-encoded UTF-8") from None
