"""What a client sends, line by line. What is no message is answered with an error: somebody may be waiting."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, BinaryIO, Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from anyio.to_thread import run_sync
from mcp import types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

LINE_BYTES = 4 * 1_024 * 1_024
"""Several times as much as the largest payload takes, with an escape for every letter of it."""
REQUEST_ID_MAX = 2**63
NO_MESSAGE = (
    'this is no message: one is an object with "jsonrpc": "2.0" and a `method`, and in a request an `id` that is text '
    "or a whole number"
)


class Answers(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...


class NoMessage(Exception):
    """`code` is JSON-RPC's, and `request_id` whose answer this is, where that could be made out."""

    def __init__(self, code: int, problem: str, request_id: str | int | None = None) -> None:
        super().__init__(problem)
        self.code = code
        self.request_id = request_id


@asynccontextmanager
async def messages(stdin: BinaryIO, answers: Answers) -> AsyncIterator[MemoryObjectReceiveStream[SessionMessage]]:
    """Those that come while the block runs; whatever else comes is answered here."""
    sending, receiving = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as reading:
        reading.start_soon(_read, stdin, sending, answers)
        yield receiving
        reading.cancel_scope.cancel()


async def _read(stdin: BinaryIO, sending: MemoryObjectSendStream[SessionMessage], answers: Answers) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody listens any more
        async with sending:
            while line := await run_sync(_next_line, stdin, abandon_on_cancel=True):
                if line.isspace():
                    continue
                try:
                    message = message_of(line)
                except NoMessage as refusal:
                    await answers.send(SessionMessage(_error(refusal)))
                else:
                    await sending.send(SessionMessage(message))


def _next_line(stdin: BinaryIO) -> bytes:
    """Empty at the end. Of one that is too long, so much that it can be seen."""
    line = stdin.readline(LINE_BYTES + 1)
    rest = line
    while len(rest) > LINE_BYTES and not rest.endswith(b"\n"):
        rest = stdin.readline(LINE_BYTES + 1)
    return line


def message_of(line: bytes) -> types.JSONRPCMessage:
    """Raises `NoMessage`."""
    if len(line) > LINE_BYTES:
        raise NoMessage(types.INVALID_REQUEST, f"a message may have {LINE_BYTES:,} bytes at most")
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        if found["type"] == "json_invalid":
            problem = f"this is no valid JSON: {found['ctx']['error']}"
            raise NoMessage(types.PARSE_ERROR, problem, _request_id(line)) from None
        raise NoMessage(types.INVALID_REQUEST, NO_MESSAGE, _request_id(line)) from None
    if isinstance(message, types.JSONRPCNotification) and b'"id"' in line and "id" in _document(line):
        # To the SDK, a request whose id cannot be one is a notification, which is not answered.
        raise NoMessage(types.INVALID_REQUEST, NO_MESSAGE)
    return message


def _request_id(line: bytes) -> str | int | None:
    found = _document(line).get("id")
    is_usable = (type(found) is str and found.isprintable()) or (type(found) is int and abs(found) < REQUEST_ID_MAX)
    return found if is_usable else None


def _document(line: bytes) -> dict[str, Any]:
    """Of a line that may have what JSON must not have, such as half a surrogate pair."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _error(refusal: NoMessage) -> types.JSONRPCError:
    problem = types.ErrorData(code=refusal.code, message=str(refusal))
    return types.JSONRPCError(jsonrpc="2.0", id=refusal.request_id, error=problem)
