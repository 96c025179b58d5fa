"""Watching a lock: one frame per change, without anything that only its holder may know."""

from datetime import datetime
from typing import Any

import pytest

from tests.support.connections import Stream
from tests.support.processes import until
from tests.support.server import ServerProcess


@pytest.fixture(scope="module")
def reader(server: ServerProcess) -> str:
    return server.new_token("reader", "read")


def acquire(server: ServerProcess, name: str, **terms: Any) -> Any:
    return server.post(f"/locks/{name}/acquire", {"metadata": "only for readers of the lock", **terms}).json


def events(stream: Stream, count: int) -> list[str]:
    return [frame.data["event"] for frame in stream.take(count)]


def test_a_watch_shows_the_lifecycle_of_a_lock(server: ServerProcess, reader: str) -> None:
    with server.stream("/locks/watched/watch", token=reader) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        first = stream.next()
        assert (first.data["event"], first.data["lock_name"]) == ("released", "watched"), "the lock is free"
        lock = acquire(server, "watched")
        acquired = stream.next().data
        assert (acquired["event"], acquired["fencing_token"]) == ("acquired", lock["fencing_token"])
        assert acquired["expires_at"] == lock["expires_at"]
        lease = {"lease_id": lock["lease_id"]}
        renewal = server.post("/locks/watched/renew", {**lease, "ttl_seconds": 90}).json
        renewed = stream.next().data
        assert (renewed["event"], renewed["fencing_token"]) == ("renewed", lock["fencing_token"])
        assert renewed["expires_at"] == renewal["expires_at"]
        server.post("/locks/watched/release", lease)
        released = stream.next().data
        assert set(released) == {"event", "lock_name", "observed_at"}
        assert released["event"] == "released"
        for data in (first.data, acquired, renewed, released):
            assert data["lock_name"] == "watched"
            assert datetime.fromisoformat(data["observed_at"]).tzinfo is not None
        assert set(acquired) == set(renewed) == {"event", "lock_name", "observed_at", "fencing_token", "expires_at"}


def test_the_watch_of_a_held_lock_starts_with_acquired(server: ServerProcess, reader: str) -> None:
    lock = acquire(server, "held-before")
    with server.stream("/locks/held-before/watch", token=reader) as stream:
        first = stream.next().data
    assert (first["event"], first["fencing_token"]) == ("acquired", lock["fencing_token"])
    assert first["expires_at"] == lock["expires_at"]


def test_a_lock_with_a_slash_in_its_name_can_be_watched(server: ServerProcess, reader: str) -> None:
    with server.stream("/locks/team%2Fdeploy/watch", token=reader) as stream:
        assert stream.next().data["lock_name"] == "team/deploy"


def test_an_expiry_is_seen_when_it_happens(server: ServerProcess, reader: str) -> None:
    with server.stream("/locks/expiring/watch", token=reader) as stream:
        assert events(stream, 1) == ["released"], "the lock is free"
        lock = acquire(server, "expiring", ttl_seconds=1)
        expired = stream.take(2)[-1].data
    assert expired["event"] == "expired"
    assert set(expired) == {"event", "lock_name", "observed_at"}
    assert datetime.fromisoformat(expired["observed_at"]) >= datetime.fromisoformat(lock["expires_at"])


def test_acquiring_again_is_a_renewal(server: ServerProcess, reader: str) -> None:
    acquire(server, "reentered", ttl_seconds=30)
    with server.stream("/locks/reentered/watch", token=reader) as stream:
        assert events(stream, 1) == ["acquired"]
        acquire(server, "reentered", ttl_seconds=60)
        assert events(stream, 1) == ["renewed"]


def test_an_ephemeral_lock_lasts_as_long_as_its_session(server: ServerProcess, reader: str) -> None:
    session = server.post("/sessions").json["session_id"]
    with server.stream("/locks/ephemeral/watch", token=reader) as stream:
        stream.next()
        lock = acquire(server, "ephemeral", session_id=session, ephemeral=True)
        acquired = stream.next().data
        assert (acquired["event"], acquired["expires_at"]) == ("acquired", lock["expires_at"])
        server.request("DELETE", f"/sessions/{session}")
        assert stream.next().data["event"] == "released"


@pytest.mark.parametrize("outcome", ["released", "done", "failed", "deferred"])
def test_however_a_claim_ends_the_lock_is_released(server: ServerProcess, reader: str, outcome: str) -> None:
    with server.stream(f"/locks/job-{outcome}/watch", token=reader) as stream:
        stream.next()
        claim = server.post(f"/jobs/job-{outcome}/claim").json
        server.post(f"/jobs/job-{outcome}/heartbeat", {"lease_id": claim["lease_id"], "ttl_seconds": 300})
        server.post(f"/jobs/job-{outcome}/release", {"lease_id": claim["lease_id"], "outcome": outcome})
        assert events(stream, 1) == ["acquired"]
        seen = events(stream, 1)
        assert seen == ["released"] or (seen == ["renewed"] and events(stream, 1) == ["released"])


def test_force_release_shows_as_released(server: ServerProcess, reader: str) -> None:
    acquire(server, "taken-away")
    with server.stream("/locks/taken-away/watch", token=reader) as stream:
        assert events(stream, 1) == ["acquired"]
        server.post("/jobs/taken-away/force-release", {"reason": "stuck"})
        assert events(stream, 1) == ["released"]


def test_events_from_before_the_first_frame_are_not_repeated(server: ServerProcess, reader: str) -> None:
    for number in range(30):
        name = f"fresh-{number}"
        lease = {"lease_id": acquire(server, name)["lease_id"]}
        with server.stream(f"/locks/{name}/watch", token=reader) as stream:
            assert events(stream, 1) == ["acquired"]
            server.post(f"/locks/{name}/release", lease)
            assert events(stream, 1) == ["released"]
        acquire(server, name)
        server.post(f"/jobs/{name}/force-release")
        with server.stream(f"/locks/{name}/watch", token=reader) as stream:
            assert events(stream, 1) == ["released"]
            acquire(server, name)
            acquired = stream.next().data
            assert acquired["event"] == "acquired"
            assert acquired["fencing_token"] == server.get(f"/locks/{name}").json["fencing_token"]


def test_a_watch_shows_no_other_locks_and_no_secrets(server: ServerProcess, reader: str) -> None:
    session = server.post("/sessions").json
    holder = acquire(server, "quiet")
    secrets = [holder["lease_id"], session["lease_id"], server.token]
    seen = []
    with server.stream("/locks/quiet/watch", token=reader) as stream:
        seen.append(stream.next())
        secrets.append(acquire(server, "loud")["lease_id"])
        server.post("/locks/quiet/renew", {"lease_id": holder["lease_id"], "ttl_seconds": 90})
        seen.append(stream.next())
        server.post("/locks/quiet/release", {"lease_id": holder["lease_id"]})
        seen.append(stream.next())
    assert [frame.data["event"] for frame in seen] == ["acquired", "renewed", "released"]
    text = str(seen)
    assert not [secret for secret in secrets if secret in text]
    for word in ("only for readers", "holder", "metadata", "lease_id", "admin", session["session_id"]):
        assert word not in text


def test_a_watch_ends_with_its_token(server: ServerProcess) -> None:
    created = server.post("/tokens", {"name": "short-lived", "scopes": ["read"]}).json
    with server.stream("/locks/ending/watch", token=created["token"]) as stream:
        stream.next()
        server.request("DELETE", f"/tokens/{created['token_id']}")
        assert stream.rest() == []


def test_a_watch_ends_when_its_token_is_rotated(server: ServerProcess) -> None:
    token = server.new_token("rotating", "read")
    with server.stream("/locks/ending/watch", token=token) as stream:
        stream.next()
        server.post("/auth/token/rotate", token=token)
        assert stream.rest() == []


def test_a_watch_shows_no_renewal_after_its_token_expired(server: ServerProcess) -> None:
    lease = {"lease_id": acquire(server, "renewed-too-late")["lease_id"]}
    token = server.new_token("expiring", "read", expires_in_seconds=1)
    with server.stream("/locks/renewed-too-late/watch", token=token) as stream:
        assert events(stream, 1) == ["acquired"]
        until(lambda: server.get("/locks/renewed-too-late", token=token).status == 401)
        server.post("/locks/renewed-too-late/renew", {**lease, "ttl_seconds": 90})
        assert stream.rest() == []
