"""Several commands in one call: each as one document, with its name beside what the single call has."""

from collections.abc import Sequence
from typing import Any

import msgspec

from octostore.core.commands import Batch, Command
from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.core.limits import BATCH_MAX, check_range
from octostore.core.replies import ClaimReply, ClosedReply, EnqueueReply, SessionReply
from octostore.wire.answers import claim_answer, task_answer
from octostore.wire.bodies import Shape, with_whole_numbers
from octostore.wire.endpoints import BY_KIND, BY_OPERATION, Endpoint
from octostore.wire.errors import kind_of
from octostore.wire.failures import failure_of

_encode = msgspec.json.Encoder().encode


class BatchAnswer(msgspec.Struct, kw_only=True):
    """One answer for each command, in their order."""

    answers: list["OneAnswer"]


class OneAnswer(msgspec.Struct, kw_only=True):
    """What the single call would have been answered: the status, and the body."""

    status: int
    body: Any


def answer_of(answer: Any) -> OneAnswer:
    """What a server would say of a reply, or of an error in its place."""
    match answer:
        case OctoStoreError():
            return OneAnswer(status=kind_of(answer.code).status, body=failure_of(answer))
        case ClaimReply():
            return OneAnswer(status=200, body=claim_answer(answer) if answer.session is None else task_answer(answer))
        case EnqueueReply(created=True) | SessionReply():
            return OneAnswer(status=201, body=answer)
        case ClosedReply():
            return OneAnswer(status=204, body=None)
        case _:
            return OneAnswer(status=200, body=answer)


def check_batch(commands: Sequence[Any]) -> None:
    check_range("commands", len(commands), 1, BATCH_MAX)


def encode_batch(batch: Batch) -> bytes:
    documents = b",".join(map(_document_of, batch.commands))
    return b'{"commands":[%s],"atomic":%s}' % (documents, b"true" if batch.atomic else b"false")


def _document_of(command: Command[Any]) -> bytes:
    endpoint = BY_KIND[type(command)]
    names = {"command": endpoint.operation} | {name: getattr(command, name) for name in endpoint.params}
    head, body = _encode(names), _encode(endpoint.body_of(command) or {})
    return head if body == b"{}" else b"%s,%s" % (head[:-1], body[1:])


def endpoint_in(document: dict[str, Any]) -> Endpoint:
    """Which command it is."""
    operation = document.get("command")
    if not isinstance(operation, str) or operation not in OPERATIONS:
        raise InvalidInput("command", f"must be one of {', '.join(OPERATIONS)}")
    return OPERATIONS[operation]


def values_in(document: dict[str, Any], endpoint: Endpoint) -> tuple[dict[str, Any], Shape]:
    """What stands in the address of the single call, and its body. Raises `msgspec.ValidationError`."""
    rest = document.copy()
    rest.pop("command", None)
    params = {name: msgspec.convert(rest.pop(name, None), str) for name in endpoint.params}
    shape = endpoint.body or _Nothing
    body = msgspec.convert(with_whole_numbers(rest, shape), shape)
    if getattr(body, "wait_seconds", 0):
        raise InvalidInput("wait_seconds", "must be 0 here: a batch waits for nobody")
    return params, body


class _Nothing(Shape, forbid_unknown_fields=True):
    """The body of a call that has none."""


def is_for_batches(endpoint: Endpoint) -> bool:
    """Commands, but for those that hand out secrets or end what others have open."""
    is_command = endpoint.asks is not None and issubclass(endpoint.asks, Command)
    return is_command and endpoint.method != "GET" and "token" not in endpoint.operation


OPERATIONS = {operation: endpoint for operation, endpoint in BY_OPERATION.items() if is_for_batches(endpoint)}
