"""Sessions belong to a principal: others do not see them, and only the session's lease can write to it."""

import re
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import pytest

from tests.support.connections import Response
from tests.support.server import ServerProcess

_numbers = count(1)


class Opened(NamedTuple):
    """A session of ann's agent, opened with `token`."""

    name: str
    token: str
    lease: dict[str, str]

    @property
    def path(self) -> str:
        return f"/sessions/{self.name}"

    @property
    def operator_path(self) -> str:
        return f"/sessions/ann%2F{self.name}"


@pytest.fixture
def opened(server: ServerProcess) -> Opened:
    name, token = f"session-{next(_numbers)}", server.new_token("ann")
    response = server.post("/sessions", {"agent": "ann-1", "session_id": name}, token=token)
    return Opened(name, token, {"lease_id": response.json["lease_id"]})


@pytest.fixture(scope="module")
def stranger(server: ServerProcess) -> str:
    return server.new_token("stranger")


def writes(path: str, lease: dict[str, str] | None = None) -> Iterator[tuple[str, str, Any]]:
    yield "POST", f"{path}/keepalive", lease
    yield "PUT", f"{path}/context", {"context": 1, **(lease or {})}
    yield "POST", f"{path}/hand-over", {"to_agent": "eve", **(lease or {})}
    yield "DELETE", path, lease


def comparable_response(response: Response, name: str) -> tuple[int, str]:
    """The status and body, without parts that differ between requests or names."""
    body = re.sub(
        r'"request_id":"[^"]*"|\d{4}-\d\d-\d\dT[^"]*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}',
        "",
        response.body.decode(),
    )
    return response.status, body.replace(name, "NAME")


def test_opening_a_session_does_not_reveal_those_of_others(
    server: ServerProcess, opened: Opened, stranger: str
) -> None:
    responses = [
        comparable_response(server.post("/sessions", {"agent": "eve", "session_id": name}, token=stranger), name)
        for name in (opened.name, f"{opened.name}-unknown")
    ]
    assert responses[0] == responses[1]
    assert responses[0][0] == 201
    assert server.get(opened.path, token=opened.token).json["agent"] == "ann-1"


def test_no_other_call_reveals_sessions_of_others(server: ServerProcess, opened: Opened, stranger: str) -> None:
    unknown = f"{opened.name}-unknown"
    calls = [("GET", opened.path, None), *writes(opened.path), *writes(opened.path, opened.lease)]
    calls += [(method, path.replace("/sessions/", "/sessions/ann%2F"), body) for method, path, body in calls]
    calls += [
        ("POST", "/jobs/a-job-to-bind/claim", {"session_id": opened.name}),
        ("POST", "/locks/a-lock-to-bind/acquire", {"session_id": opened.name, "ephemeral": True}),
    ]
    for method, path, body in calls:
        other = {**body, "session_id": unknown} if body and "session_id" in body else body
        responses = [
            comparable_response(server.request(method, path, body, token=stranger), opened.name),
            comparable_response(
                server.request(method, path.replace(opened.name, unknown), other, token=stranger), unknown
            ),
        ]
        assert responses[0] == responses[1], (method, path)
        assert responses[0][0] == 404, (method, path)
    assert server.post(f"{opened.path}/keepalive", opened.lease, token=opened.token).status == 200


def test_a_second_token_of_the_same_name_needs_the_lease_to_write(server: ServerProcess, opened: Opened) -> None:
    second = server.new_token("ann")
    for method, path, body in writes(opened.path):
        for token in (second, opened.token):
            response = server.request(method, path, body, token=token)
            assert (response.status, response.json["code"]) == (403, "not_allowed"), (method, path)
            assert "lease_id" in response.json["error"]
    assert server.get(opened.path, token=second).json["context"] is None
    assert server.post(f"{opened.path}/keepalive", opened.lease, token=second).status == 200


def test_an_operator_token_of_the_same_name_can_hand_over_and_close(server: ServerProcess, opened: Opened) -> None:
    operator = server.new_token("ann", "admin")
    keepalive, save, hand_over, close = writes(opened.path)
    for method, path, body in (keepalive, save):
        assert server.request(method, path, body, token=operator).status == 403
    method, path, body = hand_over
    assert server.request(method, path, body, token=operator).json["agent"] == "eve"
    assert server.post(f"{opened.path}/keepalive", opened.lease, token=opened.token).status == 410
    method, path, body = close
    assert server.request(method, path, body, token=operator).status == 204


def test_an_operator_of_another_name_must_name_the_principal(server: ServerProcess, opened: Opened) -> None:
    assert server.request("DELETE", opened.path).status == 404
    handed = server.post(f"{opened.operator_path}/hand-over", {"to_agent": "eve"})
    assert (handed.json["session_id"], handed.json["agent"]) == (opened.name, "eve")
    assert server.request("DELETE", opened.operator_path).status == 204
    assert server.get(opened.operator_path).json["status"] == "closed"
    actors = [event["actor"] for event in server.get(f"/events?session=ann/{opened.name}").json["events"]]
    assert actors == ["ann", "admin", "admin"]


def test_sessions_of_lock_clients_need_no_lease(server: ServerProcess) -> None:
    tokens = [server.new_token("locker") for _ in range(2)]
    path = f"/sessions/{server.post('/sessions', {}, token=tokens[0]).json['session_id']}"
    for token in tokens:
        assert server.post(f"{path}/keepalive", token=token).status == 200
    assert server.request("DELETE", path, token=tokens[1]).status == 204


def test_the_same_rules_apply_in_a_batch(server: ServerProcess, opened: Opened, stranger: str) -> None:
    ending = {"command": "close_session", "session_id": opened.name}
    for token, session_id, status in (
        (stranger, opened.name, 404),
        (stranger, f"ann/{opened.name}", 404),
        (opened.token, opened.name, 403),
        (server.token, opened.name, 404),
        (server.token, f"ann/{opened.name}", 204),
    ):
        (reply,) = server.post("/batch", {"commands": [ending | {"session_id": session_id}]}, token=token).json[
            "answers"
        ]
        assert reply["status"] == status, (session_id, reply)


def test_principals_that_wait_with_the_same_session_id_are_in_separate_lines(
    server: ServerProcess, opened: Opened
) -> None:
    other = server.new_token("waiter")
    server.post("/jobs", {"kind": "k", "queue": "of-two", "job_id": f"task-{opened.name}"})
    task = {"agent": "eve", "queues": ["of-two"], "wait_seconds": 5}
    claimed = server.post(f"{opened.path}/claim", task, token=other).json
    assert (claimed["status"], claimed["session"]["resumed"]) == ("claimed", False)
    held = server.post(f"{opened.path}/claim", {**task, "wait_seconds": 0}, token=opened.token).json
    assert (held["status"], held["owner"]) == ("held", "ann-1")


# The log


def types(server: ServerProcess, query: str, token: str) -> list[tuple[str, str | None]]:
    events = server.get(f"/events?limit=1000&{query}", token=token).json["events"]
    return [(event["type"], event["session_principal"]) for event in events]


def test_the_log_of_a_session_is_visible_to_its_principal_and_operators(
    server: ServerProcess, opened: Opened, stranger: str
) -> None:
    server.post(f"/jobs/of-{opened.name}/claim", {"session_id": opened.name}, token=opened.token)
    story = [("session_opened", "ann"), ("claimed", "ann")]
    assert types(server, f"session={opened.name}", server.new_token("ann", "read")) == story
    assert types(server, f"session=ann/{opened.name}", server.token) == story
    for token in (stranger, server.token):
        assert types(server, f"session={opened.name}", token) == []
    assert server.get(f"/events?session=ann/{opened.name}", token=stranger).status == 404


def test_the_whole_log_hides_sessions_from_strangers(server: ServerProcess, stranger: str) -> None:
    after = server.seq
    ann = server.new_token("ann")
    name = f"session-{next(_numbers)}"
    opened = server.post("/sessions", {"agent": "ann-1", "session_id": name}, token=ann).json
    server.post(f"/jobs/of-{name}/claim", {"session_id": name}, token=ann)
    server.post("/sessions", {"agent": "eve", "session_id": name}, token=stranger)
    server.request("DELETE", f"/sessions/{name}", {"lease_id": opened["lease_id"]}, token=ann)
    seen = {token: types(server, f"after={after}", token)[1:] for token in (ann, stranger, server.token)}
    of_job = [("claimed", "ann"), ("released", "ann")]
    mine = [("session_opened", "ann"), of_job[0], ("session_opened", "stranger"), of_job[1], ("session_closed", "ann")]
    assert seen[server.token] == mine
    assert seen[ann] == [event for event in mine if event[1] == "ann"]
    assert seen[stranger] == [of_job[0], ("session_opened", "stranger"), of_job[1]]
    with server.stream(f"/events?after={after}", token=stranger) as stream:
        frames = stream.take(4)[1:]
        server.post("/sessions", {"agent": "ann-2"}, token=ann)
        server.post(f"/jobs/of-{name}/claim", token=ann)
        frames += stream.take(1)
    assert [frame.event for frame in frames] == ["claimed", "session_opened", "released", "claimed"]


def test_a_limited_token_sees_the_log_of_its_own_session(server: ServerProcess) -> None:
    limited = server.new_token("limited", prefix="limited-")
    name = f"session-{next(_numbers)}"
    server.post("/sessions", {"agent": "l", "session_id": name}, token=limited)
    server.post("/jobs/limited-job/claim", {"session_id": name}, token=limited)
    assert [kind for kind, _ in types(server, f"session={name}", limited)] == ["session_opened", "claimed"]
    assert [kind for kind, _ in types(server, "after=0", limited)] == ["claimed"]
