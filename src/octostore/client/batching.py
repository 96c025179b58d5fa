"""Several commands in one call, each a document as over HTTP."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from octostore.client.claiming import claim, claim_async
from octostore.client.owner import default_owner
from octostore.client.port import AsyncPort, Port
from octostore.core.commands import ClaimJob, ClaimNext, Command, Enqueue, OpenSession
from octostore.core.errors import InvalidInput, LeaseLost, Unreachable
from octostore.core.limits import BATCH_MAX
from octostore.core.replies import ClaimReply
from octostore.stores.ids import new_job_id, new_request_id, new_session_id

Document: TypeAlias = Mapping[str, Any]
Released: TypeAlias = ClaimReply | tuple[str, str]

_DEFAULTS: dict[Any, dict[str, Callable[[], str]]] = {
    ClaimJob: {"owner": default_owner},
    ClaimNext: {"owner": default_owner},
    Enqueue: {"job_id": new_job_id},
    OpenSession: {"agent": default_owner, "session_id": new_session_id},
}
"""What a document may leave out."""


def commands_of(documents: Iterable[Document]) -> list[Command[Any]]:
    """Raises `InvalidInput` for the first that is wrong, and says which."""
    from octostore.wire.batches import check_batch  # noqa: PLC0415  # here and below: few processes send documents

    listed = list(documents)
    check_batch(listed)
    return [_numbered(number, document) for number, document in enumerate(listed)]


def _numbered(number: int, document: Document) -> Command[Any]:
    try:
        return _command_of(dict(document))
    except InvalidInput as error:
        raise InvalidInput(f"commands[{number}]", f"cannot be done: {error}") from None


def _command_of(document: dict[str, Any]) -> Command[Any]:
    from octostore.wire.batches import endpoint_in, values_in  # noqa: PLC0415

    endpoint = endpoint_in(document)
    if endpoint.reply is None:
        raise InvalidInput("command", "is one of lock clients, which speak HTTP")
    try:
        params, body = values_in(document, endpoint)
    except msgspec.ValidationError as error:
        raise InvalidInput(endpoint.operation, f"has not the right fields: {error}") from None
    for name, new in _DEFAULTS.get(endpoint.asks, {}).items():
        if getattr(body, name) is None:
            setattr(body, name, new())
    command: Command[Any] = endpoint.asks(**{**body.values(), **params})
    return command


def lease_of(claim: Released) -> tuple[Any, Any]:
    """The job and its lease, which is None where the claim did not succeed."""
    return (claim.job_id, claim.lease_id) if isinstance(claim, ClaimReply) else claim


def carry_out_all(port: Port, commands: Sequence[Command[Any]]) -> list[Any]:
    """Any number, in as few calls as possible."""
    return [answer for some in _in_batches(commands) for answer in carry_out(port, some)]


async def carry_out_all_async(port: AsyncPort, commands: Sequence[Command[Any]]) -> list[Any]:
    return [answer for some in _in_batches(commands) for answer in await carry_out_async(port, some)]


def _in_batches(commands: Sequence[Command[Any]]) -> list[Sequence[Command[Any]]]:
    return [commands[start : start + BATCH_MAX] for start in range(0, len(commands), BATCH_MAX)]


def carry_out(port: Port, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
    answers = port.execute_all([_with_request_id(command) for command in commands], atomic=atomic)
    _check_reached(answers)
    return [
        claim(port, _with_request_id(command), is_generated=True) if _must_be_repeated(command, answer) else answer
        for command, answer in zip(commands, answers, strict=True)
    ]


async def carry_out_async(port: AsyncPort, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
    answers = await port.execute_all([_with_request_id(command) for command in commands], atomic=atomic)
    _check_reached(answers)
    return [
        await claim_async(port, _with_request_id(command), is_generated=True)
        if _must_be_repeated(command, answer)
        else answer
        for command, answer in zip(commands, answers, strict=True)
    ]


def _check_reached(answers: Sequence[Any]) -> None:
    if all(isinstance(answer, Unreachable) for answer in answers):
        raise answers[0]


def _is_unnamed(command: Command[Any]) -> bool:
    return getattr(command, "request_id", "") is None


def _with_request_id(command: Command[Any]) -> Command[Any]:
    return msgspec.structs.replace(command, request_id=new_request_id()) if _is_unnamed(command) else command


def _must_be_repeated(command: Command[Any], answer: Any) -> bool:
    """Where an earlier attempt of this very call claimed, and that claim has ended before anybody heard of it."""
    return isinstance(answer, LeaseLost) and _is_unnamed(command)
