"""Several commands in one call."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from octostore.client.port import AsyncPort, Port
from octostore.core.commands import Batch, Command
from octostore.core.errors import LeaseLost, Unreachable
from octostore.core.replies import ClaimReply
from octostore.stores.ids import new_request_id

Released: TypeAlias = ClaimReply | tuple[str, str]


def lease_of(claim: Released) -> tuple[Any, Any]:
    """The job and its lease, which is None where the claim did not succeed."""
    return (claim.job_id, claim.lease_id) if isinstance(claim, ClaimReply) else claim


def carry_out(port: Port, batch: Batch) -> list[Any]:
    """Any number, in as few calls as possible."""
    answers: list[Any] = []
    for commands in _calls(batch):
        answers += port.execute_all([_with_request_id(command) for command in commands], atomic=batch.atomic)
        _check_reached(answers)
        for place, command in _to_be_repeated(commands, answers):
            (answers[place],) = port.execute_all([_with_request_id(command)], atomic=True)
    return answers


async def carry_out_async(port: AsyncPort, batch: Batch) -> list[Any]:
    answers: list[Any] = []
    try:
        for commands in _calls(batch):
            answers += await port.execute_all([_with_request_id(command) for command in commands], atomic=batch.atomic)
            _check_reached(answers)
            for place, command in _to_be_repeated(commands, answers):
                (answers[place],) = await port.execute_all([_with_request_id(command)], atomic=True)
    except BaseException:  # being cancelled, above all
        port.give_back(answers)
        raise
    return answers


def _calls(batch: Batch) -> list[Sequence[Any]]:
    return batch._replace(atomic=True).steps  # also of what need not be in one transaction


def _to_be_repeated(commands: Sequence[Command[Any]], answers: Sequence[Any]) -> list[tuple[int, Command[Any]]]:
    """Where an earlier attempt of this very call claimed, and that claim ended before anybody heard of it."""
    places = enumerate(commands, len(answers) - len(commands))
    return [(place, one) for place, one in places if isinstance(answers[place], LeaseLost) and _is_unnamed(one)]


def _check_reached(answers: Sequence[Any]) -> None:
    """Of the first calls only: what was claimed before would be lost with the fault of a later one."""
    if all(isinstance(answer, Unreachable) for answer in answers):
        raise answers[0]


def _is_unnamed(command: Command[Any]) -> bool:
    return getattr(command, "request_id", "") is None


def _with_request_id(command: Command[Any]) -> Command[Any]:
    return msgspec.structs.replace(command, request_id=new_request_id()) if _is_unnamed(command) else command
