"""The jobs of a queue in the order they will run, page by page."""

from datetime import UTC, datetime, timedelta

import pytest

from octostore import InvalidInput, OctoStore
from octostore.core.model import Status
from tests.conformance.conftest import System
from tests.support.world import START_MS

NOW = datetime.fromtimestamp(START_MS / 1_000, UTC)
IN_ORDER = ["b-urgent", "c-first", "a-second", "e-soon", "d-later", "f-held", "g-dead", "h-done", "i-done"]


@pytest.fixture
def queue(store: OctoStore) -> str:
    """A queue whose jobs do not run in the order of their names."""
    store.enqueue("k", job_id="f-held", queue="ci", priority=0)
    store.claim_next("ci", owner="ann", ttl=86_400)
    for name in ("h-done", "i-done"):
        store.enqueue("k", job_id=name, queue="ci", priority=0)
        store.release_job(name, store.claim_next("ci").lease_id or "", outcome="done")
    store.enqueue("k", job_id="d-later", queue="ci", priority=0, run_at=NOW + timedelta(hours=2))
    store.enqueue("k", job_id="e-soon", queue="ci", priority=9, run_at=NOW + timedelta(hours=1))
    store.enqueue("k", job_id="c-first", queue="ci")
    store.enqueue("k", job_id="a-second", queue="ci")
    store.enqueue("k", job_id="b-urgent", queue="ci", priority=1)
    store.enqueue("k", job_id="g-dead", queue="ci")
    store.cancel("g-dead")
    store.enqueue("k", job_id="elsewhere", queue="other")
    return "ci"


def listed(
    store: OctoStore, queue: str, limit: int, status: Status | None = None, prefix: str | None = None
) -> list[str]:
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = store.list_jobs(prefix, status=status, queue=queue, limit=limit, cursor=cursor, order="run")
        names += [job.job_id for job in page.jobs]
        if page.cursor is None:
            return names
        cursor = page.cursor


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_every_job_of_a_queue_is_listed_in_run_order(store: OctoStore, queue: str, limit: int) -> None:
    assert listed(store, queue, limit) == IN_ORDER


def test_jobs_run_in_that_order(system: System, queue: str) -> None:
    expected = [job for job in IN_ORDER if job in listed(system.store, queue, 2, status="queued")]
    ran = [system.store.claim_next(queue, ttl=86_400).job_id for _ in range(3)]
    for _ in range(2):
        system.advance(3_600)
        ran.append(system.store.claim_next(queue, ttl=86_400).job_id)
    assert ran == expected


def test_jobs_in_run_order_are_filtered(store: OctoStore, queue: str) -> None:
    assert listed(store, queue, 2, status="queued") == IN_ORDER[:5]
    assert listed(store, queue, 1, status="done") == ["h-done", "i-done"]
    assert listed(store, queue, 1, prefix="d-") == ["d-later"]
    assert listed(store, queue, 1, prefix="c") == ["c-first"]
    assert listed(store, "unused", 1) == []


def test_a_page_starts_where_the_last_one_ended(system: System, queue: str) -> None:
    """Whatever happened to the last job since, and even if later jobs have become due."""
    store = system.store
    first = store.list_jobs(queue=queue, order="run", limit=4)
    assert [job.job_id for job in first.jobs] == IN_ORDER[:4]
    system.advance(7_200)
    store.cancel("e-soon")
    rest = store.list_jobs(queue=queue, order="run", cursor=first.cursor)
    assert [job.job_id for job in rest.jobs] == ["d-later", "f-held", "e-soon", "g-dead", "h-done", "i-done"]


def test_an_expired_owner_is_not_listed(system: System, queue: str) -> None:
    """Its job is queued, even before that is recorded."""
    system.advance(86_400)
    (held,) = [job for job in system.store.list_jobs(queue=queue, order="run").jobs if job.job_id == "f-held"]
    assert (held.status, held.owner, held.last_outcome) == ("queued", None, "expired")
    in_line = ["d-later", "b-urgent", "c-first", "a-second", "e-soon", "f-held"]
    assert listed(system.store, queue, 2, status="queued") == in_line
    assert listed(system.store, queue, 1, status="claimed") == []


@pytest.mark.parametrize(
    "cursor", ["job", "1,ready,1,2", "1,free,x", "x,ready,1,2,3", "1,done,", "1,ready,1,2,9e9", ",,"]
)
def test_other_cursors_are_refused(store: OctoStore, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        store.list_jobs(queue="ci", order="run", cursor=cursor)


def test_run_order_needs_a_queue(store: OctoStore) -> None:
    with pytest.raises(InvalidInput, match="order"):
        store.list_jobs(order="run")
    with pytest.raises(InvalidInput, match="order"):
        store.list_jobs(queue="ci", order="age")  # type: ignore[arg-type]
