"""Queues over plain HTTP: who may see and change which, and how often they are counted."""

from typing import Any

from tests.support.server import ServerProcess


def token(server: ServerProcess, **what: Any) -> str:
    response = server.request("POST", "/tokens", {"name": "someone", **what})
    secret: str = response.json["token"]
    return secret


def names(server: ServerProcess, secret: str | None = None) -> list[str]:
    return [queue["queue"] for queue in server.get("/queues", token=secret).json["queues"]]


def test_a_limited_token_sees_no_other_queue_and_changes_none(server: ServerProcess) -> None:
    for job_id, queue in (("mine/1", "shared"), ("theirs/1", "shared"), ("theirs/2", "secret")):
        server.request("POST", "/jobs", {"kind": "build", "job_id": job_id, "queue": queue})
    limited = token(server, scopes=["read", "claim", "admin"], prefix="mine/")
    (queue,) = server.get("/queues", token=limited).json["queues"]
    assert (queue["queue"], queue["ready"], sum(queue["rates"]["enqueued"])) == ("shared", 1, 1)
    assert server.request("PUT", "/queues/shared", {"paused": True}, token=limited).status == 403
    reader = token(server, scopes=["read"])
    assert set(names(server, reader)) >= {"shared", "secret"}
    assert server.request("PUT", "/queues/shared", {"paused": True}, token=reader).status == 403
    assert server.get("/queues/shared").json["paused"] is False


def test_counts_are_shared_between_callers_and_a_change_shows_at_once(own_server: ServerProcess) -> None:
    first = own_server.get("/queues").json
    own_server.request("POST", "/jobs", {"kind": "build", "queue": "late"})
    assert own_server.get("/queues").json == first, "from the cache, with its time"
    paused = own_server.request("PUT", "/queues/late", {"paused": True, "reason": "deploying"}).json
    (queue,) = own_server.get("/queues").json["queues"]
    assert (queue["queue"], queue["ready"], queue["paused"], queue["pause"]) == ("late", 1, True, paused["pause"])


def test_invalid_settings_are_refused(server: ServerProcess) -> None:
    bodies: list[Any] = [{}, {"reason": "why not"}, {"paused": "yes"}, {"max_claimed": 0}, {"limit": 3}]
    for body in bodies:
        refused = server.request("PUT", "/queues/ci", body)
        assert (refused.status in {400, 422}, refused.json["code"]) == (True, "invalid_input"), body
