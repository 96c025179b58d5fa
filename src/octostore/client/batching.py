"""Several commands in one call."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from typing import Any, TypeAlias

import msgspec

from octostore.client.port import AsyncPort, Port
from octostore.core.commands import Batch, Command
from octostore.core.errors import InvalidInput, LeaseLost, OctoStoreError, Unreachable
from octostore.core.limits import BATCH_MAX
from octostore.core.replies import ClaimReply
from octostore.core.undo import undo_of
from octostore.stores.ids import new_request_id

CALL_BYTES, ROOM_BYTES = 3 * 1_024 * 1_024, 1_024
"""Maximum size of one call, below the 4 MiB that servers accept, and what each command needs besides its documents."""

ClaimOrLease: TypeAlias = ClaimReply | tuple[str, str]


def lease_of(claim: ClaimOrLease) -> tuple[Any, Any]:
    """The job and its lease, which is None if the claim did not succeed."""
    if isinstance(claim, ClaimReply):
        return claim.job_id, claim.lease_id
    if not isinstance(claim, tuple) or len(claim) != 2:  # noqa: PLR2004  # a pair
        raise InvalidInput("claims", "must be replies to claims, or pairs of a job and its lease")
    return claim


def run_batch(port: Port, batch: Batch) -> list[Any]:
    """Run any number of commands, in as few calls as possible."""
    replies: list[Any] = []
    try:
        for commands in _split(batch):
            replies += port.execute_all([_with_request_id(command) for command in commands], atomic=batch.atomic)
            _check_reached(replies)
            for place, command in _to_repeat(commands, replies):
                (replies[place],) = port.execute_all([_with_request_id(command)], atomic=True)
    except BaseException:  # usually Ctrl-C
        _undo_claims(port, replies)
        raise
    return replies


def _undo_claims(port: Port, replies: Sequence[Any]) -> None:
    """Undo the claims of earlier calls: the caller never gets these replies."""
    undoing = [undo for undo in map(undo_of, replies) if undo is not None]
    with suppress(OctoStoreError):
        for start in range(0, len(undoing), BATCH_MAX):
            port.execute_all(undoing[start : start + BATCH_MAX], atomic=False)


async def run_batch_async(port: AsyncPort, batch: Batch) -> list[Any]:
    replies: list[Any] = []
    try:
        for commands in _split(batch):
            replies += await port.execute_all([_with_request_id(command) for command in commands], atomic=batch.atomic)
            _check_reached(replies)
            for place, command in _to_repeat(commands, replies):
                (replies[place],) = await port.execute_all([_with_request_id(command)], atomic=True)
    except BaseException:  # usually a cancelled task
        port.undo_claims(replies)
        raise
    return replies


def _split(batch: Batch) -> Iterator[Sequence[Command[Any]]]:
    """One call for an atomic batch; otherwise as few as a server accepts."""
    rest = list(batch.commands)
    while rest:
        sizes = accumulate(map(_size, rest))
        fits = sum(1 for size in islice(sizes, BATCH_MAX) if size <= CALL_BYTES)
        count = len(rest) if batch.atomic else max(1, fits)
        yield rest[:count]
        del rest[:count]


def _size(command: Command[Any]) -> int:
    """Roughly the bytes it needs in a call."""
    documents = (getattr(command, name, None) for name in ("payload", "metadata", "result"))
    return ROOM_BYTES + sum(len(document) for document in documents if document is not None)


def _to_repeat(commands: Sequence[Command[Any]], replies: Sequence[Any]) -> list[tuple[int, Command[Any]]]:
    """Claims that an earlier attempt of this call made, and that ended before their reply arrived."""
    places = enumerate(commands, len(replies) - len(commands))
    return [(place, one) for place, one in places if isinstance(replies[place], LeaseLost) and _is_unnamed(one)]


def _check_reached(replies: Sequence[Any]) -> None:
    """Raise the fault of a first call only: raising a later one's would lose the claims made before it.

    If a call was refused as a whole, all its replies are the same error.
    """
    first = replies[0] if replies else None
    is_same = len(replies) > 1 and all(reply is first for reply in replies)
    if isinstance(first, OctoStoreError) and (is_same or all(isinstance(reply, Unreachable) for reply in replies)):
        raise first


def _is_unnamed(command: Command[Any]) -> bool:
    return getattr(command, "request_id", "") is None


def _with_request_id(command: Command[Any]) -> Command[Any]:
    return msgspec.structs.replace(command, request_id=new_request_id()) if _is_unnamed(command) else command
