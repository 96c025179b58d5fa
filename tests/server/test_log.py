"""The server's log, for people and for machines: starts, stops, refusals and requests, but no secrets."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octostore.wire.tokens import new_token
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.server import ServerProcess


@pytest.fixture(scope="module")
def logging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    options = [
        "--log-format",
        "json",
        "--access-log",
        "--slow-batch-seconds",
        "0.000001",
        "--trusted-proxy",
        "127.0.0.1",
    ]
    with ServerProcess(tmp_path_factory.mktemp("logging"), *options) as process:
        yield process


def lines(server: ServerProcess, event: str | None = None) -> list[dict[str, Any]]:
    documents = [json.loads(line) for line in server.log.splitlines()]
    return [document for document in documents if event in {None, document["event"]}]


def test_every_line_is_json_with_time_level_and_event(logging: ServerProcess) -> None:
    logging.get("/jobs", token=new_token())
    until(lambda: len(lines(logging, "request")) > 0)
    for line in lines(logging):
        assert line["time"].endswith("Z")
        assert line["level"] in {"info", "warning", "error"}
        assert line["event"]
        assert line["message"]
    start = lines(logging, "start")[0]
    assert (start["url"], start["pid"]) == (logging.url, logging.process.pid)
    assert str(logging.home) in start["store"]


def test_the_access_log_has_each_request_with_its_principal_and_status(logging: ServerProcess) -> None:
    token = logging.new_token("reporter")
    response = logging.post("/jobs/logged/claim", token=token, headers={"X-Forwarded-For": "198.51.100.7"})
    refused = logging.get("/jobs/a%2Fb?prefix=private", token="")

    def request_line(request_id: str) -> dict[str, Any]:
        until(lambda: any(line["request_id"] == request_id for line in lines(logging, "request")))
        return next(line for line in lines(logging, "request") if line["request_id"] == request_id)

    line = request_line(response.headers["x-request-id"])
    assert line.pop("ms") > 0
    fields = ("method", "path", "route", "status", "principal", "address")
    assert [line.get(name) for name in fields] == [
        "POST",
        "/jobs/logged/claim",
        "/jobs/{job_id}/claim",
        200,
        "reporter",
        "198.51.100.7",
    ]
    line = request_line(refused.headers["x-request-id"])
    assert [line.get(name) for name in fields] == ["GET", "/jobs/a%2Fb", "/jobs/{job_id}", 401, None, "127.0.0.1"]
    assert "private" not in logging.log


def test_refused_tokens_are_logged_once_a_minute_per_token_or_address(logging: ServerProcess) -> None:
    made = logging.post("/tokens", {"name": "leaver"}).json
    logging.request("DELETE", f"/tokens/{made['token_id']}")
    for _ in range(5):
        logging.get("/jobs", token=made["token"])
        logging.get("/jobs", token=new_token(), headers={"X-Forwarded-For": "203.0.113.1"})
        logging.get("/jobs", token="octo_nonsense", headers={"X-Forwarded-For": "203.0.113.2"})
    refused = lines(logging, "token_refused")
    of_token = [line for line in refused if line.get("token_id") == made["token_id"]]
    assert [(line["reason"], line["principal"], line["address"]) for line in of_token] == [
        ("revoked", "leaver", "127.0.0.1")
    ]
    for address, reason in (("203.0.113.1", "unknown"), ("203.0.113.2", "malformed")):
        assert [line["reason"] for line in refused if line["address"] == address] == [reason]


def test_a_slow_transaction_is_logged(logging: ServerProcess) -> None:
    logging.post("/jobs/slow/claim")
    (slow,) = lines(logging, "slow_batch")
    assert slow["seconds"] > 0
    assert slow["commands"] >= 1


def test_the_log_contains_no_secret(logging: ServerProcess) -> None:
    token, wrong = logging.new_token("keeper"), new_token()
    lease = logging.post("/jobs/secret/claim", {"request_id": "request-of-keeper"}, token=token).json["lease_id"]
    logging.post("/jobs/secret/heartbeat", {"lease_id": lease}, token=token)
    logging.get(f"/jobs?token={token}", token=wrong)
    logging.get("/jobs", token="", headers={"Authorization": f"Basic {token}"})
    logging.request("DELETE", f"/tokens/{token}")  # a token instead of its id
    until(lambda: len([line for line in lines(logging, "request") if line["path"] == "/jobs"]) >= 2)
    for secret in (token, wrong, lease, "request-of-keeper", logging.token):
        assert secret not in logging.log


def test_the_log_for_people_from_start_to_stop(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        server.get("/jobs", token="x")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_SECONDS) == 0
        events = [line.split()[2] for line in server.log.splitlines()]
        assert events == ["start:", "token_refused:", "stop:", "stopped:"]
        assert "a token was refused, reason=malformed address=127.0.0.1" in server.log
        assert "signal=SIGTERM" in server.log
