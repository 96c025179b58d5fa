"""Several commands in several calls: what was answered before a fault is told all the same."""

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


def carry_out_with(answers: list[list[Any]], batch: Batch, *, is_async: bool) -> list[Any]:
    """By a port that gives `answers` to one call after the other."""
    calls = iter(answers)

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
def test_what_was_answered_is_told_though_the_rest_is_not(is_async: bool) -> None:
    answers = ["claimed"] * BATCH_MAX, [GONE] * 2
    assert carry_out_with(list(answers), batch_of(BATCH_MAX + 2), is_async=is_async) == [*answers[0], *answers[1]]
    with pytest.raises(Unreachable):
        carry_out_with([[GONE] * 2], batch_of(2), is_async=is_async)


@pytest.mark.parametrize("is_async", [False, True])
def test_what_has_to_be_repeated_and_fails_does_not_take_the_others_along(is_async: bool) -> None:
    assert carry_out_with([[LOST, "claimed"], [GONE]], batch_of(2), is_async=is_async) == [GONE, "claimed"]
