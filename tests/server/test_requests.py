"""Details of requests that are easy to get wrong."""

from typing import Any

import pytest

from tests.support.server import ServerProcess


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/jobs", {"kind": "build", "job_id": ""}),
        ("/sessions", {"session_id": ""}),
        ("/tokens", {"name": "ci", "token_id": ""}),
    ],
)
def test_an_empty_name_is_refused(server: ServerProcess, path: str, body: dict[str, str]) -> None:
    """A missing name is generated; an empty one is an error."""
    response = server.post(path, body)
    assert (response.status, response.json["code"]) == (400, "invalid_input")
    assert "must not be empty" in response.json["error"]


@pytest.mark.parametrize("place", [{}, {"host": "runner-7"}, {"host": "runner-7", "pid": 4711}, {"pid": 4711}])
def test_the_host_of_a_claim_defaults_to_the_clients_address(server: ServerProcess, place: dict[str, Any]) -> None:
    body = {"owner": "ann", **place}
    assert server.post("/jobs/where/claim", body).json["status"] == "claimed"
    claim = server.get("/jobs/where").json["claim"]
    assert (claim["host"], claim["pid"]) == (place.get("host", "127.0.0.1"), place.get("pid"))
    assert server.post("/jobs/where/force-release", {}).status == 200


def test_the_host_of_a_lock_is_the_clients_address(server: ServerProcess) -> None:
    assert server.post("/locks/where-lock/acquire", {"host": 7}).json["status"] == "acquired"
    claim = server.get("/jobs/where-lock").json["claim"]
    assert (claim["host"], claim["pid"]) == ("127.0.0.1", None)


def test_an_integer_may_be_written_as_a_float(server: ServerProcess) -> None:
    body = b'{"kind": "build", "job_id": "whole", "priority": 7.0, "max_attempts": 2e0}'
    response = server.post("/jobs", raw=body)
    assert (response.status, response.json["priority"], response.json["max_attempts"]) == (201, 7, 2)
    assert server.request("PUT", "/queues/whole/limit", raw=b'{"max_claimed": 3.0}').json["max_claimed"] == 3


@pytest.mark.parametrize("number", ["7.5", "1e400", "true", '"7"'])
def test_other_values_are_not_integers(server: ServerProcess, number: str) -> None:
    response = server.post("/jobs", raw=f'{{"kind": "build", "priority": {number}}}'.encode())
    assert (response.status, response.json["field"]) == (422, "priority")


def test_documents_keep_floats_as_floats(server: ServerProcess) -> None:
    server.post("/jobs", raw=b'{"kind": "build", "job_id": "points", "payload": {"x": 1.0}}')
    assert b'"payload":{"x":1.0}' in server.get("/jobs/points").body


def test_null_is_not_a_status_in_a_query(server: ServerProcess) -> None:
    response = server.get("/jobs?status=null")
    assert (response.status, response.json["field"]) == (400, "status")


def test_the_digest_of_a_token_has_hex_digits_only(server: ServerProcess) -> None:
    digest = "0a " * 32
    assert server.post("/tokens", {"name": "ci", "digest": digest}).json["field"] == "digest"
    assert server.post("/tokens", {"name": "ci", "digest": digest.replace(" ", "").upper()}).status == 201


@pytest.mark.parametrize("value", ["", "x", "-1", "1.0", str(2**63), "9" * 5_000])
def test_the_last_event_id_is_an_integer(server: ServerProcess, value: str) -> None:
    response = server.get("/events", headers={"Last-Event-ID": value})
    assert (response.status, response.json["field"]) == (400, "Last-Event-ID")


def test_a_page_resumes_after_the_last_event_id_like_a_stream(server: ServerProcess) -> None:
    server.post("/jobs/resumed/claim")
    last = server.get("/events").json["events"][-1]["seq"]
    assert server.get("/events", headers={"Last-Event-ID": str(last)}).json["events"] == []
    assert server.get("/events?after=-1", headers={"Last-Event-ID": str(last)}).status == 400


def test_a_problem_document_has_a_job_status_only_if_there_is_one(server: ServerProcess) -> None:
    accept = {"Accept": "application/problem+json"}
    server.post("/jobs/held/claim")
    conflict = server.post("/jobs/held/requeue", headers=accept)
    assert (conflict.status, conflict.json["status"], conflict.json["job_status"]) == (409, 409, "claimed")
    assert "job_status" not in server.get("/jobs?limit=0", headers=accept).json


def test_a_problem_document_says_who_has_the_job(server: ServerProcess) -> None:
    server.post("/jobs/taken/claim", {"owner": "agent-3", "metadata": {"branch": "fix"}})
    accept = {"Accept": "application/problem+json"}
    lost = server.post("/jobs/taken/heartbeat", {"lease_id": "another"}, headers=accept)
    assert (lost.status, lost.json["code"]) == (409, "lease_lost")
    assert (lost.json["holder"]["owner"], lost.json["holder"]["metadata"]) == ("agent-3", {"branch": "fix"})


def test_refusals_are_counted_by_route(server: ServerProcess) -> None:
    server.get("/jobs?limit=0")
    assert 'octostore_request_seconds_count{route="GET /jobs",status="400"}' in server.get("/metrics").body.decode()
