"""The lock routes as existing OctoStore clients use them: wire.md, row by row and sentence by sentence."""

import re
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.connections import Response
from tests.support.processes import until
from tests.support.server import ServerProcess

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def ann(server: ServerProcess) -> str:
    return server.new_token("ann")


@pytest.fixture(scope="module")
def bob(server: ServerProcess) -> str:
    return server.new_token("bob")


def acquire(server: ServerProcess, name: str, token: str, **terms: Any) -> Any:
    response = server.post(f"/locks/{name}/acquire", terms, token=token)
    assert response.status == 200, response
    return response.json


def open_session(server: ServerProcess, token: str, **terms: Any) -> Any:
    response = server.post("/sessions", terms, token=token)
    assert response.status == 201, response
    return response.json


def moment(text: str) -> datetime:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", text), text
    return datetime.fromisoformat(text)


def in_seconds(text: str) -> float:
    """In whole milliseconds, rounded down: the store's clock may be a fraction of one ahead."""
    return (moment(text) - datetime.now(UTC)) // timedelta(milliseconds=1) / 1_000


def is_refused(response: Response, status: int, code: str) -> bool:
    assert (response.status, response.json["code"]) == (status, code), response
    return True


# Acquiring


def test_a_free_lock_is_acquired(server: ServerProcess, ann: str) -> None:
    response = server.post("/locks/free/acquire", {"ttl_seconds": 30, "metadata": "host=runner-7"}, token=ann)
    assert response.status == 200
    assert response.headers["content-type"] == "application/json"
    lock = response.json
    assert set(lock) == {"status", "lease_id", "fencing_token", "expires_at", "renew_after_ms", "metadata"}
    assert (lock["status"], lock["metadata"]) == ("acquired", "host=runner-7")
    assert str(uuid.UUID(lock["lease_id"])) == lock["lease_id"]
    assert isinstance(lock["fencing_token"], int)
    assert 25 < in_seconds(lock["expires_at"]) <= 30
    assert lock["renew_after_ms"] == 15_000


def test_without_a_body_a_lock_lasts_a_minute_and_has_no_metadata(server: ServerProcess, ann: str) -> None:
    lock = server.post("/locks/bodiless/acquire", token=ann).json
    assert (lock["status"], lock["metadata"], lock["renew_after_ms"]) == ("acquired", None, 30_000)


def test_a_held_lock_shows_its_holder_and_expiry(server: ServerProcess, ann: str, bob: str) -> None:
    mine = acquire(server, "held", ann, ttl_seconds=30, metadata="mine")
    theirs = acquire(server, "held", bob)
    assert set(theirs) == {"status", "holder_id", "expires_at", "retry_after_ms", "metadata"}
    assert (theirs["status"], theirs["metadata"], theirs["expires_at"]) == ("held", "mine", mine["expires_at"])
    assert 25_000 < theirs["retry_after_ms"] <= 30_000
    assert str(uuid.UUID(theirs["holder_id"])) == theirs["holder_id"]


def test_the_holder_can_acquire_its_lock_again_with_the_same_lease(server: ServerProcess, ann: str) -> None:
    first = acquire(server, "again", ann, ttl_seconds=30, metadata="first")
    again = acquire(server, "again", ann, ttl_seconds=90, metadata="first")
    assert (again["status"], again["metadata"]) == ("acquired", "first")
    assert (again["lease_id"], again["fencing_token"]) == (first["lease_id"], first["fencing_token"])
    assert 85 < in_seconds(again["expires_at"]) <= 90
    assert [event["type"] for event in server.events("again")] == ["claimed"]


def test_two_tokens_of_one_name_are_one_holder(server: ServerProcess) -> None:
    one, other = server.new_token("twins"), server.new_token("twins")
    assert acquire(server, "twin", one)["lease_id"] == acquire(server, "twin", other)["lease_id"]


def test_a_lock_delay_refuses_everyone_after_the_release(server: ServerProcess, ann: str, bob: str) -> None:
    lock = acquire(server, "delayed", ann, lock_delay_seconds=7)
    server.post("/locks/delayed/release", {"lease_id": lock["lease_id"]}, token=ann)
    for token in (ann, bob):
        response = server.post("/locks/delayed/acquire", token=token)
        assert response.status == 409
        delayed = response.json
        assert set(delayed) == {"status", "available_at", "lock_delay_seconds", "retry_after_ms"}
        assert (delayed["status"], delayed["lock_delay_seconds"]) == ("delayed", 7)
        assert 2_000 < delayed["retry_after_ms"] <= 7_000
        assert 2 < in_seconds(delayed["available_at"]) <= 7


def test_an_expired_lock_is_free(server: ServerProcess, ann: str, bob: str) -> None:
    first = acquire(server, "expiring", ann, ttl_seconds=1)
    until(lambda: acquire(server, "expiring", bob)["status"] == "acquired", seconds=3)
    for call in ("renew", "release"):
        response = server.post(f"/locks/expiring/{call}", {"lease_id": first["lease_id"]}, token=ann)
        assert is_refused(response, 404, "lease_not_current")


def test_a_claim_of_the_same_principal_is_not_its_lock(server: ServerProcess, ann: str) -> None:
    claim = server.post("/jobs/a-job/claim", {"metadata": {"pr": 7}}, token=ann).json
    lock = acquire(server, "a-job", ann)
    assert (lock["status"], lock["metadata"]) == ("held", '{"pr": 7}')
    assert claim["lease_id"] not in str(lock)


def test_a_cancelled_job_cannot_be_acquired_as_a_lock(server: ServerProcess, ann: str) -> None:
    server.post("/jobs", {"kind": "k", "job_id": "cancelled"})
    server.post("/jobs/cancelled/cancel")
    assert is_refused(server.post("/locks/cancelled/acquire", token=ann), 409, "conflict")


def test_a_finished_job_is_still_finished_after_a_lock(server: ServerProcess, ann: str) -> None:
    claim = server.post("/jobs/finished/claim", {"owner": "ann"}, token=ann).json
    server.post("/jobs/finished/release", {"lease_id": claim["lease_id"], "outcome": "done", "result": 7}, token=ann)
    lock = acquire(server, "finished", ann)
    server.post("/locks/finished/release", {"lease_id": lock["lease_id"]}, token=ann)
    again = server.post("/jobs/finished/claim", {"owner": "ann"}, token=ann).json
    assert (again["status"], again["result"]) == ("done", 7)


# Renewing and releasing


def test_renewing(server: ServerProcess, ann: str) -> None:
    lock = acquire(server, "renewed", ann, ttl_seconds=10)
    response = server.post("/locks/renewed/renew", {"lease_id": lock["lease_id"], "ttl_seconds": 100}, token=ann)
    assert response.status == 200
    assert set(response.json) == {"lease_id", "expires_at", "renew_after_ms"}
    assert (response.json["lease_id"], response.json["renew_after_ms"]) == (lock["lease_id"], 50_000)
    server.post("/jobs/renewed/stop", {"reason": "going down"})
    again = server.post("/locks/renewed/renew", {"lease_id": lock["lease_id"]}, token=ann).json
    assert again["stop_requested"]["reason"] == "going down"
    assert 95 < in_seconds(response.json["expires_at"]) <= 100
    usual = server.post("/locks/renewed/renew", {"lease_id": lock["lease_id"]}, token=ann).json
    assert usual["renew_after_ms"] == 30_000


def test_releasing_returns_null_and_releasing_twice_404(server: ServerProcess, ann: str, bob: str) -> None:
    lease = {"lease_id": acquire(server, "released", ann)["lease_id"]}
    first = server.post("/locks/released/release", lease, token=ann)
    assert (first.status, first.body) == (200, b"null")
    assert is_refused(server.post("/locks/released/release", lease, token=ann), 404, "lease_not_current")
    assert is_refused(server.post("/locks/released/renew", lease, token=ann), 404, "lease_not_current")
    assert acquire(server, "released", bob)["status"] == "acquired"


@pytest.mark.parametrize("call", ["renew", "release"])
def test_a_lease_of_another_lock_is_not_current(server: ServerProcess, ann: str, call: str) -> None:
    acquire(server, f"one-{call}", ann)
    other = acquire(server, f"other-{call}", ann)["lease_id"]
    for lease in (other, UNKNOWN, other.upper(), other.replace("-", "")):
        response = server.post(f"/locks/one-{call}/{call}", {"lease_id": lease}, token=ann)
        assert is_refused(response, 404, "lease_not_current")
    assert is_refused(
        server.post(f"/locks/never-{call}/{call}", {"lease_id": UNKNOWN}, token=ann), 404, "lease_not_current"
    )


@pytest.mark.parametrize("call", ["renew", "release"])
@pytest.mark.parametrize("lease", ["", "nonsense", "1", "'; --", "\u00e9" * 36, UNKNOWN + "0"])
def test_a_malformed_lease_is_400(server: ServerProcess, ann: str, call: str, lease: str) -> None:
    response = server.post(f"/locks/malformed/{call}", {"lease_id": lease}, token=ann)
    assert is_refused(response, 400, "lease_not_current")


# Reading


def test_a_name_never_seen_is_a_free_lock(server: ServerProcess, ann: str) -> None:
    response = server.get("/locks/never-seen", token=ann)
    assert response.status == 200
    assert response.json == {
        "name": "never-seen",
        "status": "free",
        "holder_id": None,
        "fencing_token": 0,
        "expires_at": None,
        "metadata": None,
    }


def test_a_lock_as_others_see_it(server: ServerProcess, ann: str, bob: str) -> None:
    lock = acquire(server, "looked-at", ann, metadata="shown")
    seen = server.get("/locks/looked-at", token=bob).json
    assert (seen["name"], seen["status"], seen["metadata"]) == ("looked-at", "held", "shown")
    assert (seen["fencing_token"], seen["expires_at"]) == (lock["fencing_token"], lock["expires_at"])
    assert seen["holder_id"] == acquire(server, "looked-at", bob)["holder_id"]
    server.post("/locks/looked-at/release", {"lease_id": lock["lease_id"]}, token=ann)
    free = server.get("/locks/looked-at", token=bob).json
    assert (free["status"], free["holder_id"], free["expires_at"], free["metadata"]) == ("free", None, None, None)
    assert free["fencing_token"] == lock["fencing_token"], "its last one"


def test_live_locks_are_listed_by_prefix(server: ServerProcess, ann: str, bob: str) -> None:
    leases = {name: acquire(server, name, ann)["lease_id"] for name in ("list-a", "list-b", "list-c", "lisp")}
    server.post("/locks/list-b/release", {"lease_id": leases["list-b"]}, token=ann)
    response = server.get("/locks?prefix=list-", token=bob)
    assert response.status == 200
    assert set(response.json) == {"locks", "total", "prefix"}
    assert [lock["name"] for lock in response.json["locks"]] == ["list-a", "list-c"]
    assert (response.json["total"], response.json["prefix"]) == (2, "list-")
    assert response.json["locks"][0] == server.get("/locks/list-a", token=bob).json
    assert server.get("/locks?prefix=lister-", token=bob).json == {"locks": [], "total": 0, "prefix": "lister-"}
    everything = server.get("/locks", token=bob).json
    assert everything["prefix"] is None
    assert {"list-a", "list-c", "lisp"} <= {lock["name"] for lock in everything["locks"]}


def test_a_list_of_many_locks_has_pages_and_a_total(tmp_path: Path) -> None:
    """Clients that know nothing of pages can tell from the total that locks are missing."""
    with ServerProcess(tmp_path, "--max-locks", "2000") as server, server.connect() as connection:
        for number in range(1_001):
            connection.request("POST", f"/locks/many-{number:04}/acquire", token=server.token)
            assert connection.response().status == 200
        first = server.get("/locks").json
        rest = server.get(f"/locks?cursor={first['cursor']}").json
        few = server.get("/locks?prefix=many-00&limit=99").json
    assert (len(first["locks"]), first["total"], first["cursor"]) == (1_000, 1_001, "many-0999")
    assert (len(rest["locks"]), rest["total"], "cursor" in rest) == (1, 1_001, False)
    assert [lock["name"] for lock in first["locks"] + rest["locks"]] == [f"many-{number:04}" for number in range(1_001)]
    assert (len(few["locks"]), few["total"], few["cursor"]) == (99, 100, "many-0098")


def test_a_name_with_a_slash_is_one_segment(server: ServerProcess, ann: str) -> None:
    lock = acquire(server, "team%2Fdeploy%2fmain", ann)
    assert server.get("/locks/team%2Fdeploy%2Fmain", token=ann).json["name"] == "team/deploy/main"
    assert server.get("/locks?prefix=team/", token=ann).json["total"] == 1
    response = server.post("/locks/team%2Fdeploy%2Fmain/release", {"lease_id": lock["lease_id"]}, token=ann)
    assert response.status == 200
    assert server.get("/locks/team/deploy/main", token=ann).status == 404


def test_a_name_with_non_ascii_letters(server: ServerProcess, ann: str) -> None:
    acquire(server, "d%C3%A9ploiement", ann)
    assert server.get("/locks/d%C3%A9ploiement", token=ann).json["name"] == "déploiement"


# Sessions


def test_a_session(server: ServerProcess, ann: str) -> None:
    opened = open_session(server, ann)
    assert str(uuid.UUID(opened["session_id"])) == opened["session_id"]
    assert 55 < in_seconds(opened["expires_at"]) <= 60
    assert opened["keepalive_interval_secs"] == 30
    path = f"/sessions/{opened['session_id']}"
    kept = server.post(f"{path}/keepalive", token=ann)
    assert kept.status == 200
    assert kept.json["session_id"] == opened["session_id"]
    assert moment(kept.json["expires_at"]) >= moment(opened["expires_at"])
    seen = server.get(path, token=ann)
    assert seen.status == 200
    session = seen.json
    assert (session["session_id"], session["lock_count"], session["active"]) == (opened["session_id"], 0, True)
    assert session["expires_at"] == kept.json["expires_at"]
    assert str(uuid.UUID(session["user_id"])) == session["user_id"]
    ended = server.request("DELETE", path, token=ann)
    assert (ended.status, ended.body) == (204, b"")
    assert server.get(path, token=ann).json["active"] is False
    assert server.post(f"{path}/keepalive", token=ann).status == 410


def test_an_expired_session_is_gone_and_so_are_its_locks(server: ServerProcess, ann: str) -> None:
    opened = open_session(server, ann, agent="short", ttl_seconds=1)
    session, lease = opened["session_id"], {"lease_id": opened["lease_id"]}
    acquire(server, "ends-with-it", ann, session_id=session, ephemeral=True)
    until(lambda: server.get(f"/sessions/{session}", token=ann).json["active"] is False, seconds=3)
    assert is_refused(server.post(f"/sessions/{session}/keepalive", lease, token=ann), 410, "lease_lost")
    assert is_refused(server.request("DELETE", f"/sessions/{session}", lease, token=ann), 410, "lease_lost")
    assert server.get("/locks/ends-with-it", token=ann).json["status"] == "free"


@pytest.mark.parametrize(
    ("requested", "granted"), [(1, 10), (0, 10), (-5, 10), (10, 10), (45, 45), (300, 300), (9e9, 300)]
)
def test_a_sessions_ttl_is_kept_in_bounds(server: ServerProcess, ann: str, requested: float, granted: int) -> None:
    assert granted - 5 < in_seconds(open_session(server, ann, ttl_seconds=requested)["expires_at"]) <= granted


@pytest.mark.parametrize(("method", "path"), [("POST", "/keepalive"), ("GET", ""), ("DELETE", "")])
def test_another_principals_session_looks_like_an_unknown_one(
    server: ServerProcess, ann: str, bob: str, method: str, path: str
) -> None:
    session = open_session(server, ann)["session_id"]
    theirs = server.request(method, f"/sessions/{session}{path}", token=bob)
    unknown = server.request(method, f"/sessions/{UNKNOWN}{path}", token=bob)
    assert is_refused(theirs, 404, "not_found")
    assert is_refused(unknown, 404, "not_found")
    assert theirs.json["error"].replace(session, "") == unknown.json["error"].replace(UNKNOWN, "")
    assert server.get(f"/sessions/{session}", token=ann).json["active"] is True


def test_ephemeral_locks_belong_to_their_session_and_end_with_it(server: ServerProcess, ann: str) -> None:
    one, other = (open_session(server, ann)["session_id"] for _ in range(2))
    first = acquire(server, "ephemeral", ann, session_id=one, ephemeral=True)
    again = acquire(server, "ephemeral", ann, session_id=one, ephemeral=True)
    assert again["lease_id"] == first["lease_id"]
    assert acquire(server, "ephemeral", ann, session_id=other, ephemeral=True)["status"] == "held"
    assert acquire(server, "ephemeral", ann)["status"] == "held", "the principal itself is a different holder"
    assert 55 < in_seconds(first["expires_at"]) <= 60, "its session's TTL"
    assert server.get(f"/sessions/{one}", token=ann).json["lock_count"] == 1
    server.request("DELETE", f"/sessions/{one}", token=ann)
    assert server.get("/locks/ephemeral", token=ann).json["status"] == "free"
    assert acquire(server, "ephemeral", ann, session_id=other, ephemeral=True)["status"] == "acquired"


def test_a_lock_that_is_not_ephemeral_outlives_the_session(server: ServerProcess, ann: str) -> None:
    session = open_session(server, ann)["session_id"]
    lock = acquire(server, "lasting", ann, session_id=session)
    assert acquire(server, "lasting", ann)["lease_id"] == lock["lease_id"], "the principal holds it"
    server.request("DELETE", f"/sessions/{session}", token=ann)
    assert server.get("/locks/lasting", token=ann).json["status"] == "held"


def test_a_lock_needs_an_open_session(server: ServerProcess, ann: str, bob: str) -> None:
    theirs, ended = (open_session(server, ann)["session_id"] for _ in range(2))
    server.request("DELETE", f"/sessions/{ended}", token=ann)

    def try_to_acquire(token: str, **terms: Any) -> Response:
        return server.post("/locks/bound/acquire", terms, token=token)

    assert is_refused(try_to_acquire(ann, ephemeral=True), 400, "invalid_input")
    assert is_refused(try_to_acquire(bob, session_id=theirs, ephemeral=True), 404, "not_found")
    assert is_refused(try_to_acquire(ann, session_id=UNKNOWN), 404, "not_found")
    assert is_refused(try_to_acquire(ann, session_id=ended, ephemeral=True), 410, "lease_lost")
    assert server.get("/locks/bound", token=ann).json["status"] == "free"


# Pseudonyms and tokens


def test_a_holder_has_one_pseudonym_that_reveals_nothing(server: ServerProcess, ann: str, bob: str) -> None:
    session = open_session(server, ann)["session_id"]
    acquire(server, "pseudonym-1", ann)
    acquire(server, "pseudonym-2", ann)
    acquire(server, "pseudonym-3", ann, session_id=session, ephemeral=True)
    acquire(server, "pseudonym-4", bob)
    holders = [server.get(f"/locks/pseudonym-{number}", token=ann).json["holder_id"] for number in range(1, 5)]
    assert holders[0] == holders[1]
    assert len(set(holders)) == 3
    user = server.get(f"/sessions/{session}", token=ann).json["user_id"]
    assert not {user, session} & set(holders)


def test_a_pseudonym_authorises_nothing(server: ServerProcess, ann: str, bob: str) -> None:
    acquire(server, "no-right", ann)
    holder = acquire(server, "no-right", bob)["holder_id"]
    response = server.post("/locks/no-right/release", {"lease_id": holder}, token=bob)
    assert is_refused(response, 404, "lease_not_current")


def test_rotating_a_token(server: ServerProcess) -> None:
    old = server.new_token("rotating", prefix="rot-")
    acquire(server, "rot-1", old)
    response = server.post("/auth/token/rotate", token=old)
    assert response.status == 200
    assert set(response.json) == {"token", "user_id", "github_username", "namespace"}
    assert (response.json["github_username"], response.json["namespace"]) == ("rotating", "rot-")
    assert is_refused(server.get("/locks/rot-1", token=old), 401, "authentication_failed")
    assert acquire(server, "rot-1", response.json["token"])["status"] == "acquired", "it still holds its locks"


# Fencing tokens


def test_fencing_tokens_grow_over_all_locks_and_after_a_restart(tmp_path: Path) -> None:
    tokens: list[int] = []
    holders = set()
    for _ in range(2):
        with ServerProcess(tmp_path) as server:
            for name in ("one", "two", "one"):
                lock = acquire(server, name, server.token)
                tokens.append(lock["fencing_token"])
                holders.add(server.get(f"/locks/{name}").json["holder_id"])
                server.post(f"/locks/{name}/release", {"lease_id": lock["lease_id"]})
            tokens.append(server.post("/jobs/three/claim").json["fencing_token"])
            server.post("/jobs/three/force-release")
    assert tokens == sorted(set(tokens))
    assert len(holders) == 1, "and the pseudonym stays the same"


# Errors


@pytest.mark.parametrize("ttl", [0, 0.5, -1, 3_601, 3_600.5, 1e18, 1e400])
@pytest.mark.parametrize("call", ["acquire", "renew"])
def test_a_ttl_out_of_range_is_refused(server: ServerProcess, ann: str, call: str, ttl: float) -> None:
    body = f'{{"lease_id": "{UNKNOWN}", "ttl_seconds": {"1e400" if ttl == 1e400 else ttl}}}'.encode()
    assert is_refused(server.post(f"/locks/bad-ttl/{call}", raw=body, token=ann), 400, "invalid_ttl")


@pytest.mark.parametrize("ttl", [1, 1.5, 3_600])
def test_a_ttl_in_range_is_accepted(server: ServerProcess, ann: str, ttl: float) -> None:
    lock = acquire(server, f"good-ttl-{ttl}", ann, ttl_seconds=ttl)
    assert lock["renew_after_ms"] == ttl * 500


@pytest.mark.parametrize(
    "terms",
    [
        {"metadata": "x" * 1_025},
        {"metadata": "é" * 1_025},
        {"metadata": "nul \0 nul"},
        {"lock_delay_seconds": -1},
        {"lock_delay_seconds": 31},
        {"session_id": ""},
        {"session_id": "no spaces"},
    ],
    ids=str,
)
def test_invalid_values_are_refused(server: ServerProcess, ann: str, terms: dict[str, Any]) -> None:
    assert is_refused(server.post("/locks/bad-value/acquire", terms, token=ann), 400, "invalid_input")


def test_metadata_may_have_1024_characters(server: ServerProcess, ann: str) -> None:
    """wire-more.md: in characters, whatever they take in bytes."""
    for number, metadata in enumerate(["x" * 1_024, "é" * 1_024, '"' * 1_024, "\n" * 1_024, ""]):
        assert acquire(server, f"metadata-{number}", ann, metadata=metadata)["metadata"] == metadata


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("acquire", {"ttl_seconds": "60"}),
        ("acquire", {"ttl_seconds": True}),
        ("acquire", {"ttl_seconds": None}),
        ("acquire", {"metadata": {"not": "text"}}),
        ("acquire", {"ephemeral": "yes"}),
        ("acquire", {"session_id": 7}),
        ("acquire", {"lock_delay_seconds": "1"}),
        ("acquire", []),
        ("renew", {}),
        ("renew", {"lease_id": None}),
        ("renew", {"lease_id": UNKNOWN, "ttl_seconds": "1"}),
        ("release", {}),
        ("release", {"lease_id": 7}),
    ],
    ids=str,
)
def test_a_body_of_the_wrong_shape_is_refused(server: ServerProcess, ann: str, call: str, body: Any) -> None:
    assert is_refused(server.post(f"/locks/bad-shape/{call}", body, token=ann), 422, "invalid_input")


def test_unknown_fields_are_ignored(server: ServerProcess, ann: str) -> None:
    assert acquire(server, "more-fields", ann, client_version="0.14")["status"] == "acquired"


@pytest.mark.parametrize(
    ("method", "call"), [("POST", "/acquire"), ("POST", "/renew"), ("POST", "/release"), ("GET", ""), ("GET", "/watch")]
)
@pytest.mark.parametrize(
    "name",
    ["a%20b", "..", "%2e", "a%2F%2Fb", "x" * 65, "a%00", "%C3%28", "a%0Ab", "a%23b", "a:b", "a@b", "a+b", "a%3Db"],
)
def test_an_invalid_name_is_refused(server: ServerProcess, ann: str, method: str, call: str, name: str) -> None:
    body = {"lease_id": UNKNOWN} if method == "POST" else None
    response = server.request(method, f"/locks/{name}{call}", body, token=ann)
    assert is_refused(response, 400, "invalid_lock_name")
    assert (response.json["field"], response.json["error"].partition(" ")[0]) == ("name", "name")


def test_a_missing_or_wrong_token_is_refused(server: ServerProcess) -> None:
    assert is_refused(server.post("/locks/x/acquire", token=""), 401, "authentication_required")
    assert is_refused(server.post("/locks/x/acquire", token="wrong"), 401, "authentication_failed")


def test_an_error_has_a_message_details_and_a_request_id(server: ServerProcess, ann: str) -> None:
    response = server.post("/locks/x/acquire", {"ttl_seconds": 0}, token=ann, headers={"X-Request-Id": "mine"})
    assert response.headers["content-type"] == "application/json"
    error = response.json
    assert {"error", "code", "details", "request_id"} <= set(error)
    assert all(isinstance(error[name], str) and error[name] for name in ("error", "code", "details"))
    assert re.fullmatch(r"req_[0-9a-f]{32}", error["request_id"])
    assert response.headers["x-request-id"] == error["request_id"]


def test_every_response_has_its_own_request_id(server: ServerProcess, ann: str) -> None:
    responses = [server.get("/locks/x", token=ann), server.get("/locks/x", token=ann), server.get("/health", token="")]
    ids = [response.headers["x-request-id"] for response in responses]
    assert all(re.fullmatch(r"req_[0-9a-f]{32}", one) for one in ids)
    assert len(set(ids)) == 3


# The server itself


def test_health_needs_no_token(server: ServerProcess) -> None:
    response = server.get("/health", token="")
    assert (response.status, response.json["status"]) == (200, "ok")
    assert len(response.json["store_id"]) == 32
    assert response.json["store_id"] == server.get("/status", token="").json["store_id"]


def test_status_counts(own_server: ServerProcess) -> None:
    server = own_server
    lock = acquire(server, "one", server.token)
    acquire(server, "two", server.token)
    server.post("/locks/one/release", {"lease_id": lock["lease_id"]})
    response = server.get("/status", token="")
    assert response.status == 200
    status = response.json
    assert (status["status"], status["active_locks"]) == ("ok", 1)
    assert (status["total_acquires"], status["total_releases"]) == (2, 1)
    assert 0 <= status["uptime_seconds"] < 60
