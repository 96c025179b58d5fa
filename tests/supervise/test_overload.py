"""However busy the machine is, no owner writes after another could have its job.

Each owner's last write is compared with the moment at which its lease ended in the log.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.losses import UNPRIVILEGED, WAYS, Owners, busy_machine
from tests.support.running import Served

LOSSES = 500


def check_losses(served: Served, folder: Path, losses: int, *, each: int, ttl: float, prefix: Sequence[str]) -> None:
    owners = Owners(served, folder / "written", each=each, ttl=ttl, prefix=prefix)
    rounds = 0
    while len(lost := owners.lost()) < losses:
        owners.lose_all(WAYS[rounds % len(WAYS)])
        rounds += 1
    worst = sorted(lost, key=lambda one: one.left)
    assert worst[0].left > 0, worst[:5]
    assert Counter(one.job_id.partition("-")[0] for one in lost).keys() == {"run", "work", "hold"}


def test_no_owner_writes_after_another_could_have_its_job(served: Served, tmp_path: Path) -> None:
    check_losses(served, tmp_path, 10, each=1, ttl=3, prefix=())


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("prefix", [(), UNPRIVILEGED], ids=["first", "in line"])
def test_no_owner_writes_too_late_on_a_machine_with_eight_times_its_load(
    served: Served, tmp_path: Path, prefix: Sequence[str]
) -> None:
    if prefix and os.geteuid() != 0:
        pytest.skip("there are no privileges to drop")
    with busy_machine():
        check_losses(served, tmp_path, LOSSES // 2, each=7, ttl=8, prefix=prefix)
