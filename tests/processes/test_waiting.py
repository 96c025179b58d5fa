"""A waiting caller is woken: by the commit itself in the same process, within 300 ms by another process's."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import octostore
from octostore.stores.wakeups import Topic
from tests.support.embedded import local_store, waiting_threads
from tests.support.processes import Worker, until

PROMISED_SECONDS = 0.3
TRIES = 3
"""The best of these counts: the machine may be busy with something else."""


def claim(store: octostore.OctoStore, job_id: str) -> str:
    reply = store.claim_job(job_id, "first", ttl=600)
    assert reply.lease_id is not None
    return reply.lease_id


# In the same process


def test_a_claim_that_waits_is_woken_by_the_release(store: octostore.OctoStore) -> None:
    local = local_store(store)
    lease_id = claim(store, "job")
    rung_by = []
    topic: Topic = ("job", "job")
    with ThreadPoolExecutor(1) as pool, local.listening([topic], lambda: rung_by.append(threading.current_thread())):
        waiting = pool.submit(store.claim_job, "job", "second", wait=30)
        until(lambda: waiting_threads() == 1)
        assert not waiting.done()
        store.release_job("job", lease_id)
        # Rung before the reply to the release, by the thread that committed it: no polling.
        assert "octostore-writer" in {thread.name for thread in rung_by}
        reply = waiting.result(30)
    assert (reply.status, reply.owner) == ("claimed", "second")


def test_claim_next_that_waits_is_woken_by_enqueue(store: octostore.OctoStore) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.claim_next, "mail", wait=30)
        until(lambda: waiting_threads() == 1)
        store.enqueue("other", queue="parcels")
        store.enqueue("letter", job_id="letter-1", queue="mail")
        reply = waiting.result(30)
    assert (reply.status, reply.job_id) == ("claimed", "letter-1")


def test_one_release_lets_one_waiting_caller_claim_the_job(store: octostore.OctoStore) -> None:
    lease_id = claim(store, "job")
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(store.claim_job, "job", f"waiter-{n}", wait=30) for n in range(4)]
        until(lambda: waiting_threads() == 4)
        owners = set()
        while waiting:
            store.release_job("job", lease_id)
            until(lambda: any(one.done() for one in waiting))
            (winner,) = [one for one in waiting if one.done()]
            waiting.remove(winner)
            reply = winner.result()
            assert reply.status == "claimed"
            assert reply.lease_id is not None
            lease_id = reply.lease_id
            owners.add(reply.owner)
    assert owners == {f"waiter-{n}" for n in range(4)}


def test_a_waiting_caller_gets_unreachable_when_the_store_is_closed(store: octostore.OctoStore) -> None:
    claim(store, "job")
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(store.claim_job, "job", wait=30)
        following = pool.submit(list, store.events(follow=True))
        until(lambda: waiting_threads() == 2)
        store.close()
        for one in (waiting, following):
            with pytest.raises(octostore.Unreachable) as fault:
                one.result(30)
            assert fault.value.reason == "closed"


# From process to process


def test_a_claim_that_waits_is_woken_by_a_release_elsewhere(store: octostore.OctoStore, path: Path) -> None:
    took = []
    with Worker("puppet", path) as here, Worker("puppet", path) as there:
        assert (here.hear(), there.hear()) == ("ready", "ready")
        for number in range(TRIES):
            job_id = f"job-{number}"
            lease_id = claim(store, job_id)
            here.ask("wait", method="claim_job", job_id=job_id, owner="second", wait=30)
            released = there.ask("release_job", job_id=job_id, lease_id=lease_id)
            got = here.hear()
            assert (got["reply"]["status"], got["reply"]["owner"]) == ("claimed", "second")
            took.append(got["at"] - released["began_at"])
            if took[-1] < PROMISED_SECONDS:
                break
    assert min(took) < PROMISED_SECONDS


def test_claim_next_that_waits_is_woken_by_enqueue_elsewhere(path: Path) -> None:
    took = []
    with Worker("puppet", path) as here, Worker("puppet", path) as there:
        assert (here.hear(), there.hear()) == ("ready", "ready")
        for number in range(TRIES):
            here.ask("wait", method="claim_next", owner="second", wait=30)
            enqueued = there.ask("enqueue", kind="letter", job_id=f"letter-{number}")
            got = here.hear()
            assert (got["reply"]["status"], got["reply"]["job_id"]) == ("claimed", f"letter-{number}")
            took.append(got["at"] - enqueued["began_at"])
            if took[-1] < PROMISED_SECONDS:
                break
    assert min(took) < PROMISED_SECONDS


def test_events_elsewhere_are_followed_in_order_and_without_a_gap(store: octostore.OctoStore, path: Path) -> None:
    claim(store, "job")
    took = []
    with Worker("puppet", path) as here, Worker("puppet", path) as there:
        assert (here.hear(), there.hear()) == ("ready", "ready")
        assert here.ask("follow", after=0)["reply"] == 1
        for number in range(TRIES):
            here.ask("wait", method="next_event")
            enqueued = there.ask("enqueue", kind="letter", job_id=f"letter-{number}")
            event = here.hear()
            assert (event["reply"]["seq"], event["reply"]["job_id"]) == (2 + number, f"letter-{number}")
            took.append(event["at"] - enqueued["began_at"])
        there.ask("claim_next", owner="there")
        store.enqueue("letter", job_id="from-here")
        seen = [here.ask("next_event")["reply"] for _ in range(2)]
    assert [(event["seq"], event["type"]) for event in seen] == [(5, "claimed"), (6, "enqueued")]
    assert min(took) < PROMISED_SECONDS


def test_a_claim_that_waits_in_vain_names_the_owner(store: octostore.OctoStore, path: Path) -> None:
    claim(store, "job")
    with Worker("puppet", path) as there:
        assert there.hear() == "ready"
        waited = there.ask("claim_job", job_id="job", wait=0.2)
    assert (waited["reply"]["status"], waited["reply"]["owner"]) == ("held", "first")
    assert waited["at"] - waited["began_at"] >= 0.2
