"""One writer commits for all callers: a failure of one does not affect the others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore
from octostore.core.commands import ClaimJob
from octostore.core.replies import ClaimReply
from octostore.stores.store import LocalStore
from tests.support.embedded import local_store
from tests.support.processes import Worker
from tests.support.soundness import assert_sound


class Unknown(ClaimJob, frozen=True, kw_only=True):
    """A command without a rule: a bug, as the writer sees it."""


class Batch:
    """Commands submitted in the block are committed in one transaction: until its end another process has the lock."""

    def __init__(self, store: octostore.OctoStore, stuck: Worker) -> None:
        self.local: LocalStore = local_store(store)
        self._stuck = stuck

    def __enter__(self) -> LocalStore:
        self._stuck.ask("lock")
        # The writer takes this one and waits for the lock; everything submitted now is the next batch.
        self.local.submit([ClaimJob(job_id="first", owner="test")])
        return self.local

    def __exit__(self, *_: object) -> None:
        self._stuck.ask("unlock")


@pytest.fixture
def batch(store: octostore.OctoStore, path: Path) -> Iterator[Batch]:
    with Worker("puppet", path) as stuck:
        assert stuck.hear() == "ready"
        yield Batch(store, stuck)


def claim(job_id: str) -> ClaimJob:
    return ClaimJob(job_id=job_id, owner="test")


def status(reply: object) -> str:
    assert isinstance(reply, ClaimReply)
    return reply.status


def test_waiting_commands_are_committed_together(batch: Batch, store: octostore.OctoStore) -> None:
    with batch as local:
        pending = [local.submit([claim(f"job-{n}")]) for n in range(20)]
    assert [status(reply) for replies in pending for reply in replies.result(30)] == ["claimed"] * 20
    moments = {event.at for event in store.events() if event.job_id != "first"}
    assert len(moments) == 1


def test_a_bug_in_one_command_fails_only_its_caller(batch: Batch, path: Path) -> None:
    with batch as local:
        before = local.submit([claim("before")])
        broken = local.submit([Unknown(job_id="broken", owner="test")])
        also_broken = local.submit([claim("beside"), Unknown(job_id="broken", owner="test")])
        after = local.submit([claim("after"), claim("after")])
    assert [status(one) for one in before.result(30)] == ["claimed"]
    assert [status(one) for one in after.result(30)] == ["claimed", "held"]
    for replies in (broken, also_broken):
        with pytest.raises(KeyError):
            replies.result(30)
    assert [status(one) for one in local.submit([claim("later")]).result(30)] == ["claimed"]
    # Commands submitted together succeed or fail together: the one beside a broken command was not executed.
    assert [entry.job_id for entry in assert_sound(path)] == ["first", "before", "after", "later"]


def test_a_refusal_in_a_batch_reaches_only_its_caller(batch: Batch, path: Path) -> None:
    with batch as local:
        before = local.submit([claim("before")])
        refused = local.submit([ClaimJob(job_id="job", owner="test", session_id="nobody")])
        after = local.submit([claim("after")])
    assert status(before.result(30)[0]) == "claimed"
    assert isinstance(refused.result(30)[0], octostore.NotFound)
    assert status(after.result(30)[0]) == "claimed"
    assert [entry.job_id for entry in assert_sound(path)] == ["first", "before", "after"]


def test_a_caller_that_stops_waiting_does_not_stop_the_writer(batch: Batch, path: Path) -> None:
    with batch as local:
        before = local.submit([claim("before")])
        cancelled = local.submit([claim("cancelled")])
        after = local.submit([claim("after")])
        cancelled.cancel()
    assert status(before.result(30)[0]) == "claimed"
    assert status(after.result(30)[0]) == "claimed"
    assert status(local.submit([claim("later")]).result(30)[0]) == "claimed"
    jobs = [entry.job_id for entry in assert_sound(path)]
    assert [job for job in jobs if job != "cancelled"] == ["first", "before", "after", "later"]


def test_a_reply_that_cannot_be_delivered_does_not_stop_the_writer(batch: Batch, path: Path) -> None:
    def gone(_outcome: object) -> None:
        raise RuntimeError("nobody is there")

    with batch as store:
        store.submit_to([ClaimJob(job_id="a", owner="gone")], gone)
        neighbour = store.submit([ClaimJob(job_id="b", owner="test")])
    assert [reply.status for reply in neighbour.result(30)] == ["claimed"]
    assert [reply.status for reply in store.submit([ClaimJob(job_id="a", owner="test")]).result(30)] == ["held"]
    assert_sound(path)


def test_commands_submitted_before_the_store_was_closed_are_executed(batch: Batch, path: Path) -> None:
    with batch as local:
        pending = [local.submit([claim(f"job-{n}")]) for n in range(5)]
    local.close()
    assert all(replies.done() for replies in pending)
    with pytest.raises(octostore.Unreachable) as fault:
        local.submit([claim("too-late")])
    assert fault.value.reason == "closed"
    assert len(assert_sound(path)) == 6
