"""Batches that take several calls: replies from before a fault are returned all the same."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from octostore.client.batching import run_batch, run_batch_async
from octostore.core.commands import Batch, ClaimJob, Command
from octostore.core.errors import LeaseLost, Unreachable
from octostore.core.limits import BATCH_MAX

GONE = Unreachable("gone", reason="network")
LOST = LeaseLost("job-0", "it has ended")


def batch_of(count: int) -> Batch:
    return Batch([ClaimJob(job_id=f"job-{number}", owner="me") for number in range(count)], atomic=count <= BATCH_MAX)


def run_on_port(replies: list[list[Any]], batch: Batch, *, is_async: bool) -> list[Any]:
    """Run `batch` on a port whose calls return `replies`, one after the other."""
    calls = iter(replies)

    def execute_all(_commands: Sequence[Command[Any]], *, atomic: bool) -> list[Any]:
        assert atomic == (len(batch.commands) <= BATCH_MAX)
        return next(calls)

    async def execute_all_async(commands: Sequence[Command[Any]], *, atomic: bool) -> list[Any]:
        return execute_all(commands, atomic=atomic)

    if is_async:
        port: Any = SimpleNamespace(execute_all=execute_all_async, undo_claims=len)
        return asyncio.run(run_batch_async(port, batch))
    return run_batch(cast("Any", SimpleNamespace(execute_all=execute_all)), batch)


@pytest.mark.parametrize("is_async", [False, True])
def test_earlier_replies_are_returned_when_a_later_call_fails(is_async: bool) -> None:
    replies = ["claimed"] * BATCH_MAX, [GONE] * 2
    assert run_on_port(list(replies), batch_of(BATCH_MAX + 2), is_async=is_async) == [*replies[0], *replies[1]]
    with pytest.raises(Unreachable):
        run_on_port([[GONE] * 2], batch_of(2), is_async=is_async)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_repeated_command_that_fails_does_not_affect_the_others(is_async: bool) -> None:
    assert run_on_port([[LOST, "claimed"], [GONE]], batch_of(2), is_async=is_async) == [GONE, "claimed"]
