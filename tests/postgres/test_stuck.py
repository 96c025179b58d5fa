"""A process that is paused while it holds the lock delays the others for a while, not for ever."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import octostore
from octostore.stores.postgres import backend
from octostore.stores.postgres.backend import STUCK_SECONDS
from tests.support.pg_programs import OLDEST
from tests.support.pg_proxy import PgProxy, cut_unnoticed_after
from tests.support.postgres import new_schema
from tests.support.postgres_soundness import assert_sound
from tests.support.processes import Worker, until
from tests.support.running import state_of

A_LITTLE_MS = 10_000
"""The machine may be busy with something else."""


@pytest.fixture
def old_url() -> str:
    return new_schema(OLDEST)


@contextmanager
def paused(url: str, point: str, limit: str = "") -> Iterator[Worker]:
    """A process that is paused while it claims the job `wanted`. Without `limit`, the default applies."""
    with Worker("stopper", url, point, limit) as worker:
        pid = worker.hear()["pid"]
        worker.tell("wanted")
        until(lambda: state_of(pid) == "T")
        yield worker


def waited_ms(store: octostore.OctoStore, job_id: str) -> int:
    """From the paused process's last claim to the claim on `job_id`, by the database's clock."""
    moments = {event.job_id: event.at for event in store.events() if event.type == "claimed"}
    return round((moments[job_id] - moments["before"]).total_seconds() * 1_000)


@pytest.mark.parametrize("point", ["deciding", "asking", "saving"])
def test_the_others_continue_without_it(url: str, store: octostore.OctoStore, point: str) -> None:
    """Wherever it was paused: while deciding, asking for the lock, or about to save."""
    with paused(url, point, "1s") as worker:
        assert store.claim_job("other", "ann").status == "claimed"
        assert store.claim_job("another", "ann").status == "claimed"
        assert waited_ms(store, "other") < 1_000 + A_LITTLE_MS
        worker.signal(signal.SIGCONT)
        reply = worker.hear()
        assert (reply["status"], reply["owner"]) == ("claimed", "stopper")
    claims = [(entry.job_id, entry.seq) for entry in assert_sound(url) if entry.type == "claimed"]
    assert claims == [("before", 1), ("other", 2), ("another", 3), ("wanted", reply["token"])]


def test_the_default_limit_is_a_few_seconds(url: str, store: octostore.OctoStore) -> None:
    with paused(url, "deciding"):
        assert store.claim_job("other", "ann").status == "claimed"
        assert waited_ms(store, "other") < STUCK_SECONDS * 1_000 + A_LITTLE_MS


@pytest.mark.xdist_group("old")
@pytest.mark.parametrize("point", ["deciding", "asking", "saving"])
def test_others_continue_without_it_on_an_older_database_too(old_url: str, point: str) -> None:
    with octostore.connect(old_url) as store, paused(old_url, point, "1s") as worker:
        assert store.claim_job("other", "ann").status == "claimed"
        assert waited_ms(store, "other") < 1_000 + A_LITTLE_MS
        worker.signal(signal.SIGCONT)
        assert worker.hear()["status"] == "claimed"
    assert [entry.job_id for entry in assert_sound(old_url)] == ["before", "other", "wanted"]


def test_another_owner_may_have_its_job_by_then(url: str, store: octostore.OctoStore) -> None:
    with paused(url, "saving", "1s") as worker:
        assert store.claim_job("wanted", "ann").status == "claimed"
        worker.signal(signal.SIGCONT)
        reply = worker.hear()
        assert (reply["status"], reply["owner"]) == ("held", "ann")
        assert worker.ask("something-else")["status"] == "claimed"
    assert [entry.job_id for entry in assert_sound(url)] == ["before", "wanted", "something-else"]


@pytest.mark.parametrize("trip", [b"FOR UPDATE", b"\nCOMMIT\n"], ids=["beginning", "end"])
@pytest.mark.parametrize("part", [0.3, 0.7])
def test_a_client_that_vanishes_while_sending_does_not_block_others_for_long(
    url: str, monkeypatch: pytest.MonkeyPatch, trip: bytes, part: float
) -> None:
    """For example, its machine has lost power, and the database does not notice."""
    monkeypatch.setitem(backend.LIMITS, "idle", "1h")
    monkeypatch.setitem(backend.LIMITS, "transaction", "1s")
    with PgProxy(url) as proxy, octostore.connect(proxy.url) as store:
        store.claim_job("before")
        proxy.when(trip, cut_unnoticed_after(part))
        # It has to wait for its own vanished connection.
        reply = store.claim_job("wanted")
        assert proxy.is_idle
        assert waited_ms(store, "wanted") < 1_000 + A_LITTLE_MS
    assert [(entry.job_id, entry.seq) for entry in assert_sound(url)] == [
        ("before", 1),
        ("wanted", reply.fencing_token),
    ]


@pytest.mark.parametrize("point", ["deciding", "asking", "saving"])
def test_when_it_is_killed_the_others_continue_at_once(url: str, store: octostore.OctoStore, point: str) -> None:
    """However long the limit is."""
    with paused(url, point, "1h") as worker:
        worker.kill()
        assert store.claim_job("wanted", "ann").status == "claimed"
    assert [entry.job_id for entry in assert_sound(url)] == ["before", "wanted"]


def test_reading_does_not_wait_for_it(url: str, store: octostore.OctoStore) -> None:
    with paused(url, "saving", "1h"):
        assert store.get_job("before").owner == "stopper"
        assert store.get_job("wanted").status == "free"
        assert [event.job_id for event in store.events()] == ["before"]
