"""The power fails at any point: everything acknowledged was on disk, and the rest does no harm."""

import signal
from collections.abc import Iterable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

import octostore
from tests.processes.ledger import Ledger
from tests.support.embedded import local_store
from tests.support.processes import Worker
from tests.support.soundness import assert_sound, read_contents

LOSES_ALL, KEEPS_SOME = 0, 1
"""What happens to unsynced writes: none reaches the disk, or some do, entirely or in part."""


def fail_at(path: Path, operation: int, seed: int) -> int | None:
    """The number of acknowledged calls by then; None if the worker ends before that operation."""
    with Worker("powered", path, operation, seed) as worker:
        acks = worker.rest()
        if worker.exit_code() == 0:
            return None
        assert worker.exit_code() == -signal.SIGKILL
    with octostore.connect(f"sqlite:///{path}") as store:
        local_store(store).create()  # the power may have failed before the store was created
        ledger = Ledger(partial(read_contents, path))
        ledger.check(acks)
        ledger.check_tokens(acks)
        after = store.claim_job("after").fencing_token
        assert after == len(ledger.log) + 1
    assert_sound(path)
    return len(acks)


def fail_at_each(folder: Path, points: Iterable[int], seed: int) -> list[int]:
    """Fail at each of the points, with a new worker for each."""
    acknowledged = []
    for point in points:
        number = fail_at(folder / f"{point}.db", point, seed)
        if number is None:
            break
        acknowledged.append(number)
    assert acknowledged[0] == 0
    assert acknowledged[-1] > 10
    return acknowledged


@pytest.mark.parametrize("seed", [LOSES_ALL, KEEPS_SOME])
def test_nothing_acknowledged_is_lost_when_the_power_fails(tmp_path: Path, seed: int) -> None:
    assert len(fail_at_each(tmp_path, count(2 + 25 * seed, 50), seed)) >= 6


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [LOSES_ALL, KEEPS_SOME])
def test_nothing_acknowledged_is_lost_wherever_the_power_fails(tmp_path: Path, seed: int) -> None:
    assert len(fail_at_each(tmp_path, count(1), seed)) > 300
