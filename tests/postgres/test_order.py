"""Readers never miss an event: events become visible in the order of `seq`, whichever process writes them."""

import time
from contextlib import ExitStack

import pytest

from tests.processes.crowd import at_work, stop
from tests.support.postgres_soundness import assert_sound
from tests.support.processes import Worker

WRITERS = 4


def follow_while_others_write(url: str, seconds: float) -> None:
    writers = {f"writer-{number}": (url, "sync") for number in range(WRITERS)}
    with ExitStack() as stack:
        early = stack.enter_context(Worker("follower", url))
        assert early.hear() == "ready"
        with at_work(writers) as workers:
            # This follower has pages to read before it can follow.
            late = stack.enter_context(Worker("follower", url))
            assert late.hear() == "ready"
            time.sleep(seconds)
            stop(workers)
        log = assert_sound(url)
        for follower in (early, late):
            assert follower.ask("until", seq=len(log)) == list(range(1, len(log) + 1))
    assert {entry.actor for entry in log} != set()
    assert len(log) > 20 * WRITERS


def test_every_follower_sees_every_event_once_and_in_order(url: str) -> None:
    follow_while_others_write(url, seconds=1.5)


@pytest.mark.slow
def test_every_follower_sees_every_event_of_a_minute(url: str) -> None:
    follow_while_others_write(url, seconds=60)
