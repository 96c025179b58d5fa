"""A name that nobody has used is reported as unknown, with the names that may have been meant."""

import pytest

from octostore import LeaseLost, NotFound, OctoStore
from tests.conformance.conftest import System

WITH_SYMBOLS = "acme/shop#12:a@b+c=d"


def test_a_name_that_nobody_has_used_is_free_and_not_known(system: System) -> None:
    store = system.store
    store.claim_job("deploy-main", "ann")
    store.enqueue("build", job_id="build-1")
    assert [store.get_job(name).is_known for name in ("deploy-main", "build-1", "deploy-mian")] == [True, True, False]
    unknown = store.get_job("deploy-mian")
    assert (unknown.status, unknown.claim, unknown.created_at) == ("free", None, None)
    assert all(job.is_known for job in store.list_jobs().jobs)


def test_similar_names_are_suggested(system: System) -> None:
    store = system.store
    for name in ("deploy-main", "deploy-staging", "report", "github-issue-1842", WITH_SYMBOLS):
        store.enqueue("build", job_id=name)
    assert similar(store, "deploy-mian")[0] == "deploy-main"
    assert similar(store, "deploy") == ["deploy-main", "deploy-staging"]
    assert similar(store, "github-issue-1824") == ["github-issue-1842"]
    assert similar(store, "reprot") == ["report"]
    assert similar(store, "acme/shop#12") == [WITH_SYMBOLS]
    assert similar(store, "nothing-like-it") == []
    known = store.find_similar("report")
    assert (known.job_id, known.is_known) == ("report", True)


def test_few_of_many_are_suggested(system: System) -> None:
    store = system.store
    store.enqueue_many([{"kind": "build", "job_id": f"build-{number:03}"} for number in range(200)])
    assert similar(store, "build-1") == ["build-100", "build-101", "build-102"]
    assert similar(store, "build-0777")[0] == "build-077"
    assert similar(store, "biuld-077") != []


def test_operators_and_late_owners_learn_that_nobody_has_used_it(system: System) -> None:
    store = system.store
    for operate in (store.requeue, store.cancel, store.discard, store.request_stop, store.force_release):
        with pytest.raises(NotFound, match="nobody has ever claimed or enqueued 'never'") as unknown:
            operate("never")
        assert unknown.value.job_id == "never"
    for write in (
        lambda: store.heartbeat_job("never", "lease"),
        lambda: store.checkpoint_job("never", "lease", 1),
        lambda: store.release_job("never", "lease"),
    ):
        with pytest.raises(LeaseLost, match="nobody has ever claimed this job") as lost:
            write()
        assert (lost.value.job_id, lost.value.ended, lost.value.holder) == ("never", None, None)
    assert list(store.events()) == []


def similar(store: OctoStore, name: str) -> list[str]:
    found = store.find_similar(name)
    assert not found.is_known
    return found.similar
