"""JSON-RPC as lines, read strictly. A line that is not a message is refused with a reason."""

import json
from typing import Any, BinaryIO, NamedTuple

import msgspec

LINE_BYTES = 4 * 1_024 * 1_024
"""More than twice the largest payload, even if every letter is escaped."""
REQUEST_ID_MAX = 2**63
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = (
    -32_700,
    -32_600,
    -32_601,
    -32_602,
    -32_603,
)
NOT_A_MESSAGE = (
    'this is not a JSON-RPC message: it must be an object with "jsonrpc": "2.0" and a `method`; a request also has an '
    "`id`, which is text or a whole number"
)

RequestId = str | int


class Refused(Exception):
    """The error sent instead of a result. `code` is JSON-RPC's; `request_id` is None if it could not be read."""

    def __init__(self, code: int, problem: str, request_id: RequestId | None = None, data: Any = None) -> None:
        super().__init__(problem)
        self.code = code
        self.request_id = request_id
        self.data = data


class Message(NamedTuple):
    """A request, or a notification if it has no id."""

    request_id: RequestId | None
    method: str
    params: dict[str, Any]


def next_line(stdin: BinaryIO) -> bytes:
    """Empty at the end of input. Only the start of a line that is too long: enough to see that it is."""
    line = stdin.readline(LINE_BYTES + 1)
    rest = line
    while len(rest) > LINE_BYTES and not rest.endswith(b"\n"):
        rest = stdin.readline(LINE_BYTES + 1)
    return line


def message_of(line: bytes) -> Message | None:
    """None if no reply is needed: a blank line, or a reply to a request we never make. Raises `Refused`."""
    if len(line) > LINE_BYTES:
        raise Refused(INVALID_REQUEST, f"a message may have at most {LINE_BYTES:,} bytes")
    if line.isspace():
        return None
    try:
        document = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        problem = str(error).removeprefix("JSON is malformed: ")
        raise Refused(PARSE_ERROR, f"this is not valid JSON: {problem}", _request_id(_document(line))) from None
    if not isinstance(document, dict):
        raise Refused(INVALID_REQUEST, NOT_A_MESSAGE)
    if "method" not in document and ("result" in document or "error" in document):
        return None
    return _checked(document)


def _checked(document: dict[str, Any]) -> Message:
    request_id, method, params = _request_id(document), document.get("method"), document.get("params")
    if params is None:
        params = {}
    has_usable_id = "id" not in document or request_id is not None
    if document.get("jsonrpc") != "2.0" or not isinstance(params, dict) or not has_usable_id:
        raise Refused(INVALID_REQUEST, NOT_A_MESSAGE, request_id)
    if not isinstance(method, str):
        raise Refused(INVALID_REQUEST, NOT_A_MESSAGE, request_id)
    return Message(request_id, method, params)


def _request_id(document: dict[str, Any]) -> RequestId | None:
    found = document.get("id")
    is_usable = (type(found) is str and found.isprintable()) or (type(found) is int and abs(found) < REQUEST_ID_MAX)
    return found if is_usable else None


def _document(line: bytes) -> dict[str, Any]:
    """The document of a line with something JSON forbids, like half a surrogate pair."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def result_line(request_id: RequestId, result: dict[str, Any]) -> bytes:
    return _line({"id": request_id, "result": result})


def error_line(refused: Refused) -> bytes:
    return _line(error_fields(refused))


def error_fields(refused: Refused) -> dict[str, Any]:
    error = {"code": refused.code, "message": str(refused)} | ({} if refused.data is None else {"data": refused.data})
    return {"id": refused.request_id, "error": error}


def notification_line(method: str, params: dict[str, Any]) -> bytes:
    return _line({"method": method, "params": params})


def _line(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n"
