"""An owner that waits for something, or follows the log, learns at once what others do to its claims."""

import threading
from pathlib import Path

import pytest

import octostore
from octostore.client import heartbeater
from tests.support.embedded import waiting_threads
from tests.support.processes import PATIENCE_SECONDS, Worker, until

DAY = 86_400


@pytest.fixture(autouse=True)
def no_heartbeat_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a notification can bring the news within a test."""
    monkeypatch.setattr(heartbeater, "BEAT_MAX_SECONDS", DAY)


def test_another_processs_commands_arrive_while_a_call_waits_here(store: octostore.OctoStore, path: Path) -> None:
    waiting = threading.Thread(target=store.claim_next, args=("never",), kwargs={"wait": PATIENCE_SECONDS})
    with Worker("puppet", path) as operator, store.hold("job", ttl=DAY) as claim:
        assert operator.hear() == "ready"
        waiting.start()
        until(lambda: waiting_threads() == 1)
        operator.ask("request_stop", job_id="job", reason="going down")
        assert claim.stop_requested.wait(PATIENCE_SECONDS)
        assert claim.stop_reason == "going down"
        operator.ask("cancel", job_id="job", reason="not needed")
        assert claim.lost.wait(PATIENCE_SECONDS)
        claim.let_expire()
    store.enqueue("end", queue="never")
    waiting.join(PATIENCE_SECONDS)


def test_this_processs_own_commands_arrive_at_once(store: octostore.OctoStore) -> None:
    with store.hold("job", ttl=DAY) as claim:
        store.request_stop("job")
        assert claim.stop_requested.wait(PATIENCE_SECONDS)
    assert [event.type for event in store.events(job_id="job")] == [
        "claimed",
        "stop_requested",
        "stop_delivered",
        "released",
    ]
