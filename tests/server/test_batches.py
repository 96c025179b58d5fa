"""Batches over plain HTTP: permissions, refusals and size limits."""

from pathlib import Path
from typing import Any

import pytest

from octostore.core.limits import JSON_DEPTH
from octostore.wire.endpoints import BY_OPERATION
from tests.support.connections import Response
from tests.support.server import ServerProcess


def batch(server: ServerProcess, *commands: dict[str, Any], atomic: bool = True, token: str | None = None) -> Response:
    return server.post("/batch", {"commands": list(commands), "atomic": atomic}, token=token)


def claim(job_id: str, **more: Any) -> dict[str, Any]:
    return {"command": "claim_job", "job_id": job_id, **more}


def outcomes(response: Response) -> list[tuple[int, Any]]:
    return [(one["status"], one["body"].get("status") or one["body"].get("code")) for one in response.json["answers"]]


def test_each_reply_equals_that_of_a_single_call(server: ServerProcess) -> None:
    single = server.post("/jobs/alone/claim", {"owner": "ann"})
    response = batch(
        server, claim("together", owner="ann"), {"command": "enqueue", "kind": "build", "job_id": "task-1"}
    )
    first, second = response.json["answers"]
    assert (first["status"], list(first["body"])) == (200, list(single.json))
    assert (second["status"], second["body"]["created"]) == (201, True)
    assert (
        batch(server, {"command": "enqueue", "kind": "build", "job_id": "task-1"}).json["answers"][0]["status"] == 200
    )


def test_permissions_are_checked_for_each_command(server: ServerProcess) -> None:
    token = server.new_token("limited", "read", "claim", prefix="mine-")
    seq = server.seq
    response = batch(
        server,
        claim("theirs-1"),
        {"command": "force_release_job", "job_id": "mine-1"},
        {"command": "recover"},
        {"command": "enqueue", "kind": "build", "job_id": "theirs-2"},
        {"command": "undo", "lease_id": "x", "job_id": "theirs-3"},
        token=token,
    )
    assert outcomes(response) == [(403, "not_allowed")] * 5
    assert server.seq == seq
    mixed = batch(server, claim("theirs-1"), claim("mine-1"), {"command": "enqueue", "kind": "build"}, token=token)
    assert outcomes(mixed)[:2] == [(403, "not_allowed"), (200, "claimed")]
    assert mixed.json["answers"][2]["body"]["job_id"].startswith("mine-")
    only_reading = server.new_token("reader", "read")
    assert outcomes(batch(server, claim("mine-2"), token=only_reading)) == [(403, "not_allowed")]
    assert server.post("/batch", {"commands": [claim("a")]}, token="octo_wrong").status == 401


def test_a_lost_lease_gets_the_status_in_the_table_of_endpoints(server: ServerProcess) -> None:
    """`octostore batch` takes it from there."""
    server.post("/sessions", {"agent": "ann", "session_id": "lost"})
    late: list[dict[str, Any]] = [
        {"command": "keepalive", "session_id": "lost"},
        {"command": "save_context", "session_id": "lost", "context": 1},
        {"command": "hand_over", "session_id": "lost", "to_agent": "eve"},
        {"command": "close_session", "session_id": "lost"},
        {"command": "release_task", "session_id": "lost", "job_id": "lost"},
        {"command": "heartbeat_job", "job_id": "lost"},
    ]
    response = batch(server, *({**command, "lease_id": "another"} for command in late))
    assert outcomes(response) == [(BY_OPERATION[one["command"]].lost_status, "lease_lost") for one in late]


def test_one_invalid_command_does_not_stop_the_others(server: ServerProcess) -> None:
    response = batch(
        server,
        claim("other-1", ttl_seconds="long"),
        claim("other-2", colour="red"),
        claim("no name"),
        {"command": "claim_job"},
        {"command": "livez"},
        {"command": "create_token", "name": "ci"},
        {"command": ["claim_job"]},
        claim("other-3", wait_seconds=1),
        claim("other-4", ttl_seconds=0),
        claim("other-5"),
    )
    assert [one["status"] for one in response.json["answers"]] == [422, 422, 400, 422, 400, 400, 400, 400, 400, 200]
    for one in response.json["answers"][:-1]:
        assert one["body"]["code"] == "invalid_input"
        assert one["body"]["details"]
    assert server.get("/jobs/other-5").json["status"] == "claimed"
    assert server.get("/jobs/other-2").json["status"] == "free"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"commands": {}}, 422),
        ({"commands": ["claim_job"]}, 422),
        ({"commands": []}, 400),
        ({"commands": [claim("many")] * 1_001}, 400),
        ({"commands": [claim("many")], "atomic": "yes"}, 422),
        ({"commands": [claim("many")], "extra": 1}, 422),
    ],
)
def test_an_invalid_batch_is_refused(server: ServerProcess, body: dict[str, Any], status: int) -> None:
    response = server.post("/batch", body)
    assert (response.status, response.json["code"]) == (status, "invalid_input")
    assert server.get("/jobs/many").json["status"] == "free"


def test_locks_are_jobs_in_a_batch_too(server: ServerProcess) -> None:
    acquired, held = batch(
        server,
        {"command": "acquire_lock", "job_id": "lock", "holder": "a"},
        {"command": "acquire_lock", "job_id": "lock", "holder": "b"},
    ).json["answers"]
    assert (acquired["body"]["status"], held["body"]["status"]) == ("acquired", "held")
    lease = {"job_id": "lock", "lease_id": acquired["body"]["lease_id"]}
    renewed, released, gone, wrong = batch(
        server,
        {"command": "renew_lock", **lease, "ttl_seconds": 90},
        {"command": "release_lock", **lease},
        {"command": "release_lock", **lease},
        {"command": "acquire_lock", "job_id": "no name"},
    ).json["answers"]
    assert (renewed["status"], renewed["body"]["lease_id"]) == (200, lease["lease_id"])
    assert released == {"status": 200, "body": None}
    assert (gone["status"], gone["body"]["code"]) == (404, "lease_not_current")
    assert (wrong["status"], wrong["body"]["code"]) == (400, "invalid_lock_name")


def test_documents_may_be_nested_as_deep_as_in_single_calls(server: ServerProcess) -> None:
    def nested(levels: int) -> Any:
        return 1 if not levels else [nested(levels - 1)]

    def enqueue(levels: int) -> Response:
        return batch(server, {"command": "enqueue", "kind": "k", "job_id": "deep", "payload": nested(levels)})

    assert enqueue(JSON_DEPTH + 1).status == 400
    assert enqueue(JSON_DEPTH).json["answers"][0]["status"] == 201
    assert server.get("/jobs/deep").json["payload"] == nested(JSON_DEPTH)


def test_a_batch_may_be_larger_than_a_single_call(server: ServerProcess) -> None:
    payload = "x" * 2_000
    jobs = [{"command": "enqueue", "kind": "k", "job_id": f"large-{n}", "payload": payload} for n in range(1_000)]
    response = batch(server, *jobs)
    assert {one["status"] for one in response.json["answers"]} == {201}
    too_large = [{"command": "enqueue", "kind": "k", "payload": "x" * 250_000}] * 20
    refused = batch(server, *too_large)
    assert (refused.status, refused.json["code"]) == (413, "body_too_large")


def test_every_command_counts_against_the_rate_limit(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--requests-per-second", "100") as slow:
        assert batch(slow, *[claim(f"job-{number}") for number in range(150)]).status == 200
        refused = batch(slow, *[claim(f"job-{number}") for number in range(150)])
        assert (refused.status, refused.json["code"]) == (429, "rate_limited")
        assert refused.json["retry_after_ms"] > 500


def test_a_batch_larger_than_the_burst_limit_is_not_refused_forever(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--requests-per-second", "100") as slow:
        assert batch(slow, *[claim(f"job-{number}") for number in range(1_000)]).status == 200


def test_metrics_count_each_command(own_server: ServerProcess) -> None:
    replies = batch(own_server, claim("a"), claim("a"), claim("b")).json["answers"]
    lease = replies[0]["body"]["lease_id"]
    batch(
        own_server,
        {"command": "heartbeat_job", "job_id": "a", "lease_id": lease},
        {"command": "heartbeat_job", "job_id": "a", "lease_id": "another"},
        {"command": "release_job", "job_id": "a", "lease_id": lease},
    )
    page = own_server.get("/metrics").body.decode()
    assert 'octostore_claims_total{outcome="claimed"} 2.0' in page
    assert 'octostore_claims_total{outcome="held"} 1.0' in page
    assert 'octostore_heartbeats_total{outcome="live"} 1.0' in page
    assert 'octostore_heartbeats_total{outcome="lost"} 1.0' in page
    assert 'octostore_releases_total{outcome="released"} 1.0' in page
