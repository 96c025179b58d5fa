"""The table of routes: what there is, who may use it, what it takes and gives. Everything else is derived from it."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Self, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec

from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.server.refusals import no_route, wrong_method
from octostore.wire.endpoints import BY_OPERATION, Endpoint

Handler: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]


class Route(Endpoint, frozen=True, kw_only=True):
    """An endpoint, and what the server does with it and says of it."""

    handler: Handler | None = None
    """What answers; None for a command, which is carried out."""
    prepare: Any = None
    """For a command: what is to be carried out, made from the call. Refuses what the caller may not ask."""
    respond: Any = None
    """For a command: what is answered, made from the call and the reply."""
    tag: str = ""
    """What it is about."""
    summary: str
    description: str = ""
    headers: dict[str, Any] = msgspec.field(default_factory=dict)
    """Headers that it takes, as types."""
    responses: dict[int, Any] = msgspec.field(default_factory=dict)
    """What is answered with which status, as types; by default the reply."""
    content_type: str = "application/json"
    stream: type | None = None
    """What each event tells, where the answer is a stream of them, or can be."""
    codes: dict[int, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The errors that are particular to this route, by status."""
    translate: Callable[[OctoStoreError], Exception] | None = None
    """Says an error of the store in other words, where clients expect these."""
    challenge: Callable[..., Any] | None = None
    """Says where to learn about tokens, to those who come without a good one: from the request and the headers."""
    reads: type | None = None
    """What the body looks like, where the handler reads it by itself."""
    example: dict[str, Any] = msgspec.field(default_factory=dict)
    """A request that works on an empty store: `params`, `query`, `body`; `first` names what is to be called before.

    `answer` has what the answer to it says other than usual, `others` the same of other answers by their status, and
    `event` of the first event of a stream.
    """

    name: str = ""
    """Unique, and fit for a metric's label."""
    is_page: bool = False
    """Only for the live page: called from our own origin, and with its cookie in place of a token."""
    has_deadline: bool = False
    """Whether it does something that must not be done for somebody who has given up."""

    def __post_init__(self) -> None:
        Endpoint.__post_init__(self)
        msgspec.structs.force_setattr(self, "name", f"{self.method} {self.path}")
        msgspec.structs.force_setattr(self, "has_deadline", self.method != "GET" and not self.is_public)
        if not self.responses and self.reply is not None:
            msgspec.structs.force_setattr(self, "responses", {200: self.reply})

    @classmethod
    def for_operation(cls, operation: str, **more: Any) -> Self:
        """The route of an endpoint."""
        return cls(**msgspec.structs.asdict(BY_OPERATION[operation]), **more)


class _Node:
    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.param: _Node | None = None
        self.routes: dict[str, Route] = {}


class Router:
    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self.add(route.path, route)

    def add(self, path: str, route: Route) -> None:
        """`path` is that of the route, unless this has no parameters, and is found at several."""
        node = self._root
        for segment in path.split("/"):
            if segment.startswith("{"):
                node.param = node.param or _Node()
                node = node.param
            else:
                node = node.literals.setdefault(segment, _Node())
        node.routes[route.method] = route

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        """The route, and its parameters as they were sent; raises a refusal if there is none."""
        node = self._root
        values: list[str] = []
        for segment in raw_path.split("/"):
            following = node.literals.get(segment)
            if following is None:
                following = node.param
                values.append(segment)
            if following is None:
                break
            node = following
        else:
            route = node.routes.get(method)
            if route is not None:
                return route, dict(zip(route.params, values, strict=True))
        return self._search(method, raw_path)

    def _search(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        """The same the long way round: a job may be called like a route of ours, as in `GET /jobs/requeue`."""
        methods: set[str] = set()
        for node, values in _ends(self._root, raw_path.split("/")):
            route = node.routes.get(method) or node.routes.get("GET" if method == "HEAD" else "")
            if route is not None:
                return route, dict(zip(route.params, values, strict=True))
            methods.update(node.routes)
        raise wrong_method(method, sorted(methods)) if methods else no_route(raw_path)


def _ends(
    node: _Node, segments: Sequence[str], values: tuple[str, ...] = ()
) -> Iterator[tuple[_Node, tuple[str, ...]]]:
    """Where a path can lead, words before parameters, and what its parameters are then."""
    if not segments:
        yield node, values
        return
    segment, *rest = segments
    if segment in node.literals:
        yield from _ends(node.literals[segment], rest, values)
    if node.param is not None:
        yield from _ends(node.param, rest, (*values, segment))


def decoded(name: str, value: str) -> str:
    """Of a parameter."""
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise InvalidInput(name, "is not valid: it must be percent-encoded UTF-8") from None
