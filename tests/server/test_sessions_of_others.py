"""Sessions belong to a principal: what one calls its own is nothing to others, and only its lease writes to it."""

import re
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import pytest

from tests.support.connections import Response
from tests.support.server import ServerProcess

_numbers = count(1)


class Opened(NamedTuple):
    """A session `name` of an agent of ann's. `token` is that with which it was opened."""

    name: str
    token: str
    lease: dict[str, str]

    @property
    def path(self) -> str:
        return f"/sessions/{self.name}"

    @property
    def as_operators_say(self) -> str:
        return f"/sessions/ann%2F{self.name}"


@pytest.fixture
def opened(server: ServerProcess) -> Opened:
    name, token = f"session-{next(_numbers)}", server.new_token("ann")
    answer = server.post("/sessions", {"agent": "ann-1", "session_id": name}, token=token)
    return Opened(name, token, {"lease_id": answer.json["lease_id"]})


@pytest.fixture(scope="module")
def stranger(server: ServerProcess) -> str:
    return server.new_token("stranger")


def writes(path: str, lease: dict[str, str] | None = None) -> Iterator[tuple[str, str, Any]]:
    yield "POST", f"{path}/keepalive", lease
    yield "PUT", f"{path}/context", {"context": 1, **(lease or {})}
    yield "POST", f"{path}/hand-over", {"to_agent": "eve", **(lease or {})}
    yield "DELETE", path, lease


def told(answer: Response, name: str) -> tuple[int, str]:
    """Without what differs from one request to the next, and from one name to another."""
    body = re.sub(
        r'"request_id":"[^"]*"|\d{4}-\d\d-\d\dT[^"]*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}',
        "",
        answer.body.decode(),
    )
    return answer.status, body.replace(name, "NAME")


def test_opening_reveals_to_nobody_what_exists(server: ServerProcess, opened: Opened, stranger: str) -> None:
    answers = [
        told(server.post("/sessions", {"agent": "eve", "session_id": name}, token=stranger), name)
        for name in (opened.name, f"{opened.name}-of-nobody")
    ]
    assert answers[0] == answers[1]
    assert answers[0][0] == 201
    assert server.get(opened.path, token=opened.token).json["agent"] == "ann-1"


def test_neither_does_anything_else(server: ServerProcess, opened: Opened, stranger: str) -> None:
    nobodys = f"{opened.name}-of-nobody"
    calls = [("GET", opened.path, None), *writes(opened.path), *writes(opened.path, opened.lease)]
    calls += [(method, path.replace("/sessions/", "/sessions/ann%2F"), body) for method, path, body in calls]
    calls += [
        ("POST", "/jobs/a-job-to-bind/claim", {"session_id": opened.name}),
        ("POST", "/locks/a-lock-to-bind/acquire", {"session_id": opened.name, "ephemeral": True}),
    ]
    for method, path, body in calls:
        other = {**body, "session_id": nobodys} if body and "session_id" in body else body
        answers = [
            told(server.request(method, path, body, token=stranger), opened.name),
            told(server.request(method, path.replace(opened.name, nobodys), other, token=stranger), nobodys),
        ]
        assert answers[0] == answers[1], (method, path)
        assert answers[0][0] == 404, (method, path)
    assert server.post(f"{opened.path}/keepalive", opened.lease, token=opened.token).status == 200


def test_a_second_token_of_that_name_cannot_write_to_it(server: ServerProcess, opened: Opened) -> None:
    second = server.new_token("ann")
    for method, path, body in writes(opened.path):
        for token in (second, opened.token):
            answer = server.request(method, path, body, token=token)
            assert (answer.status, answer.json["code"]) == (403, "not_allowed"), (method, path)
            assert "lease_id" in answer.json["error"]
    assert server.get(opened.path, token=second).json["context"] is None
    assert server.post(f"{opened.path}/keepalive", opened.lease, token=second).status == 200


def test_one_that_is_an_operators_hands_it_over_or_ends_it(server: ServerProcess, opened: Opened) -> None:
    operator = server.new_token("ann", "admin")
    keepalive, save, hand_over, close = writes(opened.path)
    for method, path, body in (keepalive, save):
        assert server.request(method, path, body, token=operator).status == 403
    method, path, body = hand_over
    assert server.request(method, path, body, token=operator).json["agent"] == "eve"
    assert server.post(f"{opened.path}/keepalive", opened.lease, token=opened.token).status == 410
    method, path, body = close
    assert server.request(method, path, body, token=operator).status == 204


def test_an_operator_of_another_name_says_whose(server: ServerProcess, opened: Opened) -> None:
    assert server.request("DELETE", opened.path).status == 404
    handed = server.post(f"{opened.as_operators_say}/hand-over", {"to_agent": "eve"})
    assert (handed.json["session_id"], handed.json["agent"]) == (opened.name, "eve")
    assert server.request("DELETE", opened.as_operators_say).status == 204
    assert server.get(opened.as_operators_say).json["status"] == "closed"
    actors = [event["actor"] for event in server.get(f"/events?session=ann/{opened.name}").json["events"]]
    assert actors == ["ann", "admin", "admin"]


def test_the_session_of_a_lock_client_keeps_its_rule(server: ServerProcess) -> None:
    tokens = [server.new_token("locker") for _ in range(2)]
    path = f"/sessions/{server.post('/sessions', {}, token=tokens[0]).json['session_id']}"
    for token in tokens:
        assert server.post(f"{path}/keepalive", token=token).status == 200
    assert server.request("DELETE", path, token=tokens[1]).status == 204


def test_a_batch_is_held_to_the_same(server: ServerProcess, opened: Opened, stranger: str) -> None:
    ending = {"command": "close_session", "session_id": opened.name}
    for token, session_id, status in (
        (stranger, opened.name, 404),
        (stranger, f"ann/{opened.name}", 404),
        (opened.token, opened.name, 403),
        (server.token, opened.name, 404),
        (server.token, f"ann/{opened.name}", 204),
    ):
        (answer,) = server.post("/batch", {"commands": [ending | {"session_id": session_id}]}, token=token).json[
            "answers"
        ]
        assert answer["status"] == status, (session_id, answer)


def test_those_who_wait_for_sessions_of_one_id_do_not_stand_in_one_line(server: ServerProcess, opened: Opened) -> None:
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


def test_the_log_of_a_session_is_told_to_its_principal_and_to_operators(
    server: ServerProcess, opened: Opened, stranger: str
) -> None:
    server.post(f"/jobs/of-{opened.name}/claim", {"session_id": opened.name}, token=opened.token)
    story = [("session_opened", "ann"), ("claimed", "ann")]
    assert types(server, f"session={opened.name}", server.new_token("ann", "read")) == story
    assert types(server, f"session=ann/{opened.name}", server.token) == story
    for token in (stranger, server.token):
        assert types(server, f"session={opened.name}", token) == []
    assert server.get(f"/events?session=ann/{opened.name}", token=stranger).status == 404


def test_the_whole_log_does_not_tell_strangers_of_sessions(server: ServerProcess, stranger: str) -> None:
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


def test_a_token_for_some_jobs_sees_the_log_of_its_session(server: ServerProcess) -> None:
    limited = server.new_token("limited", prefix="limited-")
    name = f"session-{next(_numbers)}"
    server.post("/sessions", {"agent": "l", "session_id": name}, token=limited)
    server.post("/jobs/limited-job/claim", {"session_id": name}, token=limited)
    assert [kind for kind, _ in types(server, f"session={name}", limited)] == ["session_opened", "claimed"]
    assert [kind for kind, _ in types(server, "after=0", limited)] == ["claimed"]
