"""Waiting claims over HTTP: in order, woken at once, never granted to a client that left; and how the server stops."""

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.connections import Connection
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.server import ServerProcess
from tests.support.starting import UNHURRIED

WAIT_SECONDS = 60
"""Longer than tests are patient: a waiter that is not woken fails its test."""


class Waiter:
    """A waiting claim on its own connection, which is in line when the constructor returns."""

    def __init__(self, server: ServerProcess, path: str, *, token: str | None = None, **terms: Any) -> None:
        before = waiting(server)
        self._connection = Connection(server.port)
        body = {"wait_seconds": WAIT_SECONDS, **terms}
        self._connection.request("POST", path, body, token=token or server.token)
        until(lambda: waiting(server) == before + 1)

    def reply(self, status: int = 200) -> Any:
        try:
            response = self._connection.response()
        finally:
            self._connection.close()
        assert response.status == status, response
        return response.json

    def disconnect(self) -> None:
        self._connection.close()

    def reply_or_disconnect(self) -> Any:
        """Disconnect, and return the reply if the server had already sent it, or else None."""
        self._connection.socket.shutdown(socket.SHUT_WR)
        received = self._connection.everything()
        self._connection.close()
        return json.loads(received.partition(b"\r\n\r\n")[2]) if received else None


def waiting(server: ServerProcess) -> int:
    lines = server.get("/metrics").body.decode().splitlines()
    return int(float(next(line for line in lines if line.startswith("octostore_waiting_claims ")).split()[1]))


def claim(server: ServerProcess, job_id: str, **terms: Any) -> Any:
    return server.post(f"/jobs/{job_id}/claim", terms).json


def release(server: ServerProcess, reply: Any) -> None:
    response = server.post(f"/jobs/{reply['job_id']}/release", {"lease_id": reply["lease_id"]})
    assert response.status == 200, response


def owners(server: ServerProcess, job_id: str) -> list[str]:
    """All owners of the job so far, in order."""
    return [event["data"]["owner"] for event in server.events(job_id) if event["type"] == "claimed"]


# Waking


def test_a_release_wakes_the_waiter_at_once(server: ServerProcess) -> None:
    held = claim(server, "released")
    waiter = Waiter(server, "/jobs/released/claim", owner="waiter")
    release(server, held)
    reply = waiter.reply()
    assert (reply["status"], reply["owner"], reply["replayed"]) == ("claimed", "waiter", False)
    assert [attempt["how"] for attempt in reply["previous"]] == ["released"]


def test_an_expiry_wakes_the_waiter_when_it_happens(server: ServerProcess) -> None:
    dead = claim(server, "expired", owner="dead", ttl_seconds=1)
    waiter = Waiter(server, "/jobs/expired/claim", owner="heir")
    reply = waiter.reply()
    assert (reply["status"], [attempt["how"] for attempt in reply["previous"]]) == ("claimed", ["expired"])
    assert datetime.fromisoformat(reply["claimed_at"]) >= datetime.fromisoformat(dead["expires_at"])


def test_an_enqueued_job_wakes_a_worker_at_once(server: ServerProcess) -> None:
    worker = Waiter(server, "/queues/builds/claim", owner="worker", kinds=["build"])
    server.post("/jobs", {"kind": "lint", "queue": "builds"})
    server.post("/jobs", {"kind": "build", "queue": "builds", "job_id": "build-1"})
    reply = worker.reply()
    assert (reply["status"], reply["job_id"]) == ("claimed", "build-1")


def test_a_job_that_becomes_due_wakes_a_worker(server: ServerProcess) -> None:
    due = datetime.now(UTC) + timedelta(seconds=0.7)
    server.post("/jobs", {"kind": "k", "queue": "scheduled", "job_id": "due", "run_at": due.isoformat()})
    worker = Waiter(server, "/queues/scheduled/claim")
    reply = worker.reply()
    assert reply["job_id"] == "due"
    assert datetime.fromisoformat(reply["claimed_at"]) >= due - timedelta(milliseconds=1)  # the store's precision


def test_another_process_on_the_same_store_wakes_the_waiter(server: ServerProcess) -> None:
    held = claim(server, "shared")
    waiter = Waiter(server, "/jobs/shared/claim")
    with ServerProcess(server.home) as other:
        release(other, held)
        assert waiter.reply()["status"] == "claimed"


def test_a_wait_that_times_out_gets_the_same_reply_as_no_wait(server: ServerProcess) -> None:
    held = claim(server, "patience", owner="holder", ttl_seconds=60)
    started = time.monotonic()
    reply = claim(server, "patience", wait_seconds=0.3)
    assert time.monotonic() - started >= 0.3
    assert (reply["status"], reply["owner"]) == ("held", "holder")
    assert reply["expires_at"] == held["expires_at"]
    empty = server.post("/queues/nothing/claim", {"wait_seconds": 0.2}).json
    assert empty["status"] == "empty"


@pytest.mark.parametrize("seconds", [60.1, -0.1])
def test_a_wait_is_at_most_a_minute(server: ServerProcess, seconds: float) -> None:
    for path in ("/jobs/too-long/claim", "/queues/too-long/claim"):
        reply = server.post(path, {"wait_seconds": seconds})
        assert (reply.status, reply.json["code"]) == (400, "invalid_input")


def test_a_claim_of_a_done_job_does_not_wait(server: ServerProcess) -> None:
    done = claim(server, "finished")
    server.post("/jobs/finished/release", {"lease_id": done["lease_id"], "outcome": "done", "result": 7})
    reply = claim(server, "finished", wait_seconds=30)
    assert (reply["status"], reply["result"]) == ("done", 7)


# The line


def test_waiters_get_the_job_in_order_of_arrival(server: ServerProcess) -> None:
    held = claim(server, "line", owner="first")
    waiters = [Waiter(server, "/jobs/line/claim", owner=f"waiter-{number}") for number in range(5)]
    for waiter in waiters:
        release(server, held)
        held = waiter.reply()
        assert held["status"] == "claimed"
    assert owners(server, "line") == ["first", *(f"waiter-{number}" for number in range(5))]


def test_workers_get_jobs_in_order_of_arrival(server: ServerProcess) -> None:
    workers = [Waiter(server, "/queues/ordered/claim", owner=f"worker-{number}") for number in range(3)]
    for number in range(3):
        server.post("/jobs", {"kind": "k", "queue": "ordered", "job_id": f"ordered-{number}"})
    replies = [worker.reply() for worker in workers]
    assert [(reply["owner"], reply["job_id"]) for reply in replies] == [
        (f"worker-{number}", f"ordered-{number}") for number in range(3)
    ]


def test_a_waiter_that_repeats_its_request_in_time_keeps_its_position(server: ServerProcess) -> None:
    held = claim(server, "place", owner="first")
    early = Waiter(server, "/jobs/place/claim", owner="early", request_id="early", wait_seconds=0.5)
    late = Waiter(server, "/jobs/place/claim", owner="late")
    assert early.reply()["status"] == "held"
    early = Waiter(server, "/jobs/place/claim", owner="early", request_id="early")
    release(server, held)
    held = early.reply()
    assert held["status"] == "claimed"
    release(server, held)
    assert late.reply()["status"] == "claimed"
    assert owners(server, "place") == ["first", "early", "late"]


def test_a_repeat_of_a_granted_claim_does_not_wait(server: ServerProcess) -> None:
    mine = claim(server, "mine", request_id="mine")
    other = Waiter(server, "/jobs/mine/claim", owner="other")
    again = claim(server, "mine", request_id="mine", wait_seconds=WAIT_SECONDS)
    assert (again["status"], again["replayed"], again["lease_id"]) == ("claimed", True, mine["lease_id"])
    release(server, mine)
    assert other.reply()["status"] == "claimed"


# Clients that disconnect


def test_a_client_that_disconnected_never_gets_the_job(server: ServerProcess) -> None:
    held = claim(server, "gone", owner="first")
    gone = Waiter(server, "/jobs/gone/claim", owner="gone")
    after = Waiter(server, "/jobs/gone/claim", owner="after")
    gone.disconnect()
    until(lambda: waiting(server) == 1)
    release(server, held)
    assert after.reply()["status"] == "claimed"
    assert owners(server, "gone") == ["first", "after"]


def test_a_client_that_disconnects_at_the_release_does_not_keep_the_job(server: ServerProcess) -> None:
    for number in range(20):
        job_id = f"moment-{number}"
        held = claim(server, job_id, owner="first")
        waiter = Waiter(server, f"/jobs/{job_id}/claim", owner="gone")
        with ThreadPoolExecutor() as at_once:
            gone = at_once.submit(waiter.reply_or_disconnect)
            release(server, held)
        if (in_time := gone.result()) is not None:
            release(server, in_time)
        reply = claim(server, job_id, owner="next", wait_seconds=5)
        assert reply["status"] == "claimed", reply
        until(lambda: waiting(server) == 0)
        assert server.get(f"/jobs/{job_id}").json["owner"] == "next"


def test_a_worker_that_disconnects_at_the_enqueue_loses_no_job(server: ServerProcess) -> None:
    for number in range(20):
        worker = Waiter(server, "/queues/moments/claim", owner="gone")
        with ThreadPoolExecutor() as at_once:
            gone = at_once.submit(worker.reply_or_disconnect)
            server.post("/jobs", {"kind": "k", "queue": "moments", "job_id": f"work-{number}"})
        reply = gone.result() or server.post("/queues/moments/claim", {"wait_seconds": 5}).json
        assert (reply["status"], reply["job_id"]) == ("claimed", f"work-{number}")
        assert reply["attempt"] == 1, "the lost claim does not count"
        until(lambda: waiting(server) == 0)


def test_a_repeat_keeps_the_claim_when_the_first_request_disconnects(server: ServerProcess) -> None:
    for number in range(20):
        job_id = f"retried-{number}"
        held = claim(server, job_id, owner="first")
        lost = Waiter(server, f"/jobs/{job_id}/claim", owner="me", request_id=job_id)
        again = Waiter(server, f"/jobs/{job_id}/claim", owner="me", request_id=job_id)
        disconnecting = threading.Thread(target=lost.disconnect)
        disconnecting.start()
        release(server, held)
        disconnecting.join()
        mine = again.reply()
        assert mine["status"] == "claimed"
        until(lambda: waiting(server) == 0)
        heartbeat = server.post(f"/jobs/{job_id}/heartbeat", {"lease_id": mine["lease_id"]})
        assert heartbeat.status == 200, "the reply was true"


# Stopping


@pytest.fixture
def stopping(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server without timeouts, for tests that stop it."""
    with ServerProcess(tmp_path, "--request-seconds", "600", "--idle-seconds", "600", program=UNHURRIED) as process:
        yield process
        process.check_has_not_failed()


def half_a_claim(server: ServerProcess, job_id: str) -> Connection:
    connection = server.connect()
    connection.send(
        f"POST /jobs/{job_id}/claim HTTP/1.1\r\nHost: localhost\r\n"
        f'Authorization: Bearer {server.token}\r\nContent-Length: 16\r\n\r\n{{"owner":'.encode()
    )
    until(lambda: _is_listened_to(server))
    return connection


def _is_listened_to(server: ServerProcess) -> bool:
    """Connections are accepted in order, so earlier ones have been accepted too."""
    return server.get("/livez").status == 200


def _refuses(server: ServerProcess) -> bool:
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_stop_first_replies_to_all_callers(stopping: ServerProcess, sign: signal.Signals) -> None:
    server = stopping
    claim(server, "held", owner="holder")
    waiters = [Waiter(server, "/jobs/held/claim"), Waiter(server, "/queues/empty/claim")]
    events, watch = server.stream("/events?after=0"), server.stream("/locks/held/watch")
    with events, watch, half_a_claim(server, "under-way") as under_way:
        server.process.send_signal(sign)
        assert [waiter.reply()["status"] for waiter in waiters] == ["held", "empty"]
        assert [frame.event for frame in events.rest()] == ["token_created", "claimed"]
        assert [frame.data["event"] for frame in watch.rest()] == ["acquired"]
        assert server.process.poll() is None, "a request is still in progress"
        under_way.send(b'"late"}')
        reply = under_way.response()
        assert (reply.status, reply.json["owner"]) == (200, "late")
        assert server.process.wait(PATIENCE_SECONDS) == 0
    with ServerProcess(server.home) as again:
        assert again.get("/jobs/under-way").json["owner"] == "late", "its reply was true"


def test_a_second_signal_stops_at_once(stopping: ServerProcess) -> None:
    with half_a_claim(stopping, "never-finished"):
        stopping.process.send_signal(signal.SIGTERM)
        until(lambda: _refuses(stopping))
        assert stopping.process.poll() is None
        stopping.process.send_signal(signal.SIGTERM)
        assert stopping.process.wait(PATIENCE_SECONDS) == 0


def test_connections_without_a_request_do_not_hold_up_a_stop(stopping: ServerProcess) -> None:
    with stopping.connect() as silent, stopping.connect() as between, stopping.connect() as half:
        between.request("GET", "/livez", token="")
        between.response()
        half.send(b"GET /livez HT")
        until(lambda: _is_listened_to(stopping))
        assert stopping.stop() == 0
        assert silent.is_ended()


@pytest.mark.parametrize("how", ["revoked", "rotated", "revoked by itself"])
def test_a_waiting_claim_is_dropped_when_its_token_ends(server: ServerProcess, how: str) -> None:
    job_id = f"left-{how.replace(' ', '-')}"
    made = server.post("/tokens", {"name": "leaver", "scopes": ["claim", "admin"]}).json
    held = claim(server, job_id)
    waiter = Waiter(server, f"/jobs/{job_id}/claim", token=made["token"], owner="leaver")
    next_one = Waiter(server, f"/jobs/{job_id}/claim", owner="stayer")
    if how == "rotated":
        assert server.post("/auth/token/rotate", token=made["token"]).status == 200
    else:
        token = server.token if how == "revoked" else made["token"]
        assert server.request("DELETE", f"/tokens/{made['token_id']}", token=token).status == 200
    assert waiter.reply(401)["code"] == "authentication_failed", "while the job is still held"
    release(server, held)
    assert next_one.reply()["status"] == "claimed"
    assert "leaver" not in owners(server, job_id)


def test_a_waiting_claim_gets_nothing_once_its_token_has_expired(server: ServerProcess) -> None:
    token = server.new_token("brief", expires_in_seconds=1)
    held = claim(server, "outlasting")
    waiter = Waiter(server, "/jobs/outlasting/claim", token=token, owner="brief")
    assert waiter.reply(401)["code"] == "authentication_failed", "long before its wait ends"
    release(server, held)
    assert "brief" not in owners(server, "outlasting")


def test_a_repeat_that_times_out_does_not_affect_the_first_request(server: ServerProcess) -> None:
    held = claim(server, "repeated")
    waiter = Waiter(server, "/jobs/repeated/claim", owner="ann", request_id="again")
    assert claim(server, "repeated", owner="ann", request_id="again", wait_seconds=0.1)["status"] == "held"
    release(server, held)
    assert waiter.reply()["status"] == "claimed"


def test_the_same_request_id_for_another_job_is_another_request(server: ServerProcess) -> None:
    held, other = claim(server, "one-of-two"), claim(server, "two-of-two")
    gone = Waiter(server, "/jobs/one-of-two/claim", owner="ann", request_id="both")
    waiter = Waiter(server, "/jobs/two-of-two/claim", owner="ann", request_id="both")
    gone.disconnect()
    until(lambda: waiting(server) == 1)
    release(server, held)
    assert server.get("/jobs/one-of-two").json["status"] == "free"
    release(server, other)
    assert waiter.reply()["status"] == "claimed"
