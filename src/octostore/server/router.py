"""Routes and routing. The API page and the OpenAPI document are derived from the table of routes."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Self, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec

from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.server.refusals import no_route, wrong_method
from octostore.wire.endpoints import BY_OPERATION, Endpoint

Handler: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]

MAX_NAME_SEGMENTS = 16


class Route(Endpoint, frozen=True, kw_only=True):
    """An endpoint with its handler and documentation."""

    handler: Handler | None = None
    """The handler; None for a command that needs no special handling."""
    prepare: Any = None
    """For a command: builds it from the call. Refuses what the caller may not do."""
    respond: Any = None
    """For a command: builds the response from the call and the reply."""
    tag: str = ""
    summary: str
    description: str = ""
    headers: dict[str, Any] = msgspec.field(default_factory=dict)
    """The types of the request headers it reads."""
    responses: dict[int, Any] = msgspec.field(default_factory=dict)
    """The type of the response for each status; by default, the type of the reply for 200."""
    content_type: str = "application/json"
    stream: type | None = None
    """The type of each event, if the response is or can be a stream."""
    codes: dict[int, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Error codes specific to this route, by status."""
    translate: Callable[[OctoStoreError], Exception] | None = None
    """Translates a store error to the code that clients of this route expect."""
    challenge: Callable[..., Any] | None = None
    """Changes the headers of a 401 response to say where to learn about tokens."""
    reads: type | None = None
    """The type of the body, if the handler decodes it itself."""
    example: dict[str, Any] = msgspec.field(default_factory=dict)
    """A request that works on an empty store: `params`, `query`, `body`; `first` names the calls to make before it.

    `response` has the fields that differ from the defaults, `other_responses` those of other statuses, and `event`
    those of a stream's first event.
    """

    name: str = ""
    """Unique; used as a metric label."""
    is_page: bool = False
    """Only for the live page: called from our own origin, with a cookie instead of a token."""
    has_deadline: bool = False
    """Whether to skip a request whose caller has stopped waiting."""

    def __post_init__(self) -> None:
        Endpoint.__post_init__(self)
        msgspec.structs.force_setattr(self, "name", f"{self.method} {self.path}")
        msgspec.structs.force_setattr(self, "has_deadline", self.method != "GET" and not self.is_public)
        if not self.responses and self.reply is not None:
            msgspec.structs.force_setattr(self, "responses", {200: self.reply})

    @classmethod
    def for_operation(cls, operation: str, **more: Any) -> Self:
        """Make a route from the endpoint of this name."""
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
        """`path` differs from `route.path` only for a route without parameters that serves several paths."""
        node = self._root
        for segment in path.split("/"):
            if segment.startswith("{"):
                node.param = node.param or _Node()
                node = node.param
            else:
                node = node.literals.setdefault(segment, _Node())
        node.routes[route.method] = route

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        """Return the route and its parameters, not yet decoded. Raises a refusal if there is none."""
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
        """`find`, the slow way: a job may have the name of a route, as in `GET /jobs/requeue`."""
        methods: set[str] = set()
        for node, values in _matches(self._root, raw_path.split("/")):
            route = node.routes.get(method) or node.routes.get("GET" if method == "HEAD" else "")
            if route is not None:
                return route, dict(zip(route.params, values, strict=True))
            methods.update(node.routes)
        raise wrong_method(method, sorted(methods)) if methods else no_route(raw_path, self._encoded(method, raw_path))

    def _encoded(self, method: str, raw_path: str) -> str | None:
        """The endpoint that the caller meant if it forgot to encode the slashes of a name."""
        segments = raw_path.split("/")
        for end in range(4, min(len(segments), MAX_NAME_SEGMENTS) + 1):
            path = [*segments[:2], "%2F".join(segments[2:end]), *segments[end:]]
            if any(method in node.routes for node, _ in _matches(self._root, path)):
                return "/".join(path)
        return None


def _matches(
    node: _Node, segments: Sequence[str], values: tuple[str, ...] = ()
) -> Iterator[tuple[_Node, tuple[str, ...]]]:
    """Every node a path can lead to, with the parameters, literals first."""
    if not segments:
        yield node, values
        return
    segment, *rest = segments
    if segment in node.literals:
        yield from _matches(node.literals[segment], rest, values)
    if node.param is not None:
        yield from _matches(node.param, rest, (*values, segment))


def decode_param(name: str, value: str) -> str:
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise InvalidInput(name, "is not valid: it must be percent-encoded UTF-8") from None
