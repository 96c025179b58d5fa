"""A process that is stopped while it holds the lock keeps the others waiting for a while, and not for ever."""

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
"""This machine may be busy with something else."""


@pytest.fixture
def old_url() -> str:
    return new_schema(OLDEST)


@contextmanager
def stopped(url: str, point: str, limit: str = "") -> Iterator[Worker]:
    """It wants the job `wanted`, and stands still in the middle of that. By default the limit is the usual one."""
    with Worker("stopper", url, point, limit) as worker:
        pid = worker.hear()["pid"]
        worker.tell("wanted")
        until(lambda: state_of(pid) == "T")
        yield worker


def waited_ms(store: octostore.OctoStore, job_id: str) -> int:
    """From the last thing that the stopped process has done to the claim on a job; by the database's clock."""
    moments = {event.job_id: event.at for event in store.events() if event.type == "claimed"}
    return round((moments[job_id] - moments["before"]).total_seconds() * 1_000)


@pytest.mark.parametrize("point", ["deciding", "asking", "saving"])
def test_the_others_go_on_without_it(url: str, store: octostore.OctoStore, point: str) -> None:
    """Wherever it stands: while it decides, or where it has begun to ask, or is about to save."""
    with stopped(url, point, "1s") as worker:
        assert store.claim_job("other", "ann").status == "claimed"
        assert store.claim_job("another", "ann").status == "claimed"
        assert waited_ms(store, "other") < 1_000 + A_LITTLE_MS
        worker.signal(signal.SIGCONT)
        answer = worker.hear()
        assert (answer["status"], answer["owner"]) == ("claimed", "stopper")
    claims = [(entry.job_id, entry.seq) for entry in assert_sound(url) if entry.type == "claimed"]
    assert claims == [("before", 1), ("other", 2), ("another", 3), ("wanted", answer["token"])]


def test_the_usual_limit_is_a_few_seconds(url: str, store: octostore.OctoStore) -> None:
    with stopped(url, "deciding"):
        assert store.claim_job("other", "ann").status == "claimed"
        assert waited_ms(store, "other") < STUCK_SECONDS * 1_000 + A_LITTLE_MS


@pytest.mark.xdist_group("old")
@pytest.mark.parametrize("point", ["deciding", "asking", "saving"])
def test_an_older_database_does_without_it_too(old_url: str, point: str) -> None:
    with octostore.connect(old_url) as store, stopped(old_url, point, "1s") as worker:
        assert store.claim_job("other", "ann").status == "claimed"
        assert waited_ms(store, "other") < 1_000 + A_LITTLE_MS
        worker.signal(signal.SIGCONT)
        assert worker.hear()["status"] == "claimed"
    assert [entry.job_id for entry in assert_sound(old_url)] == ["before", "other", "wanted"]


def test_what_it_wanted_may_be_somebody_else_s_by_then(url: str, store: octostore.OctoStore) -> None:
    with stopped(url, "saving", "1s") as worker:
        assert store.claim_job("wanted", "ann").status == "claimed"
        worker.signal(signal.SIGCONT)
        answer = worker.hear()
        assert (answer["status"], answer["owner"]) == ("held", "ann")
        assert worker.ask("something-else")["status"] == "claimed"
    assert [entry.job_id for entry in assert_sound(url)] == ["before", "wanted", "something-else"]


@pytest.mark.parametrize("trip", [b"FOR UPDATE", b"\nCOMMIT\n"], ids=["beginning", "end"])
@pytest.mark.parametrize("part", [0.3, 0.7])
def test_whoever_vanishes_while_it_sends_is_not_waited_for_for_long(
    url: str, monkeypatch: pytest.MonkeyPatch, trip: bytes, part: float
) -> None:
    """Its machine has lost power, say, and nobody tells the database."""
    monkeypatch.setitem(backend.LIMITS, "idle", "1h")
    monkeypatch.setitem(backend.LIMITS, "transaction", "1s")
    with PgProxy(url) as proxy, octostore.connect(proxy.url) as store:
        store.claim_job("before")
        proxy.when(trip, cut_unnoticed_after(part))
        # It has to wait for what it was itself before it vanished.
        reply = store.claim_job("wanted")
        assert proxy.is_idle
        assert waited_ms(store, "wanted") < 1_000 + A_LITTLE_MS
    assert [(entry.job_id, entry.seq) for entry in assert_sound(url)] == [
        ("before", 1),
        ("wanted", reply.fencing_token),
    ]


@pytest.mark.parametrize("point", ["deciding", "asking", "saving"])
def test_when_it_is_killed_the_others_go_on_at_once(url: str, store: octostore.OctoStore, point: str) -> None:
    """However long it could have stood still."""
    with stopped(url, point, "1h") as worker:
        worker.kill()
        assert store.claim_job("wanted", "ann").status == "claimed"
    assert [entry.job_id for entry in assert_sound(url)] == ["before", "wanted"]


def test_reading_does_not_wait_for_it(url: str, store: octostore.OctoStore) -> None:
    with stopped(url, "saving", "1h"):
        assert store.get_job("before").owner == "stopper"
        assert store.get_job("wanted").status == "free"
        assert [event.job_id for event in store.events()] == ["before"]
