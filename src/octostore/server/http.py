"""Requests and answers, as the handlers see them. Raw ASGI: what a framework adds is on the path of every claim."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from octostore.core.errors import InvalidInput
from octostore.server.refusals import body_too_large

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

MAX_QUERY_FIELDS = 20


class Answer(NamedTuple):
    """`content` is encoded as JSON unless it is bytes of `content_type`."""

    content: Any
    status: int = 200
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Streaming(Protocol):
    """An answer that goes on."""

    async def run(self, send: Send, headers: Headers) -> None: ...


class ClientGone(Exception):  # nobody is there to be told of an error
    """The client has closed the connection, so nobody waits for the answer any more."""


class Request:
    """One request. `route_name` and `params` are set once the route is known."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.route_name = "none"
        self.admitted_at = -1
        """How many changes of tokens there had been when its token was last checked."""
        self.params: dict[str, str] = {}
        self.until: float | None = None
        """When its caller stops waiting for the answer, on the clock of `boottime`, if it says so."""
        self._receive = receive
        self._gone: asyncio.Task[None] | None = None

    @property
    def raw_path(self) -> str:
        """Not decoded: a name with a `/` in it is one segment."""
        path: bytes = self.scope["raw_path"]
        return path.decode("latin-1")

    @property
    def client_address(self) -> str:
        client = self.scope.get("client")
        return str(client[0]) if client else "local"

    @cached_property
    def query(self) -> dict[str, str]:
        text: bytes = self.scope["query_string"]
        if not text:
            return {}
        try:
            pairs = parse_qsl(
                text.decode("ascii"),
                keep_blank_values=True,
                strict_parsing=True,
                errors="strict",
                max_num_fields=MAX_QUERY_FIELDS,
            )
        except ValueError:
            raise InvalidInput("query", "is not valid: it must be name=value pairs in percent-encoded UTF-8") from None
        query = dict(pairs)
        if len(query) != len(pairs):
            raise InvalidInput("query", "has a name twice")
        return query

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    async def body(self, limit: int) -> bytes:
        length = self.headers.get(b"content-length")
        if length is not None and int(length) > limit:
            raise body_too_large(limit)
        body = b""
        part: bytes
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message.get("body", b"")
            body += part
            if len(body) > limit:
                raise body_too_large(limit)
            if not message.get("more_body"):
                return body

    def gone(self) -> "asyncio.Task[None]":
        """Done once the client has closed the connection. To be used after the body has been read."""
        if self._gone is None:
            self._gone = asyncio.create_task(self._wait_until_gone())
        return self._gone

    async def _wait_until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def close(self) -> None:
        if self._gone is not None:
            self._gone.cancel()

    @property
    def is_clogged(self) -> bool:
        """Whether the client takes less than we send; until it has caught up, sending waits."""
        connection = self.scope.get("extensions", {}).get("octostore.connection")
        return connection is None or connection["flow"].write_paused

    @property
    def is_closed(self) -> bool:
        """Whether the client is known to have gone; costs nothing, as opposed to waiting for it."""
        connection = self.scope.get("extensions", {}).get("octostore.connection")
        return connection is not None and connection["transport"].is_closing()

    def abort(self) -> None:
        """Cut the connection without waiting for what is still to be sent."""
        connection = self.scope.get("extensions", {}).get("octostore.connection")
        if connection is not None:
            connection["transport"].abort()


_encode = msgspec.json.Encoder().encode


def encode(content: Any) -> bytes:
    return content if isinstance(content, bytes) else _encode(content)


async def send_answer(send: Send, answer: Answer, headers: Headers) -> None:
    body = encode(answer.content)
    fields = [
        (b"content-type", answer.content_type),
        (b"content-length", str(len(body)).encode()),
        *answer.headers,
        *headers,
    ]
    if answer.status == 204:  # noqa: PLR2004  # No Content
        fields, body = fields[2:], b""
    await send({"type": "http.response.start", "status": answer.status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
