"""Batches: several commands in one call, each a JSON object with a command's name and the fields of the single call."""

from collections.abc import Sequence
from typing import Any

import msgspec

from octostore.core.commands import Batch, Command, CreateToken, MatchingCommand, Probe, RevokeToken
from octostore.core.errors import InvalidInput, LeaseLost, OctoStoreError
from octostore.core.limits import BATCH_MAX, check_count
from octostore.core.replies import ClaimReply, ClosedReply, EnqueueReply, SessionReply
from octostore.wire.bodies import Shape, convert_whole_floats
from octostore.wire.endpoints import BY_KIND, BY_OPERATION, Endpoint
from octostore.wire.errors import error_kind
from octostore.wire.failures import failure_from_error
from octostore.wire.responses import OpenedSession, claim_response, task_response

_encode = msgspec.json.Encoder().encode


class BatchResponse(msgspec.Struct, kw_only=True):
    """One response for each command, in the order of the commands."""

    answers: list["CommandResponse"]


class CommandResponse(msgspec.Struct, kw_only=True):
    """The HTTP status and body that the single call would have returned."""

    status: int
    body: Any


def command_response(operation: str, reply: Any) -> CommandResponse:
    """What a server would respond with for a reply, or for the error raised in its place."""
    status, body = 200, reply
    match reply:
        case LeaseLost():
            status, body = OPERATIONS[operation].lost_status, failure_from_error(reply)
        case OctoStoreError():
            status, body = error_kind(reply.code).status, failure_from_error(reply)
        case ClaimReply(session=SessionReply()) | ClaimReply(job_id=None):  # a task, or the reason there is none
            body = task_response(reply)
        case ClaimReply():
            body = claim_response(reply)
        case SessionReply():
            status, body = 201, OpenedSession.of(reply)
        case EnqueueReply(created=True):
            status = 201
        case ClosedReply():
            status, body = 204, None
    return CommandResponse(status=status, body=body)


def check_batch_size(commands: Sequence[Any]) -> None:
    check_count("commands", len(commands), BATCH_MAX, "commands")


def encode_batch(batch: Batch) -> bytes:
    documents = b",".join(map(_encode_command, batch.commands))
    return b'{"commands":[%s],"atomic":%s}' % (documents, b"true" if batch.atomic else b"false")


def _encode_command(command: Command[Any]) -> bytes:
    endpoint = BY_KIND[type(command)]
    names = {"command": endpoint.operation} | {name: getattr(command, name) for name in endpoint.params}
    head, body = _encode(names), _encode(endpoint.body_for(command) or {})
    return head if body == b"{}" else b"%s,%s" % (head[:-1], body[1:])


def find_endpoint(document: dict[str, Any]) -> Endpoint:
    operation = document.get("command")
    if not isinstance(operation, str) or operation not in OPERATIONS:
        raise InvalidInput("command", f"must be one of {', '.join(OPERATIONS)}")
    return OPERATIONS[operation]


def decode_command(document: dict[str, Any], endpoint: Endpoint) -> tuple[dict[str, Any], Shape]:
    """Return the path parameters and the body of the single call. Raises `msgspec.ValidationError`."""
    rest = document.copy()
    rest.pop("command", None)
    params = {name: _param(name, rest) for name in endpoint.params}
    shape = endpoint.body or _NoBody
    body = msgspec.convert(convert_whole_floats(rest, shape), shape)
    if getattr(body, "wait_seconds", 0):
        raise InvalidInput("wait_seconds", "must be 0 here: a batch cannot wait")
    return params, body


def _param(name: str, document: dict[str, Any]) -> str:
    """Take a path parameter out of `document`, with msgspec's errors, as for the fields of a body."""
    if name not in document:
        raise msgspec.ValidationError(f"Object missing required field `{name}`")
    try:
        return msgspec.convert(document.pop(name), str)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `$.{name}`") from None


class _NoBody(Shape, forbid_unknown_fields=True):
    """For a call without a body."""


def can_be_batched(endpoint: Endpoint) -> bool:
    """Any command except token commands, the probe, and commands for all matching jobs, which are batches already."""
    kind = endpoint.message_type
    if kind is None or not issubclass(kind, Command) or issubclass(kind, MatchingCommand):
        return False
    return kind not in {CreateToken, RevokeToken, Probe}


OPERATIONS = {operation: endpoint for operation, endpoint in BY_OPERATION.items() if can_be_batched(endpoint)}
