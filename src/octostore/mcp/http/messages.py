"""What HTTP adds to MCP messages: headers that repeat parts of the body, and a status for each error."""

import base64
import binascii
import re
from typing import Any

from octostore.core.encoding import decode_strictly
from octostore.core.errors import InvalidInput
from octostore.core.limits import JSON_DEPTH
from octostore.mcp.lines import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Message,
    Refused,
    error_fields,
    message_of,
)
from octostore.mcp.protocol import UNSUPPORTED_VERSION, VERSION_KEY, WITH_HANDSHAKE, WITHOUT_HANDSHAKE
from octostore.server.http import Request, Response

OK = 200
HEADER_MISMATCH = -32_020
STATUSES = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
DOCUMENTS_AT = 4
"""How deep in a message its documents start; they may be as deeply nested as anywhere else."""
_AS_BASE64 = re.compile(r"=\?base64\?(.*)\?=")


def read_message(request: Request, body: bytes) -> Message | None:
    """None if no reply is needed. Raises `Refused`."""
    try:
        document = decode_strictly("the message", body, JSON_DEPTH + DOCUMENTS_AT)
    except InvalidInput as error:
        raise Refused(PARSE_ERROR, str(error)) from None
    if isinstance(document, list):
        raise Refused(INVALID_REQUEST, "send one message at a time: batches are no longer part of MCP")
    message = message_of(body)
    try:
        _check_version(request, message)
    except Refused as refused:
        refused.request_id = None if message is None else message.request_id
        raise
    return message


def version_of(message: Message) -> Any:
    """The version each message names, since there is no handshake; None before that."""
    meta = message.params.get("_meta")
    return meta.get(VERSION_KEY) if isinstance(meta, dict) else None


def _check_version(request: Request, message: Message | None) -> None:
    version = request.header(b"mcp-protocol-version")
    is_request = message is not None and message.request_id is not None
    if message is not None and is_request and version_of(message) is not None:
        _check_headers(request, message)
    elif version is not None and version not in {*WITH_HANDSHAKE, *WITHOUT_HANDSHAKE}:
        data = {"supported": [*WITH_HANDSHAKE, *WITHOUT_HANDSHAKE], "requested": version}
        raise Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", data=data)
    elif version in WITHOUT_HANDSHAKE and message is None:
        raise Refused(INVALID_REQUEST, "this server sends no requests, so there is nothing to reply to")
    elif version in WITHOUT_HANDSHAKE and is_request:
        raise Refused(INVALID_PARAMS, f"{VERSION_KEY} in `_meta` must match the header MCP-Protocol-Version")


def _check_headers(request: Request, message: Message) -> None:
    """For proxies, which read headers and not bodies: both must say the same."""
    said = {"MCP-Protocol-Version": version_of(message), "Mcp-Method": message.method}
    if message.method == "tools/call":
        said["Mcp-Name"] = message.params.get("name")
    for name, value in said.items():
        header = request.header(name.lower().encode())
        if header is None or _decoded(header) != value:
            raise Refused(HEADER_MISMATCH, f"the header {name} is required and must match the message")


def _decoded(header: str) -> str | None:
    """Values that are not plain ASCII are sent as Base64."""
    found = _AS_BASE64.fullmatch(header)
    if found is None:
        return header
    try:
        return base64.b64decode(found[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def error_response(refused: Refused, status: int | None = None) -> Response:
    """`status` defaults to the one for the code."""
    document = {"jsonrpc": "2.0", **error_fields(refused)}
    return Response(document, STATUSES.get(refused.code, OK) if status is None else status)
