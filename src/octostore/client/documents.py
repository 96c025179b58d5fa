"""Commands as dicts, in the form of an HTTP batch."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from octostore.client.owner import HOST, default_owner
from octostore.core.commands import ClaimJob, ClaimNext, ClaimTask, Command, Enqueue, OpenSession
from octostore.core.errors import InvalidInput
from octostore.stores.ids import new_job_id, new_session_id
from octostore.wire.batches import check_batch_size, decode_command, find_endpoint
from octostore.wire.shapes import shape_problem

Document: TypeAlias = Mapping[str, Any]
_HERE: dict[str, Callable[[], Any]] = {"host": lambda: HOST, "pid": os.getpid}
_DEFAULTS: dict[Any, dict[str, Callable[[], Any]]] = {
    ClaimJob: {"owner": default_owner, **_HERE},
    ClaimNext: {"owner": default_owner, **_HERE},
    ClaimTask: _HERE,
    Enqueue: {"job_id": new_job_id},
    OpenSession: {"agent": default_owner, "session_id": new_session_id},
}
"""Fields that a dict may leave out."""


def parse_commands(documents: Iterable[Document], *, atomic: bool = True) -> list[Command[Any]]:
    """Raise `InvalidInput` for the first one that is wrong, with its number."""
    listed = list(documents)
    check_batch_size(listed if atomic else listed[:1])  # otherwise only that there are any
    return [_numbered(number, document) for number, document in enumerate(listed)]


def _numbered(number: int, document: Document) -> Command[Any]:
    try:
        if not isinstance(document, Mapping):
            raise InvalidInput("it", f"must be an object with the name of a command, not {type(document).__name__}")  # noqa: TRY301
        return _command_of(dict(document))
    except InvalidInput as error:
        raise InvalidInput(f"commands[{number}]", f"is not valid: {error}") from None


def _command_of(document: dict[str, Any]) -> Command[Any]:
    endpoint = find_endpoint(document)
    if endpoint.reply is None:
        raise InvalidInput("command", "is for lock clients and works only over HTTP")
    try:
        params, body = decode_command(document, endpoint)
    except msgspec.ValidationError as error:
        raise shape_problem(error, endpoint.body) from None
    for name, new in _DEFAULTS.get(endpoint.message_type, {}).items():
        if getattr(body, name) is None:
            setattr(body, name, new())
    command: Command[Any] = endpoint.message_type(**{**body.values(), **params})
    return command
