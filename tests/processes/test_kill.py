"""`kill -9`, again and again: nothing acknowledged is lost, and every job is recovered."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

import octostore
from tests.processes.ledger import Ack, Ledger, assert_all_recovered
from tests.support.embedded import open_with_clock
from tests.support.processes import Worker
from tests.support.soundness import assert_sound, read_contents
from tests.support.world import START_MS, ManualClock

ROUND_MS = 3_000
"""How much later each worker's clock starts: by then most leases of the previous worker have expired."""


def open_at(path: Path, now_ms: int) -> octostore.OctoStore:
    return open_with_clock(path, ManualClock(now_ms))


def workers(path: Path, number: int) -> Iterator[Worker]:
    """Each starts while the previous one is killed: most of a worker's life is the start of Python."""
    with ExitStack() as stack:
        started = (
            stack.enter_context(Worker("mayhem", path, f"worker-{n}", START_MS + n * ROUND_MS)) for n in range(number)
        )
        ready = next(started)
        for following in started:
            yield ready
            ready = following
        yield ready


def kill_at_a_random_point(worker: Worker, chance: random.Random) -> list[Ack]:
    """Kill it: sometimes while it opens the store, mostly in the middle of its work."""
    worker.tell("go")
    acks = [worker.hear() for _ in range(chance.choice([0, 1, 5, 20, 60]))]
    # This does not wait for anything; it picks the moment.
    time.sleep(chance.uniform(0, 0.004 if acks else 0.030))
    return acks + worker.kill()


def kill_again_and_again(path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    ledger = Ledger(partial(read_contents, path))
    acks: list[Ack] = []
    with open_at(path, START_MS) as store:
        store.enqueue(
            "first", job_id="first", max_attempts=1_000
        )  # creates the file: the first worker may be killed before it does
    for number, worker in enumerate(workers(path, kills)):
        assert worker.hear() == "ready"
        news = kill_at_a_random_point(worker, chance)
        if chance.random() < 0.5:
            # Opening and closing the store tidies it up; otherwise the next worker finds it as the kill left it.
            open_at(path, START_MS + number * ROUND_MS).close()
        ledger.check_tokens(news)
        ledger.check(news)
        acks += news
    ledger.check(acks)
    with open_at(path, START_MS + kills * ROUND_MS + 86_400_000) as store:
        assert_all_recovered(store, ledger)
    assert_sound(path)
    # The test proves something only if all of this happened.
    done = Counter(ack["what"] for ack in acks)
    assert set(done) == {"claimed", "heartbeat", "checkpoint", "ended", "enqueued", "saved", "closed"}, done


def test_nothing_acknowledged_is_lost_when_workers_are_killed(path: Path) -> None:
    kill_again_and_again(path, kills=25, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3])
def test_nothing_acknowledged_is_lost_in_200_kills(path: Path, seed: int) -> None:
    kill_again_and_again(path, kills=200, seed=seed)
