"""Several commands in one call: each as one document, with its name beside what the single call has."""

from collections.abc import Sequence
from typing import Any

import msgspec

from octostore.core.commands import Batch, Command, CreateToken, MatchingCommand, Probe, RevokeToken
from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.core.limits import BATCH_MAX, check_range
from octostore.core.replies import ClaimReply, ClosedReply, EnqueueReply, SessionReply
from octostore.wire.bodies import Shape, convert_whole_floats
from octostore.wire.endpoints import BY_KIND, BY_OPERATION, Endpoint
from octostore.wire.errors import error_kind
from octostore.wire.failures import failure_from_error
from octostore.wire.responses import OpenedSession, claim_response, task_response

_encode = msgspec.json.Encoder().encode


class BatchResponse(msgspec.Struct, kw_only=True):
    """One answer for each command, in their order."""

    answers: list["CommandResponse"]


class CommandResponse(msgspec.Struct, kw_only=True):
    """What the single call would have been answered: the status, and the body."""

    status: int
    body: Any


def command_response(answer: Any) -> CommandResponse:
    """What a server would say of a reply, or of an error in its place."""
    status, body = 200, answer
    match answer:
        case OctoStoreError():
            status, body = error_kind(answer.code).status, failure_from_error(answer)
        case ClaimReply(session=SessionReply()) | ClaimReply(job_id=None):  # a task, or why there is none
            body = task_response(answer)
        case ClaimReply():
            body = claim_response(answer)
        case SessionReply():
            status, body = 201, OpenedSession.of(answer)
        case EnqueueReply(created=True):
            status = 201
        case ClosedReply():
            status, body = 204, None
    return CommandResponse(status=status, body=body)


def check_batch_size(commands: Sequence[Any]) -> None:
    check_range("commands", len(commands), 1, BATCH_MAX)


def encode_batch(batch: Batch) -> bytes:
    documents = b",".join(map(_document_of, batch.commands))
    return b'{"commands":[%s],"atomic":%s}' % (documents, b"true" if batch.atomic else b"false")


def _document_of(command: Command[Any]) -> bytes:
    endpoint = BY_KIND[type(command)]
    names = {"command": endpoint.operation} | {name: getattr(command, name) for name in endpoint.params}
    head, body = _encode(names), _encode(endpoint.body_for(command) or {})
    return head if body == b"{}" else b"%s,%s" % (head[:-1], body[1:])


def find_endpoint(document: dict[str, Any]) -> Endpoint:
    """Which command it is."""
    operation = document.get("command")
    if not isinstance(operation, str) or operation not in OPERATIONS:
        raise InvalidInput("command", f"must be one of {', '.join(OPERATIONS)}")
    return OPERATIONS[operation]


def decode_command(document: dict[str, Any], endpoint: Endpoint) -> tuple[dict[str, Any], Shape]:
    """What stands in the address of the single call, and its body. Raises `msgspec.ValidationError`."""
    rest = document.copy()
    rest.pop("command", None)
    params = {name: msgspec.convert(rest.pop(name, None), str) for name in endpoint.params}
    shape = endpoint.body or _Nothing
    body = msgspec.convert(convert_whole_floats(rest, shape), shape)
    if getattr(body, "wait_seconds", 0):
        raise InvalidInput("wait_seconds", "must be 0 here: a batch cannot wait")
    return params, body


class _Nothing(Shape, forbid_unknown_fields=True):
    """The body of a call that has none."""


def can_be_batched(endpoint: Endpoint) -> bool:
    """Commands, except those that hand out secrets, end what others have open, or only ask whether the store works.

    Nor those that are batches by themselves.
    """
    kind = endpoint.message_type
    if kind is None or not issubclass(kind, Command) or issubclass(kind, MatchingCommand):
        return False
    return kind not in {CreateToken, RevokeToken, Probe}


OPERATIONS = {operation: endpoint for operation, endpoint in BY_OPERATION.items() if can_be_batched(endpoint)}
