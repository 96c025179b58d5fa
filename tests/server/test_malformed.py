"""A malformed request gets a clear error with the right status, and changes nothing."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from octostore.core.commands import ClaimTask, ReleaseTask
from octostore.server.router import Route
from octostore.server.routes import ROUTES
from tests.support.connections import Response
from tests.support.server import ServerProcess

BEYOND = 2**53 + 1
UNKNOWN = "00000000-0000-4000-8000-000000000000"
WITH_BODY = [route for route in ROUTES if route.body is not None]
WITH_PARAM = [route for route in ROUTES if "{" in route.path]
STRICT = [route for route in WITH_BODY if route.tag != "locks"]


@pytest.fixture(autouse=True)
def _nothing_changes(server: ServerProcess) -> Iterator[None]:
    seq = server.seq
    yield
    assert server.seq == seq


def path_of(route: Route, name: str = "a-name") -> str:
    return re.sub(r"{\w+}", name, route.path)


def send(
    server: ServerProcess, route: Route, body: Any = None, *, raw: bytes | None = None, name: str = "a-name"
) -> Response:
    """As the admin; page routes accept only our own page as the origin."""
    headers = {"Origin": server.url} if route.is_page else None
    return server.request(route.method, path_of(route, name), body, raw=raw, headers=headers)


def body_of(route: Route) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(route.example.get("body", {})).replace("$LEASE", UNKNOWN))
    return body


def check_refused(response: Response, status: int, code: str | None = None) -> None:
    assert response.status == status, response
    assert response.headers["content-type"] == "application/json"
    error = response.json
    assert all(isinstance(error[name], str) and error[name] for name in ("error", "code", "details")), error
    assert response.headers["x-request-id"] == error["request_id"]
    assert len(response.body) < 2_000, "short enough for people to read"
    if code is not None:
        assert error["code"] == code


# Bodies

NOT_JSON: dict[str, bytes] = {
    "nonsense": b"nonsense",
    "unfinished": b'{"owner": "ann"',
    "no value": b'{"owner": }',
    "no comma": b'{"owner": "ann" "ttl_seconds": 1}',
    "trailing comma": b'{"owner": "ann",}',
    "single quotes": b"{'owner': 'ann'}",
    "two documents": b"{} {}",
    "comment": b'{"owner": "ann"} // me',
    "a form": b"owner=ann&ttl_seconds=1",
    "control character": b'{"owner": "a\x01b"}',
    "line break in a text": b'{"owner": "a\nb"}',
    "bad escape": b'{"owner": "\\x41"}',
    "NaN": b'{"ttl_seconds": NaN}',
    "Infinity": b'{"metadata": Infinity}',
    "minus Infinity": b'{"metadata": {"deep": [-Infinity]}}',
    "a name twice": b'{"owner": "ann", "owner": "bob"}',
    "a name twice, within": b'{"metadata": {"a": 1, "a": 1}}',
    "a name twice, written differently": b'{"owner": "ann", "\\u006fwner": "bob"}',
    "not UTF-8": b'{"owner": "\xff"}',
    "overlong UTF-8": b'{"owner": "\xc0\xaf"}',
    "surrogate in UTF-8": b'{"owner": "\xed\xa0\x80"}',
    "UTF-16": '{"owner": "ann"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"owner": "ann"}',
    "number beyond 2^53": b'{"ttl_seconds": %d}' % BEYOND,
    "number below -2^53": b'{"metadata": [%d]}' % -BEYOND,
    "number of 5,000 digits": b'{"metadata": %s}' % (b"9" * 5_000),
    "nested 65 deep": b'{"metadata": %s}' % (b"[" * 65 + b"]" * 65),
    "nested 100,000 deep": b'{"metadata": %s}' % (b"[" * 100_000 + b"]" * 100_000),
    "opened 300,000 times": b"[" * 300_000,
    "objects opened 50,000 times": b'{"a":' * 50_000,
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_a_body_that_is_not_strict_json(server: ServerProcess, body: bytes) -> None:
    for route in WITH_BODY:
        if not (route.is_batch and body == NOT_JSON["nested 65 deep"]):  # a batch's documents are nested deeper
            check_refused(send(server, route, raw=body), 400, "invalid_input")


@pytest.mark.parametrize("body", [[], None, "text", 7, 1.5, True, [{}]], ids=str)
def test_a_body_that_is_not_an_object(server: ServerProcess, body: Any) -> None:
    raw = json.dumps(body).encode()
    for route in WITH_BODY:
        check_refused(send(server, route, raw=raw), 422, "invalid_input")


def test_an_unknown_field(server: ServerProcess) -> None:
    for route in STRICT:
        for name in ("no_such_field", "Owner", "", "x" * 10_000, "\0"):
            response = send(server, route, {**body_of(route), name: 1})
            check_refused(response, 422, "invalid_input")
        check_refused(send(server, route, {"\ud800": 1}), 400, "invalid_input")


def test_a_field_of_the_wrong_type(server: ServerProcess) -> None:
    for route in WITH_BODY:
        assert route.body is not None
        fields = [field for field in msgspec.structs.fields(route.body) if "Any" not in str(field.type)]
        for field in fields:
            body = {**body_of(route), field.name: {"wrong": "type"}}
            check_refused(send(server, route, body), 422, "invalid_input")


def test_a_number_beyond_the_exact_range_of_json_readers(server: ServerProcess) -> None:
    for route in WITH_BODY:
        assert route.body is not None
        for field in msgspec.structs.fields(route.body):
            for value in (BEYOND, {"deep": [-BEYOND]}):
                body = {**body_of(route), field.name: value}
                check_refused(send(server, route, body), 400, "invalid_input")


def test_a_missing_required_field(server: ServerProcess) -> None:
    for route in WITH_BODY:
        assert route.body is not None
        for field in msgspec.structs.fields(route.body):
            if field.required:
                body = {name: value for name, value in body_of(route).items() if name != field.name}
                check_refused(send(server, route, body), 422, "invalid_input")


LEASE = {"lease_id": UNKNOWN}
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    *[("POST", "/jobs/x/claim", {"ttl_seconds": ttl}) for ttl in (0, 0.999, -1, 86_401, 1e308)],
    *[("POST", "/jobs/x/claim", {"wait_seconds": wait}) for wait in (-1, 60.5, 61, 1e308)],
    *[("POST", "/jobs/x/claim", {"lock_delay_seconds": delay}) for delay in (-1, 31)],
    *[("POST", "/jobs/x/claim", {"owner": owner}) for owner in ("", "x" * 257, "a\nb", "a\0b", "\ud800", "\u202e")],
    *[("POST", "/jobs/x/claim", {"request_id": value}) for value in ("", "x" * 129, "a\tb", "\ud800")],
    *[("POST", "/jobs/x/claim", {"session_id": value}) for value in ("", "x" * 129, "a/b", "..", "\ud800")],
    *[("POST", "/jobs/x/claim", {"metadata": value}) for value in ("x" * 1_023, ["\ud800"], {"\ud800": 1})],
    *[("POST", "/queues/q/claim", {"kinds": kinds}) for kinds in ([], ["k"] * 101, ["a/b"], [""], ["\ud800"])],
    *[("POST", "/jobs/x/heartbeat", {**LEASE, "progress": {"percent": percent}}) for percent in (-1, 101)],
    *[("POST", "/jobs/x/heartbeat", {**LEASE, "progress": note}) for note in ("x" * 1_025, "a\0b", "\ud800")],
    *[("POST", "/jobs/x/heartbeat", {"lease_id": lease}) for lease in ("", "x" * 129, "a\nb", "\ud800")],
    ("POST", "/jobs/x/heartbeat", {**LEASE, "ttl_seconds": 0}),
    ("POST", "/jobs/x/checkpoint", {**LEASE, "data": "x" * 65_535}),
    ("POST", "/jobs/x/checkpoint", {**LEASE, "data": "\ud800"}),
    ("POST", "/jobs/x/release", {**LEASE, "outcome": "\ud800"}),
    ("POST", "/jobs/x/release", {**LEASE, "result": 1}),
    ("POST", "/jobs/x/release", {**LEASE, "outcome": "done", "retry_after_seconds": 1}),
    ("POST", "/jobs/x/release", {**LEASE, "outcome": "done", "result": "x" * 65_535}),
    *[("POST", "/jobs/x/release", {**LEASE, "outcome": "failed", "retry_after_seconds": s}) for s in (-1, 1e9)],
    ("POST", "/jobs/x/release", {**LEASE, "outcome": "failed", "error": "x" * 2_049}),
    ("POST", "/jobs/x/release", {**LEASE, "note": "x" * 1_025}),
    *[("POST", "/jobs", {"kind": kind}) for kind in ("", "a/b", "x" * 65, "..", "\ud800")],
    *[("POST", "/jobs", {"kind": "k", "queue": queue}) for queue in ("", "a b", "x" * 65)],
    *[("POST", "/jobs", {"kind": "k", "job_id": name}) for name in ("", "a b", "/", "a//b", "e\u0301", "\ud800")],
    *[("POST", "/jobs", {"kind": "k", "priority": priority}) for priority in (-1_001, 1_001, 2**53)],
    *[("POST", "/jobs", {"kind": "k", "max_attempts": number}) for number in (0, -1, 1_001)],
    *[("POST", "/jobs", {"kind": "k", "run_at": at}) for at in ("1969-12-31T23:59:59Z", "2030-01-01T00:00:00")],
    ("POST", "/jobs", {"kind": "k", "payload": "x" * 262_143}),
    ("POST", "/jobs/x/cancel", {"reason": "x" * 257}),
    *[("PUT", "/queues/q/limit", {"max_claimed": limit}) for limit in (0, -1, 100_001)],
    *[("POST", "/sessions", {"agent": "a", "ttl_seconds": ttl}) for ttl in (0, 86_401)],
    *[("POST", "/sessions", {"agent": agent}) for agent in ("", "x" * 257, "\ud800")],
    *[("POST", "/sessions", {"session_id": name}) for name in ("", "a/b", "x" * 129)],
    ("PUT", "/sessions/s/context", {"context": "x" * 262_143}),
    *[("POST", "/tokens", {"name": name}) for name in ("", "x" * 257, "a\nb", "\ud800")],
    *[("POST", "/tokens", {"name": "t", "scopes": scopes}) for scopes in ([], ["read", "read"], ["\ud800"])],
    *[("POST", "/tokens", {"name": "t", "prefix": prefix}) for prefix in ("a b", "x" * 257, "\ud800")],
    *[("POST", "/tokens", {"name": "t", "expires_in_seconds": life}) for life in (0, -1, 1e12)],
    *[("POST", "/tokens", {"name": "t", "digest": digest}) for digest in ("", "00", "zz" * 32, "\ud800")],
    *[("POST", "/tokens", {"name": "t", "token_id": name}) for name in ("", "a/b")],
    ("POST", "/auth/token/rotate", {"digest": "00"}),
]


@pytest.mark.parametrize(("method", "path", "body"), VALUES, ids=lambda value: ascii(value)[:60])
def test_a_value_out_of_bounds(server: ServerProcess, method: str, path: str, body: dict[str, Any]) -> None:
    check_refused(server.request(method, path, body), 400, "invalid_input")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/jobs", {"kind": "k", "priority": 5.5}),
        ("POST", "/jobs", {"kind": "k", "priority": True}),
        ("POST", "/jobs", {"kind": "k", "run_at": "tomorrow"}),
        ("POST", "/jobs", {"kind": "k", "run_at": "10000-01-01T00:00:00Z"}),
        ("POST", "/jobs", {"kind": "k", "run_at": 1_800_000_000}),
        ("POST", "/jobs/x/claim", {"ttl_seconds": True}),
        ("POST", "/jobs/x/claim", {"ttl_seconds": "120"}),
        ("POST", "/jobs/x/claim", {"again": 1}),
        ("POST", "/jobs/x/release", {**LEASE, "outcome": "finished"}),
        ("POST", "/jobs/x/release", {**LEASE, "outcome": "x" * 10_000}),
        ("POST", "/tokens", {"name": "t", "scopes": ["write"]}),
        ("POST", "/tokens", {"name": "t", "scopes": "read"}),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_a_value_of_the_wrong_type_or_choice(
    server: ServerProcess, method: str, path: str, body: dict[str, Any]
) -> None:
    check_refused(server.request(method, path, body), 422, "invalid_input")


@pytest.mark.parametrize("number", ["1e400", "-1e400"])
def test_a_number_that_parses_as_infinity(server: ServerProcess, number: str) -> None:
    for field in ("ttl_seconds", "wait_seconds", "lock_delay_seconds", "metadata"):
        check_refused(server.post("/jobs/x/claim", raw=f'{{"{field}": {number}}}'.encode()), 400, "invalid_input")
    check_refused(server.post("/jobs", raw=f'{{"kind": "k", "payload": [{number}]}}'.encode()), 400, "invalid_input")


# Paths

NAMES = {
    "empty": "",
    "dot": ".",
    "two dots": "..",
    "encoded dots": "%2e%2E",
    "a slash": "%2F",
    "slash at the end": "a%2F",
    "slash at the beginning": "%2Fa",
    "up and down": "a%2F..%2Fb",
    "two slashes": "a%2F%2Fb",
    "NUL": "%00",
    "NUL at the end": "a%00",
    "line break": "a%0Ab",
    "carriage return": "a%0D%0Ab",
    "space": "a%20b",
    "plus for a space": "a+%20b",
    "percent": "a%25b",
    "an invalid escape": "%zz",
    "half an escape": "%4",
    "not UTF-8": "%FF",
    "half of UTF-8": "%C3",
    "overlong UTF-8": "%C0%AF",
    "surrogate": "%ED%A0%80",
    "not NFC": "e%CC%81",
    "mark alone": "%CC%81",
    "invisible": "a%E2%80%8Bb",
    "written backwards": "%E2%80%AEa",
    "looks like a slash": "a%E2%88%95b",
    "semicolon": "a;b",
    "tilde": "~",
    "quote": "a'b",
    "257 bytes": "%2F".join(["x" * 64] * 3 + ["x" * 62]),
    "10,000 bytes": "x" * 10_000,
}


VALID_SESSION_NAMES = {NAMES[name] for name in ("up and down", "two slashes", "257 bytes")}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_an_invalid_name(server: ServerProcess, name: str) -> None:
    for route in WITH_PARAM:
        body = body_of(route) if route.body else None
        # In a session name, the part before the last slash is the principal, which may be any text.
        is_valid = "{session_id}" in route.path and name in VALID_SESSION_NAMES
        status = {ClaimTask: 400, ReleaseTask: 409}.get(route.message_type, 404) if is_valid else 400
        check_refused(send(server, route, body, name=name), status)


@pytest.mark.parametrize(
    "path",
    [
        "//jobs",
        "/..",
        "/%6aobs",
        "/JOBS",
        "/auth",
        "/docs/../openapi.json",
        "/jobs%2Fx",
        "/jobs/../metrics",
        "/jobs/a/b/claim",
        "/jobs/x/claim/",
        "/jobs/x/nope",
        "/metrics/",
        "/nope",
        "/" + "x" * 5_000,
    ],
)
def test_an_unknown_path(server: ServerProcess, path: str) -> None:
    for token in (None, ""):
        check_refused(server.get(path, token=token), 404, "no_such_route")


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
def test_a_method_that_is_not_allowed(server: ServerProcess, path: str) -> None:
    # A job may be called `requeue`, and can be read like any other.
    allowed = {route.method for route in ROUTES if re.fullmatch(re.sub(r"{\w+}", "[^/]+", route.path), path)}
    for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"} - allowed:
        response = server.request(method, re.sub(r"{\w+}", "x", path))
        check_refused(response, 405, "method_not_allowed")
        assert set(response.headers["allow"].split(", ")) >= allowed
    if "GET" in allowed:
        assert server.request("HEAD", re.sub(r"{\w+}", "x", path)).body == b""


# Queries

QUERIES = [
    *[f"/jobs?limit={limit}" for limit in ("0", "-1", "1001", "x", "1.5", "", "+1", "0x10", "%D9%A1")],
    *[f"/jobs?limit={limit}" for limit in (BEYOND, 2**64, "9" * 400, "9" * 5_000, "true", "null", "NaN")],
    *[f"/events?limit={limit}" for limit in ("0", "1001", BEYOND, 2**63)],
    *[f"/events?after={after}" for after in ("-1", "x", "1.5", "", 2**63, 2**64, "9" * 5_000, "null", "1%00")],
    "/jobs?unknown=1",
    "/locks?status=free",
    *[f"/locks?limit={limit}" for limit in ("0", "-1", "1001", "x", BEYOND)],
    *[f"/locks?cursor={cursor}" for cursor in ("", "..", "a%20b", "x" * 257)],
    "/jobs?PREFIX=a",
    "/jobs?prefix",
    "/jobs?=a",
    "/jobs?&",
    "/jobs?prefix=a&",
    "/jobs?prefix=a&prefix=b",
    "/jobs?" + "&".join(f"x{number}=1" for number in range(21)),
    *[f"{path}?prefix={prefix}" for path in ("/jobs", "/locks", "/events") for prefix in ("%FF", "a%20b", "%00", "a*")],
    f"/jobs?prefix={'x' * 257}",
    "/jobs?prefix=e%CC%81",
    *[f"/jobs?status={status}" for status in ("nope", "", "CLAIMED", "null", "%FF")],
    *[f"/jobs?queue={queue}" for queue in ("", "..", "a/b", "a%20b", "x" * 65)],
    *[f"/jobs?cursor={cursor}" for cursor in ("", "..", "a%20b", "%00", "x" * 65)],
    *[f"/sessions?limit={limit}" for limit in ("0", "1001", "x")],
    *[f"/sessions?status={status}" for status in ("nope", "", "OPEN", "null")],
    *[f"/sessions?cursor={cursor}" for cursor in ("", "..", "a/", "/a", "%00", "x" * 129)],
    "/sessions?principal=admin",
    *[f"/events?job={job}" for job in ("", "..", "a%20b", "%00", "x" * 65)],
]


@pytest.mark.parametrize("address", QUERIES, ids=lambda address: address[:60])
def test_an_invalid_query(server: ServerProcess, address: str) -> None:
    check_refused(server.get(address), 400, "invalid_input")


@pytest.mark.parametrize("last", ["x", "-1", "1.5", " ", "1,2", "0x1", "\xb2", str(2**63), "9" * 400, "9" * 5_000])
def test_an_invalid_last_event_id(server: ServerProcess, last: str) -> None:
    headers = {"Accept": "text/event-stream", "Last-Event-ID": last}
    check_refused(server.get("/events", headers=headers), 400, "invalid_input")


# HTTP itself

HEAD = b"Host: localhost\r\n"
NOT_HTTP: dict[str, bytes] = {
    "nonsense": b"nonsense\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
    "another version": b"GET /livez HTTP/9.9\r\n" + HEAD + b"\r\n",
    "an unknown method": b"FETCH /livez HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a method in small letters": b"get /livez HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a path without a slash": b"GET livez HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a path that is not UTF-8": b"GET /jobs/\xff HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a query that is not UTF-8": b"GET /jobs?prefix=\xff HTTP/1.1\r\n" + HEAD + b"\r\n",
    "an authority": b"CONNECT localhost:80 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a host alone": b"GET http://localhost HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a header without a colon": b"GET /livez HTTP/1.1\r\n" + HEAD + b"nonsense\r\n\r\n",
    "a header with a space": b"GET /livez HTTP/1.1\r\n" + HEAD + b"X Y: 1\r\n\r\n",
    "a header with NUL": b"GET /livez HTTP/1.1\r\n" + HEAD + b"X: a\0b\r\n\r\n",
    "an invalid length": b"POST /jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: x\r\n\r\n",
    "a negative length": b"POST /jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n",
    "a length of 30 digits": b"POST /jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
    "two lengths": b"POST /jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": b"POST /jobs HTTP/1.1\r\n"
    + HEAD
    + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "an unknown coding": b"POST /jobs HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: gzip\r\n\r\n{}",
    "the same length twice": b"POST /jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a coding before chunks": b"POST /jobs HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "codings in two headers": b"POST /jobs HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /jobs HTTP/1.0\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "two hosts": b"GET /livez HTTP/1.1\r\n" + HEAD + b"Host: localhost\r\n\r\n",
    "two tokens": b"GET /livez HTTP/1.1\r\n" + HEAD + b"Authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n",
    "two origins": b"GET /livez HTTP/1.1\r\n" + HEAD + b"Origin: http://localhost\r\nOrigin: http://localhost\r\n\r\n",
    "an invalid chunk size": b"POST /livez HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("sent", NOT_HTTP.values(), ids=NOT_HTTP.keys())
def test_what_is_not_http(server: ServerProcess, sent: bytes) -> None:
    with server.connect() as connection:
        connection.send(sent)
        response = connection.response()
        check_refused(response, 400, "malformed_request")
        assert response.headers["connection"] == "close"
        assert connection.is_ended()


def test_a_request_without_a_host_is_refused(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.send(b"GET /livez HTTP/1.1\r\n\r\n")
        check_refused(connection.response(), 421, "host_not_allowed")


@pytest.mark.parametrize("host", ["me@localhost", "me:secret@127.0.0.1:3000", "@localhost"])
def test_a_host_with_a_user_is_refused(server: ServerProcess, host: str) -> None:
    with server.connect() as connection:
        connection.send(f"GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        check_refused(connection.response(), 421, "host_not_allowed")


def test_repeatable_headers_may_be_repeated(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.send(b"GET /livez HTTP/1.1\r\n" + HEAD + b"Accept: a/b\r\nAccept: c/d\r\n\r\n")
        assert connection.response().status == 200


def test_an_upgrade_request_is_ignored(server: ServerProcess) -> None:
    for upgrade in ("websocket", "h2c"):
        headers = {"Connection": "Upgrade", "Upgrade": upgrade}
        assert server.get("/livez", headers=headers).status == 200
        assert server.request("GET", "/jobs/x", headers=headers).json["status"] == "free"


def test_requests_may_be_pipelined(server: ServerProcess) -> None:
    with server.connect() as connection:
        for name in ("one", "two", "three"):
            connection.request("GET", f"/jobs/{name}", token=server.token)
        responses = connection.socket.makefile("rb")
        with responses:
            names = [_next_json(responses.readline, responses.read)["job_id"] for _ in range(3)]
    assert names == ["one", "two", "three"]


def _next_json(readline: Callable[[], bytes], read: Callable[[int], bytes]) -> Any:
    length = 0
    assert readline().startswith(b"HTTP/1.1 200 ")
    while (line := readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(read(length))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/jobs/x/claim", {"ttl_seconds": 0}),
        ("/jobs/x/heartbeat", {"lease_id": "x", "ttl_seconds": 0}),
        ("/queues/default/claim", {"ttl_seconds": 0}),
        ("/sessions", {"agent": "ann", "ttl_seconds": 0}),
        ("/locks/x/acquire", {"ttl_seconds": 0}),
        ("/locks/x/renew", {"lease_id": "0b9e1c9e-6a5c-4f6e-9d0c-2f6f3f0f8f11", "ttl_seconds": 0}),
    ],
)
def test_an_error_names_the_field_as_it_was_sent(server: ServerProcess, path: str, body: dict[str, Any]) -> None:
    response = server.post(path, body)
    assert (response.status, response.json["field"]) == (400, "ttl_seconds")
    assert response.json["error"].startswith("ttl_seconds is 0")
    assert response.json["code"] == ("invalid_ttl" if "locks" in path else "invalid_input")


def test_an_error_in_a_batch_names_the_field_as_it_was_sent(server: ServerProcess) -> None:
    command = {"command": "claim_job", "job_id": "x", "ttl_seconds": 0}
    (reply,) = server.post("/batch", {"commands": [command]}).json["answers"]
    assert (reply["status"], reply["body"]["field"]) == (400, "ttl_seconds")


@pytest.mark.parametrize(
    ("method", "path", "suggested"),
    [
        ("POST", "/jobs/repo/issue-1/claim", "/jobs/repo%2Fissue-1/claim"),
        ("GET", "/jobs/repo/issue-1", "/jobs/repo%2Fissue-1"),
        ("POST", "/locks/a/b/c/acquire", "/locks/a%2Fb%2Fc/acquire"),
        ("GET", "/nonsense/a/b", None),
    ],
)
def test_a_name_with_an_unencoded_slash_gets_the_path_to_use(
    server: ServerProcess, method: str, path: str, suggested: str | None
) -> None:
    response = server.request(method, path)
    assert (response.status, response.json["code"]) == (404, "no_such_route")
    assert (f"use {suggested}" in response.json["details"]) == (suggested is not None)
    assert ("%2F" in response.json["details"]) == (suggested is not None)
