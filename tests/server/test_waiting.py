"""Claims that wait over HTTP: in order, woken at once, and never given to somebody who has gone; and how it stops."""

import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.connections import Connection
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.server import ServerProcess
from tests.support.starting import UNHURRIED

WAIT_SECONDS = 60
"""Longer than tests are patient: who has not been woken is not heard of in time."""


class Waiter:
    """A claim that waits, on a connection of its own; it has its place in the line when the constructor returns."""

    def __init__(self, server: ServerProcess, path: str, *, token: str | None = None, **terms: Any) -> None:
        before = waiting(server)
        self._connection = Connection(server.port)
        body = {"wait_seconds": WAIT_SECONDS, **terms}
        self._connection.request("POST", path, body, token=token or server.token)
        until(lambda: waiting(server) == before + 1)

    def answer(self, status: int = 200) -> Any:
        try:
            answer = self._connection.response()
        finally:
            self._connection.close()
        assert answer.status == status, answer
        return answer.json

    def go(self) -> None:
        """Without a word."""
        self._connection.close()


def waiting(server: ServerProcess) -> int:
    lines = server.get("/metrics").body.decode().splitlines()
    return int(float(next(line for line in lines if line.startswith("octostore_waiting_claims ")).split()[1]))


def claim(server: ServerProcess, job_id: str, **terms: Any) -> Any:
    return server.post(f"/jobs/{job_id}/claim", terms).json


def release(server: ServerProcess, reply: Any) -> None:
    answer = server.post(f"/jobs/{reply['job_id']}/release", {"lease_id": reply["lease_id"]})
    assert answer.status == 200, answer


def owners(server: ServerProcess, job_id: str) -> list[str]:
    """All who ever had it, in order."""
    return [event["data"]["owner"] for event in server.events(job_id) if event["type"] == "claimed"]


# Being woken


def test_a_release_wakes_the_waiter_at_once(server: ServerProcess) -> None:
    held = claim(server, "released")
    waiter = Waiter(server, "/jobs/released/claim", owner="waiter")
    release(server, held)
    answer = waiter.answer()
    assert (answer["status"], answer["owner"], answer["replayed"]) == ("claimed", "waiter", False)
    assert [attempt["how"] for attempt in answer["previous"]] == ["released"]


def test_an_expiry_wakes_the_waiter_when_it_happens(server: ServerProcess) -> None:
    dead = claim(server, "expired", owner="dead", ttl_seconds=1)
    waiter = Waiter(server, "/jobs/expired/claim", owner="heir")
    answer = waiter.answer()
    assert (answer["status"], [attempt["how"] for attempt in answer["previous"]]) == ("claimed", ["expired"])
    assert datetime.fromisoformat(answer["claimed_at"]) >= datetime.fromisoformat(dead["expires_at"])


def test_an_enqueued_job_wakes_a_worker_at_once(server: ServerProcess) -> None:
    worker = Waiter(server, "/queues/builds/claim", owner="worker", kinds=["build"])
    server.post("/jobs", {"kind": "lint", "queue": "builds"})
    server.post("/jobs", {"kind": "build", "queue": "builds", "job_id": "build-1"})
    answer = worker.answer()
    assert (answer["status"], answer["job_id"]) == ("claimed", "build-1")


def test_a_job_that_becomes_due_wakes_a_worker(server: ServerProcess) -> None:
    due = datetime.now(UTC) + timedelta(seconds=0.7)
    server.post("/jobs", {"kind": "k", "queue": "scheduled", "job_id": "due", "run_at": due.isoformat()})
    worker = Waiter(server, "/queues/scheduled/claim")
    answer = worker.answer()
    assert answer["job_id"] == "due"
    assert datetime.fromisoformat(answer["claimed_at"]) >= due - timedelta(milliseconds=1)  # as exact as the store


def test_another_process_on_the_same_store_wakes_the_waiter(server: ServerProcess) -> None:
    held = claim(server, "shared")
    waiter = Waiter(server, "/jobs/shared/claim")
    with ServerProcess(server.home) as other:
        release(other, held)
        assert waiter.answer()["status"] == "claimed"


def test_a_wait_that_runs_out_is_answered_as_if_there_had_been_none(server: ServerProcess) -> None:
    held = claim(server, "patience", owner="holder", ttl_seconds=60)
    started = time.monotonic()
    answer = claim(server, "patience", wait_seconds=0.3)
    assert time.monotonic() - started >= 0.3
    assert (answer["status"], answer["owner"]) == ("held", "holder")
    assert answer["expires_at"] == held["expires_at"]
    empty = server.post("/queues/nothing/claim", {"wait_seconds": 0.2}).json
    assert empty["status"] == "empty"


@pytest.mark.parametrize("seconds", [60.1, -0.1])
def test_one_can_wait_for_a_minute_at_most(server: ServerProcess, seconds: float) -> None:
    for path in ("/jobs/too-long/claim", "/queues/too-long/claim"):
        answer = server.post(path, {"wait_seconds": seconds})
        assert (answer.status, answer.json["code"]) == (400, "invalid_input")


def test_what_cannot_change_is_not_waited_for(server: ServerProcess) -> None:
    done = claim(server, "finished")
    server.post("/jobs/finished/release", {"lease_id": done["lease_id"], "outcome": "done", "result": 7})
    answer = claim(server, "finished", wait_seconds=30)
    assert (answer["status"], answer["result"]) == ("done", 7)


# The line


def test_five_who_wait_get_it_in_the_order_of_their_arrival(server: ServerProcess) -> None:
    held = claim(server, "line", owner="first")
    waiters = [Waiter(server, "/jobs/line/claim", owner=f"waiter-{number}") for number in range(5)]
    for waiter in waiters:
        release(server, held)
        held = waiter.answer()
        assert held["status"] == "claimed"
    assert owners(server, "line") == ["first", *(f"waiter-{number}" for number in range(5))]


def test_workers_get_jobs_in_the_order_of_their_arrival(server: ServerProcess) -> None:
    workers = [Waiter(server, "/queues/ordered/claim", owner=f"worker-{number}") for number in range(3)]
    for number in range(3):
        server.post("/jobs", {"kind": "k", "queue": "ordered", "job_id": f"ordered-{number}"})
    answers = [worker.answer() for worker in workers]
    assert [(answer["owner"], answer["job_id"]) for answer in answers] == [
        (f"worker-{number}", f"ordered-{number}") for number in range(3)
    ]


def test_whoever_comes_back_in_time_has_kept_the_place(server: ServerProcess) -> None:
    held = claim(server, "place", owner="first")
    early = Waiter(server, "/jobs/place/claim", owner="early", request_id="early", wait_seconds=0.5)
    late = Waiter(server, "/jobs/place/claim", owner="late")
    assert early.answer()["status"] == "held"
    early = Waiter(server, "/jobs/place/claim", owner="early", request_id="early")
    release(server, held)
    held = early.answer()
    assert held["status"] == "claimed"
    release(server, held)
    assert late.answer()["status"] == "claimed"
    assert owners(server, "place") == ["first", "early", "late"]


def test_a_claim_that_one_has_already_is_not_waited_for(server: ServerProcess) -> None:
    mine = claim(server, "mine", request_id="mine")
    other = Waiter(server, "/jobs/mine/claim", owner="other")
    again = claim(server, "mine", request_id="mine", wait_seconds=WAIT_SECONDS)
    assert (again["status"], again["replayed"], again["lease_id"]) == ("claimed", True, mine["lease_id"])
    release(server, mine)
    assert other.answer()["status"] == "claimed"


# Those who have gone


def test_who_has_gone_never_gets_it(server: ServerProcess) -> None:
    held = claim(server, "gone", owner="first")
    gone = Waiter(server, "/jobs/gone/claim", owner="gone")
    after = Waiter(server, "/jobs/gone/claim", owner="after")
    gone.go()
    until(lambda: waiting(server) == 1)
    release(server, held)
    assert after.answer()["status"] == "claimed"
    assert owners(server, "gone") == ["first", "after"]


def test_who_goes_at_that_very_moment_does_not_keep_it(server: ServerProcess) -> None:
    for number in range(20):
        job_id = f"moment-{number}"
        held = claim(server, job_id, owner="first")
        waiter = Waiter(server, f"/jobs/{job_id}/claim", owner="gone")
        going = threading.Thread(target=waiter.go)
        going.start()
        release(server, held)
        going.join()
        answer = claim(server, job_id, owner="next", wait_seconds=5)
        assert answer["status"] == "claimed", answer
        until(lambda: waiting(server) == 0)
        assert server.get(f"/jobs/{job_id}").json["owner"] == "next"


def test_a_worker_that_goes_at_that_very_moment_loses_no_job(server: ServerProcess) -> None:
    for number in range(20):
        worker = Waiter(server, "/queues/moments/claim", owner="gone")
        going = threading.Thread(target=worker.go)
        going.start()
        server.post("/jobs", {"kind": "k", "queue": "moments", "job_id": f"work-{number}"})
        going.join()
        answer = server.post("/queues/moments/claim", {"wait_seconds": 5}).json
        assert (answer["status"], answer["job_id"]) == ("claimed", f"work-{number}")
        assert answer["attempt"] == 1, "that was no attempt"
        until(lambda: waiting(server) == 0)


def test_a_retry_is_not_robbed_by_the_end_of_what_it_repeats(server: ServerProcess) -> None:
    for number in range(20):
        job_id = f"retried-{number}"
        held = claim(server, job_id, owner="first")
        lost = Waiter(server, f"/jobs/{job_id}/claim", owner="me", request_id=job_id)
        again = Waiter(server, f"/jobs/{job_id}/claim", owner="me", request_id=job_id)
        going = threading.Thread(target=lost.go)
        going.start()
        release(server, held)
        going.join()
        mine = again.answer()
        assert mine["status"] == "claimed"
        until(lambda: waiting(server) == 0)
        beat = server.post(f"/jobs/{job_id}/heartbeat", {"lease_id": mine["lease_id"]})
        assert beat.status == 200, "what was answered is true"


# Stopping


@pytest.fixture
def stopping(tmp_path: Path) -> Iterator[ServerProcess]:
    """Which has all the time in the world, unless it is told to stop."""
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
    """Connections are taken in the order in which they came."""
    return server.get("/livez").status == 200


def _refuses(server: ServerProcess) -> bool:
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_stop_answers_everybody_first(stopping: ServerProcess, sign: signal.Signals) -> None:
    server = stopping
    claim(server, "held", owner="holder")
    waiters = [Waiter(server, "/jobs/held/claim"), Waiter(server, "/queues/empty/claim")]
    events, watch = server.stream("/events?after=0"), server.stream("/locks/held/watch")
    with events, watch, half_a_claim(server, "under-way") as under_way:
        server.process.send_signal(sign)
        assert [waiter.answer()["status"] for waiter in waiters] == ["held", "empty"]
        assert [frame.event for frame in events.rest()] == ["token_created", "claimed"]
        assert [frame.data["event"] for frame in watch.rest()] == ["acquired"]
        assert server.process.poll() is None, "there is still a request under way"
        under_way.send(b'"late"}')
        answer = under_way.response()
        assert (answer.status, answer.json["owner"]) == (200, "late")
        assert server.process.wait(PATIENCE_SECONDS) == 0
    with ServerProcess(server.home) as again:
        assert again.get("/jobs/under-way").json["owner"] == "late", "what was answered is kept"


def test_a_second_signal_does_not_wait_for_anybody(stopping: ServerProcess) -> None:
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
def test_a_claim_that_waits_is_dropped_once_its_token_is_over(server: ServerProcess, how: str) -> None:
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
    assert waiter.answer(401)["code"] == "authentication_failed", "while the job is still held"
    release(server, held)
    assert next_one.answer()["status"] == "claimed"
    assert "leaver" not in owners(server, job_id)


def test_a_claim_that_waits_gets_nothing_once_its_token_has_expired(server: ServerProcess) -> None:
    token = server.new_token("brief", expires_in_seconds=1)
    held = claim(server, "outlasting")
    waiter = Waiter(server, "/jobs/outlasting/claim", token=token, owner="brief")
    assert waiter.answer(401)["code"] == "authentication_failed", "long before it would have stopped waiting"
    release(server, held)
    assert "brief" not in owners(server, "outlasting")


def test_a_repetition_that_ends_first_does_not_harm_the_first(server: ServerProcess) -> None:
    held = claim(server, "repeated")
    waiter = Waiter(server, "/jobs/repeated/claim", owner="ann", request_id="again")
    assert claim(server, "repeated", owner="ann", request_id="again", wait_seconds=0.1)["status"] == "held"
    release(server, held)
    assert waiter.answer()["status"] == "claimed"


def test_the_same_request_id_for_another_job_is_another_request(server: ServerProcess) -> None:
    held, other = claim(server, "one-of-two"), claim(server, "two-of-two")
    gone = Waiter(server, "/jobs/one-of-two/claim", owner="ann", request_id="both")
    waiter = Waiter(server, "/jobs/two-of-two/claim", owner="ann", request_id="both")
    gone.go()
    until(lambda: waiting(server) == 1)
    release(server, held)
    assert server.get("/jobs/one-of-two").json["status"] == "free"
    release(server, other)
    assert waiter.answer()["status"] == "claimed"
