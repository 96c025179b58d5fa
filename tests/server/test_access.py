"""Authorization: scopes, prefixes, the lifecycle of tokens, and what others cannot see."""

import asyncio
import hashlib
import json
import os
import re
import stat
import string
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

import octostore
from octostore.core.errors import InvalidInput
from octostore.core.limits import TEXT_BYTES
from octostore.core.replies import FoundTokens, TokenView
from octostore.server.auth import Auth, read_static_tokens
from octostore.server.http import Request, RequestHeaders
from octostore.server.logins import Logins
from octostore.server.refusals import Refusal
from octostore.server.router import Route
from octostore.server.routes import ROUTES
from octostore.server.store import ServedStore
from octostore.wire.tokens import new_token, token_digest
from tests.support.connections import Response
from tests.support.processes import PATIENCE_SECONDS, ROOT, until
from tests.support.server import ServerProcess
from tests.support.starting import PROGRAM, run

SCOPES = ("read", "claim", "admin")
NOW = datetime.now(UTC)
UNKNOWN = "00000000-0000-4000-8000-000000000000"
BEHIND_TOKENS = [route for route in ROUTES if not route.is_public]
OF_A_JOB = [route for route in BEHIND_TOKENS if "{job_id}" in route.path]
OF_MATCHING = ("requeue_matching", "discard_matching")
OF_NO_NAME = [
    route
    for route in BEHIND_TOKENS
    if route.scope == "admin" and "{job_id}" not in route.path and route.operation not in OF_MATCHING
]


def call(server: ServerProcess, route: Route, token: str, name: str = "a-name") -> Response:
    path = re.sub(r"{\w+}", name, route.path)
    body = json.loads(json.dumps(route.example.get("body", {})).replace("$LEASE", UNKNOWN)) if route.body else None
    return server.request(route.method, path, body, token=token)


def error_of(response: Response) -> Any:
    """The error without its request id, which differs each time."""
    return {name: value for name, value in response.json.items() if name != "request_id"}


def by_name(route: Route) -> str:
    return route.name


# Scopes


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("route", BEHIND_TOKENS, ids=by_name)
def test_a_route_needs_its_scope(server: ServerProcess, route: Route, scope: str) -> None:
    seq = server.seq
    response = call(server, route, server.new_token("scoped", scope))
    if route.scope in {None, scope} or scope == "admin":
        assert response.status not in {401, 403}, response
    else:
        assert (response.status, response.json["code"]) == (403, "not_allowed")
        assert f"the {route.scope} scope" in response.json["error"]
        assert server.seq == seq + 1, "the new token's event is the only one"
    assert response.status < 500


@pytest.mark.parametrize("route", BEHIND_TOKENS, ids=by_name)
def test_a_request_without_a_token_gets_only_a_challenge(server: ServerProcess, route: Route) -> None:
    response = call(server, route, "")
    assert (response.status, response.json["code"]) == (401, "authentication_required")
    challenge = response.headers["www-authenticate"]
    assert challenge == "Bearer" if route.challenge is None else challenge.startswith("Bearer resource_metadata=")


@pytest.mark.parametrize("route", [route for route in ROUTES if route.is_public and not route.is_page], ids=by_name)
def test_public_routes_need_no_token(server: ServerProcess, route: Route) -> None:
    assert call(server, route, "").status == 200


def test_scopes_match_the_contract() -> None:
    reading = {route.name for route in BEHIND_TOKENS if route.scope == "read"}
    operating = {route.name for route in BEHIND_TOKENS if route.scope == "admin"}
    assert {route.method for route in BEHIND_TOKENS if route.scope == "read"} == {"GET"}
    assert {"GET /jobs", "GET /jobs/{job_id}", "GET /events", "GET /locks", "GET /locks/{job_id}"} <= reading
    assert {f"POST /jobs/{{job_id}}/{call}" for call in ("requeue", "cancel", "force-release")} <= operating
    assert {"POST /recover", "POST /tokens", "GET /tokens"} <= operating
    # Routes about the caller's own token, and those where each command or tool has its own scope.
    unscoped = [route.name for route in BEHIND_TOKENS if route.scope is None]
    assert unscoped == ["POST /batch", "POST /mcp", "GET /auth/whoami", "POST /auth/token/rotate", "POST /auth/link"]


# Prefixes


@pytest.fixture(scope="module")
def limited(server: ServerProcess) -> str:
    """A token with all scopes, for its own names only."""
    return server.new_token("limited", *SCOPES, prefix="mine-")


@pytest.mark.parametrize("route", OF_A_JOB, ids=by_name)
def test_other_names_are_refused_whether_or_not_they_exist(server: ServerProcess, limited: str, route: Route) -> None:
    server.post("/jobs/theirs/claim")
    seq = server.seq
    existing, missing = call(server, route, limited, "theirs"), call(server, route, limited, "unknown")
    assert (existing.status, existing.json["code"]) == (403, "not_allowed")
    assert (existing.status, error_of(existing)) == (missing.status, error_of(missing))
    assert call(server, route, limited, "min").status == 403
    assert call(server, route, limited, "Mine-x").status == 403
    assert server.seq == seq


@pytest.mark.parametrize("route", OF_A_JOB, ids=by_name)
def test_own_names_are_not_refused(server: ServerProcess, limited: str, route: Route) -> None:
    assert call(server, route, limited, "mine-1").status != 403


@pytest.mark.parametrize("operation", OF_MATCHING)
def test_bulk_calls_change_own_jobs_only(server: ServerProcess, limited: str, operation: str) -> None:
    names = [f"mine-{operation}-1", f"mine-{operation}-2", f"theirs-{operation}"]
    for name in names:
        server.post("/jobs", {"kind": "build", "job_id": name, "queue": operation})
        server.post(f"/jobs/{name}/cancel")
    path = f"/jobs/{operation.removesuffix('_matching')}"
    seq = server.seq
    refused = server.post(path, {"prefix": "theirs-", "reason": "why"}, token=limited)
    assert (refused.status, refused.json["code"]) == (403, "not_allowed")
    assert server.seq == seq
    first = server.post(path, {"queue": operation, "reason": "why", "limit": 1}, token=limited)
    assert (first.status, first.json) == (200, {"changed": 1, "after": names[0]})
    rest = server.post(path, {"queue": operation, "reason": "why", "after": names[0]}, token=limited)
    assert (rest.status, rest.json) == (200, {"changed": 1, "after": None})
    assert [server.get(f"/jobs/{name}").json["status"] == "dead" for name in names] == [False, False, True]
    assert {event["actor"] for name in names[:2] for event in server.events(name)[-1:]} == {"limited[mine-]"}


@pytest.mark.parametrize("route", OF_NO_NAME, ids=by_name)
def test_a_limited_token_cannot_make_calls_that_affect_all_jobs(
    server: ServerProcess, limited: str, route: Route
) -> None:
    seq = server.seq
    response = call(server, route, limited, "mine-1")
    assert (response.status, response.json["code"]) == (403, "not_allowed")
    assert "this call affects all jobs" in response.json["error"]
    assert server.seq == seq


def test_lists_contain_own_names_only(server: ServerProcess, limited: str) -> None:
    server.post("/jobs/mine-listed/claim")
    server.post("/jobs/not-mine/claim")
    for query in ("", "?prefix=", "?prefix=m", "?prefix=mine-"):
        for path, rows, name in (("/jobs", "jobs", "job_id"), ("/locks", "locks", "name")):
            listed = server.get(path + query, token=limited).json[rows]
            assert "mine-listed" in [row[name] for row in listed]
            assert all(row[name].startswith("mine-") for row in listed)
    assert [job["job_id"] for job in server.get("/jobs?prefix=mine-li", token=limited).json["jobs"]] == ["mine-listed"]
    for path in ("/jobs", "/locks", "/events"):
        assert server.get(f"{path}?prefix=not-", token=limited).status == 403
        refused = server.get(f"{path}?prefix=mine_", token=limited)
        assert (refused.status, "may only use job names that begin with 'mine-'" in refused.json["error"]) == (
            403,
            True,
        )
    assert server.get("/events?job=not-mine", token=limited).status == 403
    events = server.get("/events", token=limited).json["events"]
    assert {event["job_id"].startswith("mine-") for event in events} == {True}


def test_a_limited_token_does_not_see_claims_of_others(server: ServerProcess, limited: str) -> None:
    mine_at: str = server.post("/jobs/mine-shown/claim", token=limited).json["claimed_at"]

    def is_later() -> bool:
        claimed_at: str = server.post("/jobs/not-shown/claim").json["claimed_at"]
        server.post("/jobs/not-shown/force-release")
        return claimed_at > mine_at

    until(is_later)
    page, all_of_them = (server.get("/claims", token=token).json for token in (limited, None))
    assert all(row["job_id"].startswith("mine-") for row in page["rows"])
    assert {"mine-shown", "not-shown"} <= {row["job_id"] for row in all_of_them["rows"]}
    assert page["last_claim_at"] == mine_at < all_of_them["last_claim_at"]
    assert server.get("/claims?lost=true&owner=admin", token=limited).json["rows"] == []
    assert server.get("/claims?prefix=not-", token=limited).status == 403


def test_a_cursor_cannot_leave_the_prefix(server: ServerProcess, limited: str) -> None:
    response = server.get("/jobs?cursor=a", token=limited)
    assert all(job["job_id"].startswith("mine-") for job in response.json["jobs"])
    assert server.get("/jobs?cursor=zzz", token=limited).json["jobs"] == []


def test_claiming_from_a_queue_returns_own_jobs_only(server: ServerProcess, limited: str) -> None:
    server.post("/jobs", {"kind": "k", "queue": "shared", "job_id": "theirs-first", "priority": 1})
    server.post("/jobs", {"kind": "k", "queue": "shared", "job_id": "mine-second", "priority": 9})
    first = server.post("/queues/shared/claim", token=limited).json
    second = server.post("/queues/shared/claim", token=limited).json
    assert (first["status"], first["job_id"]) == ("claimed", "mine-second")
    assert second["status"] == "empty"
    assert server.get("/jobs/theirs-first").json["status"] == "queued"


def test_only_own_names_can_be_enqueued(server: ServerProcess, limited: str) -> None:
    assert server.post("/jobs", {"kind": "k", "job_id": "theirs-too"}, token=limited).status == 403
    chosen = server.post("/jobs", {"kind": "k"}, token=limited)
    assert chosen.status == 201
    assert chosen.json["job_id"].startswith("mine-")


def test_a_name_that_the_library_generates_gets_the_prefix(server: ServerProcess, limited: str) -> None:
    with octostore.connect(server.url, token=limited) as store:
        one, (other,) = store.enqueue("k"), store.enqueue_many([{"kind": "k"}])
    assert {reply.job_id[:9] for reply in (one, other)} == {"mine-job-"}
    again = server.post("/jobs", {"kind": "k", "job_id": one.job_id.removeprefix("mine-")}, token=limited)
    assert (again.status, again.json["job_id"]) == (200, one.job_id)
    assert server.post("/jobs", {"kind": "k", "job_id": f"their{one.job_id}"}, token=limited).status == 403


def test_operators_with_a_prefix_do_not_see_sessions_of_others(server: ServerProcess, limited: str) -> None:
    session = server.post("/sessions", {"agent": "private"}).json["session_id"]
    for name in (session, f"admin%2F{session}"):
        assert server.get(f"/sessions/{name}", token=limited).status == 404
    operator = server.new_token("operator", "admin")
    assert server.get(f"/sessions/{session}", token=operator).status == 404, "a plain name means its own session"
    assert server.get(f"/sessions/admin%2F{session}", token=operator).json["session_id"] == session


def listed_sessions(server: ServerProcess, token: str, query: str = "") -> list[str]:
    return [row["session_id"] for row in server.get(f"/sessions?limit=1000{query}", token=token).json["sessions"]]


def test_sessions_of_others_are_listed_for_operators_only(server: ServerProcess, limited: str) -> None:
    tokens = {"lister": server.new_token("lister"), "other": server.new_token("other-lister"), "limited": limited}
    for name, token in tokens.items():
        for number in range(2):
            opened = server.post("/sessions", {"agent": name, "session_id": f"of-{name}-{number}"}, token=token).json
        server.request("DELETE", f"/sessions/of-{name}-1", {"lease_id": opened["lease_id"]}, token=token)
    for name, token in tokens.items():
        assert listed_sessions(server, token) == [f"of-{name}-0", f"of-{name}-1"]
        assert listed_sessions(server, token, "&status=open") == [f"of-{name}-0"]
        assert listed_sessions(server, token, "&status=closed") == [f"of-{name}-1"]
        assert listed_sessions(server, token, "&cursor=a") == listed_sessions(server, token)
    everything = {f"of-{name}-{number}" for name in tokens for number in range(2)}
    for token in (server.token, server.new_token("operator", "admin")):
        assert everything <= set(listed_sessions(server, token))


def test_a_page_of_sessions_shows_each_like_a_single_session_without_context(server: ServerProcess) -> None:
    token = server.new_token("pager")
    leases = [
        server.post("/sessions", {"agent": "a", "session_id": f"page-{number}"}, token=token).json["lease_id"]
        for number in range(3)
    ]
    server.request("PUT", "/sessions/page-0/context", {"context": "large", "lease_id": leases[0]}, token=token)
    server.post("/jobs/on-a-page/claim", {"session_id": "page-0"}, token=token)
    first = server.get("/sessions?limit=2", token=token).json
    second = server.get(f"/sessions?limit=2&cursor={first['cursor']}", token=token).json
    assert (first["cursor"], second["cursor"]) == ("pager/page-1", None)
    shown = [server.get(f"/sessions/page-{number}", token=token).json for number in range(3)]
    assert [*first["sessions"], *second["sessions"]] == [{**row, "context": None} for row in shown]
    assert (shown[0]["context"], shown[0]["jobs"]) == ("large", ["on-a-page"])


def test_metrics_show_queue_names_only_to_tokens_that_can_read_everything(server: ServerProcess, limited: str) -> None:
    server.post("/jobs", {"kind": "k", "queue": "secret-queue"})
    reader, claimer = server.new_token("reader", "read"), server.new_token("claimer", "claim")
    until(lambda: "secret-queue" in server.get("/metrics", token=reader).body.decode(), seconds=5)
    for token in ("", limited, claimer, "wrong"):
        response = server.get("/metrics", token=token)
        assert response.status == 200
        assert "secret-queue" not in response.body.decode()


# The lifecycle of a token


def is_bad(response: Response) -> bool:
    assert (response.status, response.json["code"]) == (401, "authentication_failed"), response
    assert response.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    return True


def test_a_token_ends_when_it_expires(server: ServerProcess) -> None:
    token = server.new_token("expiring", expires_in_seconds=1)
    assert server.get("/jobs", token=token).status == 200
    until(lambda: server.get("/jobs", token=token).status != 200, seconds=3)
    assert is_bad(server.get("/jobs", token=token))
    assert is_bad(server.post("/auth/token/rotate", token=token))


def test_a_token_ends_when_it_is_rotated(server: ServerProcess) -> None:
    old = server.new_token("rotated")
    new = server.post("/auth/token/rotate", token=old).json["token"]
    assert is_bad(server.get("/jobs", token=old))
    assert server.get("/jobs", token=new).status == 200


def test_a_repeated_rotation_is_refused(server: ServerProcess) -> None:
    """If the first response was lost, only a caller that chose the new token has it."""
    old, chosen = server.new_token("rotated"), new_token()
    body = {"digest": token_digest(chosen).hex()}
    assert server.post("/auth/token/rotate", body, token=old).status == 200
    assert is_bad(server.post("/auth/token/rotate", body, token=old))
    assert server.get("/jobs", token=chosen).status == 200


def test_a_token_ends_when_it_is_revoked(server: ServerProcess) -> None:
    created = server.post("/tokens", {"name": "revoked"}).json
    assert server.get("/jobs", token=created["token"]).status == 200
    revoked = server.request("DELETE", f"/tokens/{created['token_id']}")
    assert revoked.status == 200
    assert revoked.json["revoked_at"] is not None
    assert is_bad(server.get("/jobs", token=created["token"]))
    assert server.request("DELETE", f"/tokens/{created['token_id']}").status == 200, "safe to repeat"
    assert server.request("DELETE", "/tokens/tok-unknown").status == 404


def test_a_caller_can_create_its_own_secret(server: ServerProcess) -> None:
    mine = new_token()
    digest = hashlib.sha256(mine.encode()).hexdigest()
    created = server.post("/tokens", {"name": "own-secret", "digest": digest})
    assert (created.status, created.json["token"]) == (201, None)
    assert server.get("/jobs", token=mine).status == 200
    again = server.post("/tokens", {"name": "thief", "digest": digest})
    assert (again.status, again.json["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda token: token[:-1],
        lambda token: token + "0",
        lambda token: token[:20] + next(c for c in string.ascii_letters if c != token[20]) + token[21:],
        lambda token: token[:20] + token[21] + token[20] + token[22:] if token[20] != token[21] else "swapped",
        lambda token: token.swapcase(),
        lambda token: token.replace("octo_", "octa_"),
        lambda _token: "octo_",
        lambda _token: "x",
        lambda _token: "\xe9" * 54,
        lambda _token: new_token(),
    ],
    ids=["short", "long", "mistyped", "swapped", "case", "kind", "empty", "nonsense", "not ascii", "unknown"],
)
def test_an_invalid_token_is_refused(server: ServerProcess, spoil: Any) -> None:
    assert is_bad(server.get("/jobs", token=spoil(server.token)))


@pytest.mark.parametrize("header", ["Basic {}", "{}", "Bearer", "Bearer ", "Token {}", "Bearer{}", 'Bearer "{}"'])
def test_a_header_without_a_bearer_token_is_refused(server: ServerProcess, header: str) -> None:
    assert is_bad(server.get("/jobs", token="", headers={"Authorization": header.format(server.token)}))


def test_the_case_of_bearer_does_not_matter(server: ServerProcess) -> None:
    for scheme in ("bearer", "BEARER", "Bearer  "):
        assert server.get("/jobs", token="", headers={"Authorization": f"{scheme} {server.token}"}).status == 200


def test_a_token_in_the_url_does_not_count(server: ServerProcess) -> None:
    assert server.get(f"/locks?token={server.token}", token="").status == 401
    assert server.get(f"/jobs?access_token={server.token}", token="").status == 401


def test_another_server_on_the_same_store_notices_a_revocation(server: ServerProcess) -> None:
    created = server.post("/tokens", {"name": "everywhere"}).json
    with ServerProcess(server.home) as other:
        assert other.token == server.token
        assert other.get("/jobs", token=created["token"]).status == 200
        server.request("DELETE", f"/tokens/{created['token_id']}")
        until(lambda: other.get("/jobs", token=created["token"]).status == 401, seconds=2)


class FakeRequest:
    client_address = "here"
    route = None

    def __init__(self) -> None:
        self.headers = RequestHeaders({b"authorization": f"Bearer {new_token()}".encode()})


def test_a_lookup_from_before_a_revocation_does_not_admit_the_token() -> None:
    class Store:
        def __init__(self) -> None:
            self.lookups, self.is_revoked = 0, False
            self.is_asked, self.may_reply = asyncio.Event(), asyncio.Event()

        async def ask(self, _question: Any) -> FoundTokens:
            self.lookups += 1
            self.is_asked.set()
            moment = NOW if self.is_revoked else None
            await self.may_reply.wait()
            token = TokenView(
                token_id="t",
                name="ann",
                scopes=["read"],
                prefix="",
                created_at=NOW,
                expires_at=None,
                revoked_at=moment,
            )
            return FoundTokens(tokens=[token])

    async def scenario() -> None:
        store = Store()
        auth = Auth(cast("ServedStore", store), {}, Logins())
        request = cast("Request", FakeRequest())
        looking = asyncio.create_task(auth.principal(request))
        await asyncio.wait_for(store.is_asked.wait(), PATIENCE_SECONDS)
        store.is_revoked = True
        auth.forget({"t"})
        store.may_reply.set()
        with pytest.raises(Refusal):
            await looking  # it started before the revocation, but would act after it
        assert store.lookups == 2
        with pytest.raises(Refusal):
            await auth.principal(request)

    asyncio.run(scenario())


# Tokens from a file


def start_with_bad_setup(home: Path, *arguments: str) -> str:
    """The error of a server that refuses to start because its operator must correct something."""
    environment = {**os.environ, "OCTOSTORE_HOME": str(home)}
    command = [*PROGRAM, "serve", "--port", "0", *arguments]
    pipe = subprocess.PIPE
    ended = run(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True, timeout=PATIENCE_SECONDS)
    assert (ended.returncode, ended.stdout) == (64, ""), ended
    assert "Traceback" not in ended.stderr
    error: str = ended.stderr
    return error


def write_tokens(path: Path, text: str, mode: int = 0o600) -> Path:
    path.touch(mode)
    path.write_text(text)
    return path


def test_a_tokens_file(tmp_path: Path) -> None:
    ci, ops = new_token(), new_token()
    file = write_tokens(tmp_path / "tokens", f"# who\n\nci read,claim {ci} deploy-\nops admin {ops}  # us\n")
    with ServerProcess(tmp_path, "--tokens-file", str(file)) as server:
        assert list(tmp_path.glob("*.token")) == []
        assert server.post("/jobs/deploy-1/claim", token=ci).json["principal"] == "ci[deploy-]"
        assert server.post("/jobs/other/claim", token=ci).status == 403
        assert server.post("/recover", token=ci).status == 403
        assert server.post("/recover", token=ops).status == 200
        assert is_bad(server.get("/jobs", token=new_token()))
        rotated = server.post("/auth/token/rotate", token=ci)
        assert (rotated.status, rotated.json["code"]) == (409, "conflict")
        assert ci not in server.log + str(server.greeting)


def test_a_tokens_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token = new_token()
    file = write_tokens(tmp_path / "tokens", f"ci read {token}\n")
    file.chmod(0o644)
    error = start_with_bad_setup(tmp_path, "--tokens-file", str(file))
    assert "chmod 600" in error
    assert token not in error


def test_a_missing_tokens_file_is_refused(tmp_path: Path) -> None:
    assert "no-such-file" in start_with_bad_setup(tmp_path, "--tokens-file", str(tmp_path / "no-such-file"))


@pytest.mark.parametrize(
    "line",
    [
        "ci {}",
        "ci read",
        "ci read {} deploy- more",
        "ci read,write {}",
        "ci read,,claim {}",
        "ci read {}x",
        "ci read {} no;semicolons",
        "ci read octo_",
        "\x01 read {}",
    ],
)
def test_an_error_names_the_malformed_line_but_not_its_token(tmp_path: Path, line: str) -> None:
    good, bad = new_token(), new_token()
    file = write_tokens(tmp_path / "tokens", f"ok read {good}\n{line.format(bad)}\n")
    with pytest.raises(InvalidInput, match="line 2") as caught:
        read_static_tokens(file)
    assert bad not in str(caught.value)
    assert good not in str(caught.value)


# The first token


def test_only_the_user_can_read_the_first_token(own_server: ServerProcess) -> None:
    file = own_server.token_file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = own_server.token
    assert token not in str(own_server.greeting)
    assert str(file) in str(own_server.greeting)
    own_server.stop()
    with ServerProcess(own_server.home) as server:
        assert server.token == token, "it survives a restart"
        other = server.new_token("other", *SCOPES)
        server.post("/auth/token/rotate", token=other)
        assert server.token == token, "rotating another token does not change it"
        new = server.post("/auth/token/rotate").json["token"]
        assert server.token == new, "rotating it does"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert is_bad(server.get("/jobs", token=token))
        assert server.get("/jobs", token=new).status == 200
    with ServerProcess(own_server.home) as server:
        assert server.token == new


def test_a_lost_or_invalid_first_token_is_replaced(own_server: ServerProcess) -> None:
    file = own_server.token_file
    own_server.stop()
    file.unlink()
    write_tokens(file, new_token())
    with ServerProcess(own_server.home) as server:
        assert server.get("/tokens").status == 200
        assert [token["name"] for token in server.get("/tokens").json["tokens"]] == ["admin", "admin"]


def test_a_first_token_that_others_can_read_is_refused(own_server: ServerProcess) -> None:
    own_server.stop()
    own_server.token_file.chmod(0o640)
    assert "chmod 600" in start_with_bad_setup(own_server.home)


def test_each_store_has_its_own_first_token(own_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client finds the token that is valid on the server it connects to."""
    home, token = own_server.home, own_server.token
    monkeypatch.setenv("OCTOSTORE_HOME", str(home))
    with ServerProcess(home, "--url", f"sqlite:///{home}/other.db") as other:
        assert (own_server.token, other.token) != (token, token)
        assert own_server.token == token
        assert (home / "admin.token").read_text().strip() == token, "the other server did not replace it"
        for server in (own_server, other):
            with octostore.connect(server.url) as store:
                assert [one.name for one in store.list_tokens()] == ["admin"]
        assert other.post("/auth/token/rotate").status == 200
        with octostore.connect(other.url) as store:
            assert store.claim_job("in-the-other").status == "claimed"
    with octostore.connect(own_server.url) as store:
        assert store.get_job("in-the-other").status == "free"


def test_a_server_that_moves_to_another_address_is_found_there(
    own_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = own_server.token
    own_server.stop()
    monkeypatch.setenv("OCTOSTORE_HOME", str(own_server.home))
    with ServerProcess(own_server.home, "--host", "0.0.0.0") as server:
        assert server.get("/livez", headers={"Host": "any.example"}).status == 200, "any host name is accepted"
        assert server.get("/livez", headers={"Host": "me@any.example"}).status == 421, "but not one with a user"
        assert server.port != own_server.port
        assert server.token == token
        with octostore.connect(f"http://localhost:{server.port}") as store:
            assert [one.name for one in store.list_tokens()] == ["admin"]


def test_clients_do_not_find_tokens_from_a_tokens_file(
    own_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_server.stop()
    monkeypatch.setenv("OCTOSTORE_HOME", str(own_server.home))
    file = write_tokens(own_server.home / "tokens", f"ops admin {new_token()}\n")
    with (
        ServerProcess(own_server.home, "--tokens-file", str(file), port=own_server.port) as server,
        pytest.raises(InvalidInput, match="is required"),
    ):
        octostore.connect(server.url)


# Secrets


def test_no_response_stream_or_log_contains_a_secret_of_others(own_server: ServerProcess) -> None:
    server = own_server
    ann, bob = server.new_token("ann"), server.new_token("bob")
    secrets = {"token": server.token, "ann": ann, "bob": bob}
    claim = server.post("/jobs/job/claim", {"request_id": "request-of-ann"}, token=ann).json
    lock = server.post("/locks/lock/acquire", token=ann).json
    session = server.post("/sessions", {"agent": "ann", "request_id": "request-of-session"}, token=ann).json
    bound = server.post("/jobs/bound/claim", {"session_id": session["session_id"]}, token=ann).json
    server.post("/jobs", {"kind": "k", "job_id": "queued"}, token=ann)
    following = server.post("/queues/default/claim", {"request_id": "request-of-next"}, token=ann).json
    secrets |= {
        "claim": claim["lease_id"],
        "lock": lock["lease_id"],
        "session": session["lease_id"],
        "bound": bound["lease_id"],
        "next": following["lease_id"],
        "request": "request-of-",
    }
    responses: list[Response] = []
    with server.stream("/events?after=0", token=bob) as stream, server.stream("/locks/lock/watch", token=bob) as watch:
        frames = [watch.next()]
        for name in ("job", "lock", "bound", "queued"):
            responses += [
                server.post(f"/jobs/{name}/claim", token=bob),
                server.post(f"/locks/{name}/acquire", token=bob),
                server.get(f"/jobs/{name}", token=bob),
                server.get(f"/locks/{name}", token=bob),
                server.post(f"/jobs/{name}/heartbeat", {"lease_id": "not-mine"}, token=bob),
                server.post(f"/jobs/{name}/release", {"lease_id": "not-mine"}, token=bob),
                server.post(f"/jobs/{name}/force-release", token=bob),
                server.post(f"/jobs/{name}/force-release"),
                server.get(f"/jobs/{name}", token=bob),
                server.post(f"/jobs/{name}/heartbeat", {"lease_id": "not-mine"}, token=bob),
            ]
        responses += [
            server.post("/sessions", {"agent": "bob", "session_id": session["session_id"]}, token=bob),
            server.post(f"/sessions/{session['session_id']}/keepalive", token=bob),
            server.get(f"/sessions/{session['session_id']}"),
            server.get("/sessions/nothing", token=ann),
            server.get("/sessions", token=ann),
            server.get("/sessions"),
            server.get("/jobs", token=bob),
            server.get("/locks", token=bob),
            server.get("/events", token=bob),
            server.get("/tokens"),
            server.get("/metrics"),
            server.get("/status"),
            server.get("/docs"),
            server.get("/openapi.json"),
            server.post("/jobs/job/claim", {"lease_id": "unknown field"}, token=ann),
            server.get("/jobs", token=ann[:-1]),
            server.post("/recover"),
        ]
        frames += stream.take(len(server.get("/events", token=bob).json["events"]))
    texts = [response.body.decode() + str(response.headers) for response in responses]
    texts += [str(frames), server.log, str(server.greeting)]
    leaks = [(name, text) for name, secret in secrets.items() for text in texts if secret in text]
    assert leaks == []
    server.check_has_not_failed()


def test_tokens_are_not_in_the_store(own_server: ServerProcess) -> None:
    tokens = [own_server.token, own_server.new_token("ann")]
    own_server.get("/jobs", token=tokens[1])
    own_server.stop()
    files = [file for file in own_server.home.iterdir() if file.suffix != ".token"]
    assert files
    for file in files:
        assert not [token for token in tokens if token.encode() in file.read_bytes()]


def test_an_empty_queue_reveals_nothing_about_others_to_a_limited_token(server: ServerProcess) -> None:
    token = server.new_token("curious", prefix="curious/")
    empty = server.post("/queues/shared-due/claim", {}, token=token).json
    server.post("/jobs", {"kind": "k", "queue": "shared-due", "run_at": "2099-01-01T00:00:00Z"})
    server.post("/jobs/somebody-elses/claim", {"ttl_seconds": 7})
    still_empty = server.post("/queues/shared-due/claim", {}, token=token).json
    assert empty["retry_after_ms"] == 1_000
    assert empty == still_empty
    assert (empty["status"], empty["all_done"], empty["available_at"]) == ("empty", True, None)
    asked = [server.get("/queues/shared-due", token=who).json for who in (token, None)]
    assert [(status["later"], status["all_done"]) for status in asked] == [(0, True), (1, False)]


def test_bad_tokens_do_not_shut_out_good_ones_from_the_same_address(own_server: ServerProcess) -> None:
    assert own_server.get("/jobs").status == 200
    codes = {response.json["code"] for response in own_server.guess()}
    assert codes == {"authentication_failed", "rate_limited"}
    for _ in range(2):
        assert own_server.post("/tokens", {"name": "another"}).status == 201
    assert own_server.get("/jobs", token=own_server.new_token("new")).status == 200, "even a token not seen before"


def test_tokens_of_one_name_with_different_prefixes_share_nothing(server: ServerProcess) -> None:
    """Otherwise the limited one could reach names outside its prefix through sessions and repeated requests."""
    free, limited = server.new_token("twin"), server.new_token("twin", prefix="twin-")
    lease = server.post("/sessions", {"agent": "twin", "session_id": "twin-session"}, token=free).json["lease_id"]
    server.request("PUT", "/sessions/twin-session/context", {"context": "secret", "lease_id": lease}, token=free)
    server.post("/jobs/outside/claim", {"session_id": "twin-session", "request_id": "r"}, token=free)
    for method, path, body in [
        ("GET", "/sessions/twin-session", None),
        ("DELETE", "/sessions/twin-session", None),
        ("POST", "/sessions/twin-session/keepalive", None),
        ("PUT", "/sessions/twin-session/context", {"context": "mine"}),
    ]:
        assert server.request(method, path, body, token=limited).status == 404, (method, path)
    assert server.get("/sessions", token=limited).json == {"sessions": [], "cursor": None}
    own = server.post("/sessions", {"agent": "twin", "session_id": "twin-session"}, token=limited)
    assert (own.status, own.json["resumed"], own.json["context"]) == (201, False, None)
    assert server.get("/jobs/outside").json["status"] == "claimed"
    assert server.get("/sessions/twin-session", token=free).json["context"] == "secret"
    server.post("/jobs/twin-inside/claim", token=limited)
    assert server.get("/jobs/twin-inside").json["claim"]["principal"] == "twin[twin-]"


def test_the_longest_name_with_a_prefix_can_be_the_default_owner(server: ServerProcess) -> None:
    token = server.new_token("n" * TEXT_BYTES, prefix="long/")
    lock = server.post("/locks/long%2Flock/acquire", token=token)
    claim = server.post("/jobs/long%2Fjob/claim", token=token)
    session = server.post("/sessions", token=token)
    assert [lock.json["status"], claim.json["status"], session.status] == ["acquired", "claimed", 201]
    assert claim.json["owner"] == "n" * TEXT_BYTES
    assert claim.json["principal"] == "n" * TEXT_BYTES + "[long/]"


def test_a_token_without_the_word_bearer_is_refused_with_a_hint(server: ServerProcess) -> None:
    response = server.get("/jobs/x", token="", headers={"Authorization": server.token})
    assert (response.status, response.json["code"]) == (401, "authentication_failed")
    assert response.json["error"] == "the Authorization header must be: Bearer TOKEN"
    assert "`Authorization: Bearer TOKEN`" in response.json["details"]
    assert server.token not in response.body.decode()
