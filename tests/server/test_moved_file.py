"""A server whose file was moved away acknowledges no writes, logs it, and continues when the file is back."""

import pytest

import octostore
from tests.support.processes import until
from tests.support.server import ServerProcess


def test_no_write_is_acknowledged_while_the_file_is_moved_away(own_server: ServerProcess) -> None:
    claim = own_server.post("/jobs/mine/claim", {"owner": "ann"}).json
    path = own_server.home / "octostore.db"
    path.rename(own_server.home / "elsewhere.db")
    calls = [
        ("POST", "/jobs/other/claim", {"owner": "bob"}),
        ("POST", "/jobs/mine/heartbeat", {"lease_id": claim["lease_id"]}),
        ("POST", "/jobs/mine/release", {"lease_id": claim["lease_id"]}),
        ("GET", "/jobs/mine", None),
        ("GET", "/readyz", None),
    ]
    for method, target, body in calls:
        response = own_server.request(method, target, body)
        assert (response.status, response.json["reason"]) == (503, "moved"), target
    until(lambda: "store_lost" in own_server.log)
    (own_server.home / "elsewhere.db").rename(path)
    until(lambda: own_server.get("/readyz").status == 200)
    assert own_server.get("/jobs/mine").json["status"] == "claimed"
    assert own_server.post("/jobs/other/claim", {"owner": "bob"}).json["status"] == "claimed"
    until(lambda: "store_back" in own_server.log)


def test_a_stream_that_needs_the_store_gets_the_error(own_server: ServerProcess) -> None:
    own_server.claim("mine")
    own_server.stop()
    with ServerProcess(own_server.home) as server:  # it does not have the first events in memory
        server.get("/jobs/mine")
        (server.home / "octostore.db").rename(server.home / "elsewhere.db")
        for path in ("/events", "/locks/mine/watch"):
            response = server.get(path, headers={"Accept": "text/event-stream"})
            assert (response.status, response.json["reason"]) == (503, "moved"), path
        with pytest.raises(octostore.Unreachable) as caught, octostore.connect(server.url, token=server.token) as store:
            next(iter(store.events(follow=True)))
        assert caught.value.reason == "moved"
