"""Several commands in one call."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from octostore.client.claiming import claim, claim_async
from octostore.client.port import AsyncPort, Port
from octostore.core.commands import Batch, Command
from octostore.core.errors import LeaseLost, OctoStoreError, Unreachable
from octostore.core.limits import BATCH_MAX
from octostore.core.replies import ClaimReply
from octostore.stores.ids import new_request_id

Released: TypeAlias = ClaimReply | tuple[str, str]


def lease_of(claim: Released) -> tuple[Any, Any]:
    """The job and its lease, which is None where the claim did not succeed."""
    return (claim.job_id, claim.lease_id) if isinstance(claim, ClaimReply) else claim


def carry_out(port: Port, batch: Batch) -> list[Any]:
    """Any number, in as few calls as possible."""
    answers: list[Any] = []
    for commands in _steps(batch):
        some = port.execute_all([_with_request_id(command) for command in commands], atomic=batch.atomic)
        answers += some
        _check_reached(answers)
        for place, command in enumerate(commands, len(answers) - len(some)):
            if _must_be_repeated(command, answers[place]):
                answers[place] = _claimed_anew(port, command)
    return answers


def _claimed_anew(port: Port, command: Command[Any]) -> Any:
    try:
        return claim(port, _with_request_id(command), 0, True)
    except OctoStoreError as refusal:
        return refusal


async def carry_out_async(port: AsyncPort, batch: Batch) -> list[Any]:
    answers: list[Any] = []
    try:
        await _carry_out_async(port, batch, answers)
    except BaseException:  # being cancelled, above all
        port.give_back(answers)
        raise
    return answers


async def _carry_out_async(port: AsyncPort, batch: Batch, answers: list[Any]) -> None:
    for commands in _steps(batch):
        some = await port.execute_all([_with_request_id(command) for command in commands], atomic=batch.atomic)
        answers += some
        _check_reached(answers)
        for place, command in enumerate(commands, len(answers) - len(some)):
            if _must_be_repeated(command, answers[place]):
                answers[place] = await _claimed_anew_async(port, command)


async def _claimed_anew_async(port: AsyncPort, command: Command[Any]) -> Any:
    try:
        return await claim_async(port, _with_request_id(command), 0, True)
    except OctoStoreError as refusal:
        return refusal


def _steps(batch: Batch) -> list[Sequence[Command[Any]]]:
    commands = batch.commands
    return [commands[start : start + BATCH_MAX] for start in range(0, len(commands), BATCH_MAX)]


def _check_reached(answers: Sequence[Any]) -> None:
    """Of the first calls only: what was claimed before would be lost with the fault of a later one."""
    if all(isinstance(answer, Unreachable) for answer in answers):
        raise answers[0]


def _is_unnamed(command: Command[Any]) -> bool:
    return getattr(command, "request_id", "") is None


def _with_request_id(command: Command[Any]) -> Command[Any]:
    return msgspec.structs.replace(command, request_id=new_request_id()) if _is_unnamed(command) else command


def _must_be_repeated(command: Command[Any], answer: Any) -> bool:
    """Where an earlier attempt of this very call claimed, and that claim has ended before anybody heard of it."""
    return isinstance(answer, LeaseLost) and _is_unnamed(command)
