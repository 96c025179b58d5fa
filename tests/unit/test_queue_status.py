"""What a queue's status says, and how, whichever of its jobs a transaction has loaded."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.commands import ClaimNext, Enqueue, ReleaseJob
from octostore.core.model import Claim, Job, Status
from octostore.core.needs import Needs
from octostore.core.queue_status import queue_status
from octostore.core.queue_words import queue_in_words
from octostore.core.replies import QueueStatus
from octostore.core.working_set import WorkingSet
from octostore.stores.memory import MemoryRows
from tests.support.world import World

NOW = 1_000
NOTHING = QueueStatus(
    queue="ci",
    all_done=True,
    ready=0,
    later=0,
    available_at=None,
    claimed=0,
    owners=[],
    dead=0,
    done=0,
    max_claimed=None,
    counted_to=100,
)


def job(name: str, status: Status, owner: str, **more: Any) -> Job:
    claim = Claim(owner, "local", 1, 60_000, 0, NOW, NOW, NOW + 60_000, None, None) if status == "claimed" else None
    return Job(name, status, claim=claim, **more)


jobs = st.builds(
    job,
    st.text("ab/", min_size=1, max_size=3),
    st.sampled_from(["queued", "claimed", "done", "dead"]),
    st.sampled_from(["ann", "bob", "eve", "joe", "kim", "lou", "max"]),
    queue=st.sampled_from(["ci", "other", None]),
    kind=st.sampled_from(["build", "test"]),
    available_at=st.integers(NOW - 2, NOW + 2),
)
several = st.lists(jobs, max_size=30, unique_by=lambda job: job.job_id)
selections = st.tuples(st.sampled_from([None, ("build",), ("build", "test")]), st.sampled_from(["", "a", "a/"]))


@given(several, st.sets(st.text("ab/", min_size=1, max_size=3)), selections)
def test_the_status_does_not_depend_on_what_is_loaded(
    stored: list[Job], loaded: set[str], selection: tuple[tuple[str, ...] | None, str]
) -> None:
    rows = MemoryRows()
    rows.jobs = {one.job_id: one for one in stored}
    some, none = WorkingSet(now=NOW, seq=1), WorkingSet(now=NOW, seq=1)
    rows.load(some, Needs(jobs=loaded, sweep_limit=0))
    rows.load(none, Needs(sweep_limit=0))
    status = queue_status(some, "ci", selection)
    assert status == queue_status(none, "ci", selection)
    kinds, prefix = selection
    here = [one for one in stored if one.queue == "ci" and one.job_id.startswith(prefix)]
    wanted = [one.status for one in here if kinds is None or one.kind in kinds]
    assert status.all_done == (not {"queued", "claimed"}.intersection(wanted))
    assert status.ready + status.later == wanted.count("queued")
    assert (status.available_at is not None) == (status.later > 0)
    assert (status.claimed, bool(status.owners)) == (wanted.count("claimed"), "claimed" in wanted)
    assert status.dead + status.done == sum(one.status in {"dead", "done"} for one in here)


def test_counts_stop_at_a_hundred() -> None:
    world = World()
    world.batch([Enqueue(job_id=f"job-{number}", kind="k") for number in range(101)])
    for _ in range(101):
        claim = world.do(ClaimNext(owner="ann"))
        world.do(ReleaseJob(job_id=claim.job_id or "", lease_id=claim.lease_id or "", outcome="done"))
    status = world.do(ClaimNext(owner="ann")).queue_status
    assert status is not None
    assert (status.done, queue_in_words(status)) == (100, "every job in queue default is done or dead: 100+ done")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "there are no jobs in queue ci, not even finished ones; check its name"),
        ({"done": 14, "dead": 2}, "every job in queue ci is done or dead: 14 done, 2 dead"),
        (
            {"claimed": 3, "owners": ["ann", "bob"], "all_done": False},
            "nothing to claim in queue ci now: 3 claimed by ann, bob, …",
        ),
        (
            {"later": 2, "available_at": datetime(2026, 7, 1, 10, 1, tzinfo=UTC), "dead": 1, "all_done": False},
            "nothing to claim in queue ci now: 2 due later (the first at 2026-07-01 10:01:00 UTC), 1 dead",
        ),
        (
            {"ready": 100, "claimed": 1, "owners": ["ann"], "max_claimed": 1, "all_done": False},
            "nothing to claim in queue ci now: 100+ ready (only 1 may be claimed at once), 1 claimed by ann",
        ),
    ],
)
def test_a_status_in_words(changes: dict[str, object], words: str) -> None:
    assert queue_in_words(msgspec.structs.replace(NOTHING, **changes)) == words


def test_a_status_of_some_kinds_in_words() -> None:
    assert (
        queue_in_words(msgspec.structs.replace(NOTHING, kinds=["build", "test"]))
        == "nothing of kind build or test is left in queue ci"
    )
    assert queue_in_words(msgspec.structs.replace(NOTHING, done=3, kinds=["build"])).endswith(
        "is left in queue ci (3 done in all)"
    )
