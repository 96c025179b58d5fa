"""Jobs of a queue under a prefix are claimed in order, whatever part of the queue a store loads."""

import random
from itertools import product

import pytest

from octostore.core.commands import AnyCommand, ClaimJob, ClaimNext, Enqueue
from tests.support.world import START_MS, World

KINDS: list[tuple[str, ...] | None] = [None, ("build",), ("test", "build")]
PREFIXES = ["", "x", "x/1"]


@pytest.mark.parametrize("seed", range(3))
def test_each_selection_of_a_line_is_in_order_however_many_are_claimed_at_once(world: World, seed: int) -> None:
    chance = random.Random(seed)
    for number, (kinds, prefix, size) in enumerate(product(KINDS, PREFIXES, (1, 3))):
        queue = f"queue-{number}"
        due = []
        for job in range(25):
            team, kind = chance.choice("xy"), chance.choice(["build", "test", "other"])
            priority, offset = chance.randint(1, 3), chance.randint(-3, 1)
            job_id = f"{team}/{job}-{number}"
            world.do(
                Enqueue(job_id=job_id, kind=kind, queue=queue, priority=priority, run_at=START_MS + offset * 1_000)
            )
            if offset <= 0 and (kinds is None or kind in kinds) and job_id.startswith(prefix):
                due.append((priority, offset, job, job_id))
        expected = [job_id for *_, job_id in sorted(due)]
        claimed: list[str] = []
        while len(claimed) < len(expected):
            # The last in line is claimed by name.
            by_name: list[AnyCommand] = [ClaimJob(job_id=expected.pop(), owner="other")]
            nexts = [ClaimNext(owner="w", queue=queue, kinds=kinds, prefix=prefix) for _ in range(size)]
            replies = world.batch([*by_name, *nexts])[1:]
            first = [reply.job_id for reply in replies if reply.status == "claimed"]
            assert first == expected[len(claimed) : len(claimed) + size]
            claimed += first
