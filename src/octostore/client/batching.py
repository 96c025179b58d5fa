"""Several commands in one call."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, TypeAlias

import msgspec

from octostore.client.port import AsyncPort, Port
from octostore.core.commands import Batch, Command
from octostore.core.errors import InvalidInput, LeaseLost, OctoStoreError, Unreachable
from octostore.core.limits import BATCH_MAX
from octostore.core.replies import ClaimReply
from octostore.stores.ids import new_request_id

CALL_BYTES, ROOM_BYTES = 3 * 1_024 * 1_024, 1_024
"""How large a call is made, of the 4 MiB that servers take, if each command needs so much besides its documents."""

ClaimOrLease: TypeAlias = ClaimReply | tuple[str, str]


def lease_of(claim: ClaimOrLease) -> tuple[Any, Any]:
    """The job and its lease, which is None where the claim did not succeed."""
    if isinstance(claim, ClaimReply):
        return claim.job_id, claim.lease_id
    if not isinstance(claim, tuple) or len(claim) != 2:  # noqa: PLR2004  # a pair
        raise InvalidInput("claims", "must be answers to claims, or pairs of a job and its lease")
    return claim


def run_batch(port: Port, batch: Batch) -> list[Any]:
    """Any number, in as few calls as possible."""
    answers: list[Any] = []
    for commands in _calls(batch):
        answers += port.execute_all([_with_request_id(command) for command in commands], atomic=batch.atomic)
        _check_reached(answers)
        for place, command in _to_be_repeated(commands, answers):
            (answers[place],) = port.execute_all([_with_request_id(command)], atomic=True)
    return answers


async def run_batch_async(port: AsyncPort, batch: Batch) -> list[Any]:
    answers: list[Any] = []
    try:
        for commands in _calls(batch):
            answers += await port.execute_all([_with_request_id(command) for command in commands], atomic=batch.atomic)
            _check_reached(answers)
            for place, command in _to_be_repeated(commands, answers):
                (answers[place],) = await port.execute_all([_with_request_id(command)], atomic=True)
    except BaseException:  # being cancelled, above all
        port.undo_claims(answers)
        raise
    return answers


def _calls(batch: Batch) -> Iterator[Sequence[Command[Any]]]:
    """What is atomic is one; the rest as few as a server takes."""
    rest = list(batch.commands)
    while rest:
        sizes = accumulate(map(_size, rest))
        fits = sum(1 for size in islice(sizes, BATCH_MAX) if size <= CALL_BYTES)
        count = len(rest) if batch.atomic else max(1, fits)
        yield rest[:count]
        del rest[:count]


def _size(command: Command[Any]) -> int:
    """About as many bytes as it has in a call."""
    documents = (getattr(command, name, None) for name in ("payload", "metadata", "result"))
    return ROOM_BYTES + sum(len(document) for document in documents if document is not None)


def _to_be_repeated(commands: Sequence[Command[Any]], answers: Sequence[Any]) -> list[tuple[int, Command[Any]]]:
    """Where an earlier attempt of this very call claimed, and that claim ended before anybody heard of it."""
    places = enumerate(commands, len(answers) - len(commands))
    return [(place, one) for place, one in places if isinstance(answers[place], LeaseLost) and _is_unnamed(one)]


def _check_reached(answers: Sequence[Any]) -> None:
    """Of the first calls only: what was claimed before would be lost with the fault of a later one.

    Where a call was refused as a whole, the same error stands in all places.
    """
    first = answers[0] if answers else None
    is_same = len(answers) > 1 and all(answer is first for answer in answers)
    if isinstance(first, OctoStoreError) and (is_same or all(isinstance(answer, Unreachable) for answer in answers)):
        raise first


def _is_unnamed(command: Command[Any]) -> bool:
    return getattr(command, "request_id", "") is None


def _with_request_id(command: Command[Any]) -> Command[Any]:
    return msgspec.structs.replace(command, request_id=new_request_id()) if _is_unnamed(command) else command
