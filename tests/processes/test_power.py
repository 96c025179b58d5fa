"""The power fails in the middle of anything: what was answered was on the disk, and the rest does no harm."""

import signal
from pathlib import Path

import pytest

import octostore
from tests.processes.ledger import Ledger
from tests.support.processes import Worker
from tests.support.soundness import assert_sound

NEVER = 0
LOSES_ALL, KEEPS_SOME = 0, 1
"""What becomes of writes that were not synced: none is on the disk, or some are, whole or in part."""


def operations(tmp_path: Path) -> int:
    """How often a whole life of the worker touches the disk."""
    with Worker("powered", tmp_path / "unharmed.db", NEVER, LOSES_ALL) as worker:
        *acks, lived = worker.rest()
    assert len(acks) == 15
    return int(lived["operations"])


def fail_at(path: Path, operation: int, seed: int) -> int:
    """How much had been acknowledged by then."""
    with Worker("powered", path, operation, seed) as worker:
        acks = worker.rest()
        assert worker.exit_code() == -signal.SIGKILL
    with octostore.connect(f"sqlite:///{path}") as store:
        ledger = Ledger(path)
        ledger.check(acks)
        ledger.check_tokens(acks)
        after = store.claim_job("after").fencing_token
        assert after == len(ledger.log) + 1
    assert_sound(path)
    return len(acks)


def test_nothing_acknowledged_is_lost_when_the_power_fails(tmp_path: Path) -> None:
    points = range(2, operations(tmp_path), 30)
    acknowledged = [fail_at(tmp_path / f"{point}.db", point, point % 2) for point in points]
    assert acknowledged[0] == 0
    assert acknowledged[-1] > 10


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [LOSES_ALL, KEEPS_SOME])
def test_nothing_acknowledged_is_lost_wherever_the_power_fails(tmp_path: Path, seed: int) -> None:
    for point in range(1, operations(tmp_path) + 1):
        fail_at(tmp_path / f"{point}.db", point, seed)
