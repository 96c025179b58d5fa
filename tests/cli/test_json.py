"""With `--json`, every command prints the fields that a server returns, on a file and through a server."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import octostore
from octostore.client.store import OctoStore
from tests.cli.conftest import Cli
from tests.support.server import ServerProcess

Prepare = Callable[[OctoStore, str], str]
"""Creates a job, session or token with this name, and returns its lease or id."""


class Same(NamedTuple):
    """A command line and the same as a request; `J` is the name, and `L` what `prepare` returned."""

    prepare: Prepare
    line: str
    method: str
    path: str
    body: Any = None
    code: int = 0


def nothing(_store: OctoStore, _name: str) -> str:
    return ""


def claimed(store: OctoStore, name: str) -> str:
    lease = store.claim_job(name, owner="ann", metadata={"branch": "fix"}).lease_id
    assert lease is not None
    store.heartbeat_job(name, lease, progress="testing", percent=40)
    return lease


def tried(store: OctoStore, name: str) -> str:
    store.release_job(name, claimed(store, name), "failed", error="no disk", note="look")
    return claimed(store, name)


def done(store: OctoStore, name: str) -> str:
    lease = claimed(store, name)
    store.release_job(name, lease, "done", result={"pr": 77})
    return lease


def deferred(store: OctoStore, name: str) -> str:
    lease = claimed(store, name)
    store.release_job(name, lease, "deferred", retry_after=900)
    return lease


def enqueued(store: OctoStore, name: str) -> str:
    return store.enqueue("build", {"commit": "3f1c2aa"}, job_id=name, queue=name).job_id


def dead(store: OctoStore, name: str) -> str:
    enqueued(store, name)
    store.cancel(name, reason="not needed")
    return name


def lost(store: OctoStore, name: str) -> str:
    lease = claimed(store, name)
    store.force_release(name, reason="stuck")
    claimed(store, name)
    return lease


def token(store: OctoStore, name: str) -> str:
    return store.create_token(name, expires_in=60).token_id


def session(store: OctoStore, name: str) -> str:
    lease = store.open_session("ann", session_id=name).reply.lease_id
    store.claim_job(f"{name}-bound", owner="ann", session_id=name)
    store.save_session(name, lease, {"turn": 7}, phase="planning")
    return lease


def handed_over(store: OctoStore, name: str) -> str:
    lease = session(store, name)
    store.hand_over(name, "bob", "go on")
    return lease


HAND_OVER = {"to_agent": "eve", "lease_id": "L"}
CASES = {
    "claimed": Same(tried, "claim J-2 --owner o", "POST", "/jobs/J-2/claim", {"owner": "o"}),
    "held": Same(claimed, "claim J", "POST", "/jobs/J/claim", {}, 11),
    "done": Same(done, "claim J", "POST", "/jobs/J/claim", {}, 10),
    "again": Same(done, "claim J --again", "POST", "/jobs/J/claim", {"again": True}),
    "delayed": Same(deferred, "claim J", "POST", "/jobs/J/claim", {}, 11),
    "dead": Same(dead, "claim J", "POST", "/jobs/J/claim", {}, 11),
    "heartbeat": Same(claimed, "heartbeat J --lease-id L", "POST", "/jobs/J/heartbeat", {"lease_id": "L"}),
    "release": Same(claimed, "release J --lease-id L", "POST", "/jobs/J/release", {"lease_id": "L"}),
    "owner": Same(tried, "owner J", "GET", "/jobs/J"),
    "nobody": Same(nothing, "owner J", "GET", "/jobs/J"),
    "list": Same(tried, "list J", "GET", "/jobs?prefix=J&status=claimed"),
    "enqueue": Same(nothing, "enqueue build --job-id J", "POST", "/jobs", {"kind": "build", "job_id": "J"}),
    "next": Same(enqueued, "next J", "POST", "/queues/J/claim", {}),
    "empty": Same(nothing, "next J", "POST", "/queues/J/claim", {}, 10),
    "queue set": Same(nothing, "queue set J --max-claimed 2", "PUT", "/queues/J", {"max_claimed": 2}),
    "dead jobs": Same(dead, "dead J", "GET", "/jobs?prefix=J&status=dead"),
    "requeue": Same(dead, "requeue J", "POST", "/jobs/J/requeue", {}),
    "discard": Same(dead, "discard J", "POST", "/jobs/J/discard", {}),
    "cancel": Same(enqueued, "cancel J", "POST", "/jobs/J/cancel", {}),
    "force-release": Same(claimed, "force-release J", "POST", "/jobs/J/force-release", {}),
    "events": Same(tried, "events --job J", "GET", "/events?job=J"),
    "no event": Same(nothing, "events --job J", "GET", "/events?job=J"),
    "events of a session": Same(session, "events --session J", "GET", "/events?session=J"),
    "hand-over": Same(session, "hand-over J --to bob", "POST", "/sessions/J/hand-over", {"to_agent": "bob"}),
    "handed over": Same(
        handed_over, "hand-over J --to eve --lease-id L", "POST", "/sessions/J/hand-over", HAND_OVER, 20
    ),
    "recover": Same(nothing, "recover", "POST", "/recover", {}),
    "new token": Same(nothing, "token create J", "POST", "/tokens", {"name": "J"}),
    "tokens": Same(token, "token list", "GET", "/tokens"),
    "revoked token": Same(token, "token revoke L", "DELETE", "/tokens/L"),
    "lease lost": Same(lost, "heartbeat J --lease-id L", "POST", "/jobs/J/heartbeat", {"lease_id": "L"}, 20),
    "never had it": Same(nothing, "release J --lease-id x", "POST", "/jobs/J/release", {"lease_id": "x"}, 20),
    "not found": Same(nothing, "requeue J", "POST", "/jobs/J/requeue", {}, 64),
    "conflict": Same(claimed, "requeue J", "POST", "/jobs/J/requeue", {}, 11),
    "bad input": Same(nothing, "claim J --ttl 0", "POST", "/jobs/J/claim", {"ttl_seconds": 0}, 64),
    "no such token": Same(nothing, "token revoke J", "DELETE", "/tokens/J", None, 64),
}
OF_THE_REQUEST = {"request_id"}
"""Fields that only an HTTP response has."""
OF_THE_COMMAND_LINE = {"similar"}
"""Fields that only the command line looks up for you; a server has `GET /jobs/{job_id}/similar`."""
OF_THE_NETWORK = {"number": None}
"""Fields that only writes over a network have."""
OF_THE_MOMENT: dict[str, list[Any]] = {"recovered": []}
"""Lists that may have items in one response only, because claims of other tests have just expired."""
FOR_LOCK_CLIENTS = {"user_id", "active", "lock_count"}
"""Fields of sessions that a server repeats under other names, for clients of the lock API."""


def ask(server: ServerProcess, same: Same, name: str) -> Any:
    """Send the request over plain HTTP."""
    with octostore.connect(server.url, token=server.token) as store:
        values = {"J": name, "L": same.prepare(store, name)}
    path = re.sub("[JL]", lambda found: values[found.group()], same.path)
    body = same.body and {key: values.get(str(value), value) for key, value in same.body.items()}
    return server.request(same.method, path, body).json


@pytest.mark.parametrize("case", CASES)
def test_the_fields_are_those_of_the_server(cli: Cli, case: str, server: ServerProcess) -> None:
    same = CASES[case]
    secret = same.prepare(cli.store, cli.job)
    words = [word.replace("J", cli.job) if word != "L" else secret for word in same.line.split()]
    done = cli.call(*words, "--json")
    assert done.code == same.code
    assert (done.err == "") == ("code" not in done.json)
    response = ask(server, same, cli.new_name("twin"))
    assert isinstance(response, dict)
    expected = {name: value for name, value in response.items() if name not in OF_THE_REQUEST}
    found = {name: value for name, value in done.json.items() if name not in OF_THE_COMMAND_LINE}
    numbers = {name: value for name, value in OF_THE_NETWORK.items() if name in expected}
    lists = {name: value for name, value in OF_THE_MOMENT.items() if name in expected and name in found}
    assert shape(found | numbers | lists) == shape(expected | numbers | lists)


def test_the_fields_of_sessions(cli: Cli, server: ServerProcess) -> None:
    name = cli.new_name("session")
    with cli.store.open_session(agent="ann", session_id=name):
        (session,) = (one for one in cli.json("sessions")["sessions"] if one["session_id"] == name)
    with octostore.connect(server.url, token=server.token) as store, store.open_session(agent="ann"):
        response = server.get("/sessions?status=open").json
    assert set(cli.json("sessions")) == set(response)
    assert set(response["sessions"][0]) - set(session) == FOR_LOCK_CLIENTS


@pytest.mark.parametrize("prepare", [session, handed_over])
def test_the_fields_of_a_session(cli: Cli, server: ServerProcess, prepare: Prepare) -> None:
    prepare(cli.store, cli.job)
    printed = cli.json("sessions", cli.job)
    with octostore.connect(server.url, token=server.token) as store:
        prepare(store, cli.job + "-twin")
    response = server.get(f"/sessions/{cli.job}-twin").json
    assert shape(printed) == shape({name: value for name, value in response.items() if name not in FOR_LOCK_CLIENTS})
    assert printed["context"] == {"turn": 7}


def test_followed_events_are_those_of_the_stream(cli: Cli, server: ServerProcess) -> None:
    cli.lease()
    done = cli.run("events", "--job", cli.job, "--follow", "--limit", "1", "--json")
    with octostore.connect(server.url, token=server.token) as store:
        store.claim_job(cli.job + "-twin")
    with server.stream(f"/events?job={cli.job}-twin") as stream:
        assert shape(done.json) == shape(stream.next().data)


def test_the_fields_of_completion(cli: Cli) -> None:
    assert set(cli.json("completion", "bash")) == {"shell", "script"}


def shape(value: Any) -> Any:
    """The names and types of all fields, recursively; of lists, those of the first item."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value).__name__
