"""Every limit of the server at its edge: counts, rates, sizes, timeouts, hosts and origins."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octostore.server.http import SECURITY_HEADERS
from tests.support.connections import Connection, Response, Stream
from tests.support.processes import until
from tests.support.server import ServerProcess

KIB = 1_024
QUICK_SECONDS = 0.4


def check_refused(response: Response, status: int, code: str) -> None:
    assert (response.status, response.json["code"]) == (status, code), response
    assert response.json["request_id"] == response.headers["x-request-id"]
    assert response.json["details"]
    for name, value in SECURITY_HEADERS:
        assert response.headers[name.decode()] == value.decode()


# Claims and locks


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    bounds = ["--max-locks", "3", "--max-claims", "2", "--max-sessions", "2", "--max-queued", "2"]
    bounds += ["--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "127.0.0.1"]
    with ServerProcess(tmp_path_factory.mktemp("strict"), *bounds) as process:
        yield process
        process.check_has_not_failed()


def test_the_number_of_locks_is_limited(strict: ServerProcess) -> None:
    ann, bob = strict.new_token("ann"), strict.new_token("bob")

    def acquire(name: str, token: str = ann, **terms: Any) -> Response:
        return strict.post(f"/locks/{name}/acquire", terms, token=token)

    leases = [acquire(f"lock-{number}").json["lease_id"] for number in range(3)]
    refused = acquire("lock-3")
    check_refused(refused, 403, "lock_limit_exceeded")
    assert refused.json["limit"] == 3
    session = strict.post("/sessions", token=ann).json["session_id"]
    check_refused(acquire("lock-3", session_id=session, ephemeral=True), 403, "lock_limit_exceeded")
    assert strict.get("/locks/lock-3").json["status"] == "free"
    assert acquire("lock-0").json["lease_id"] == leases[0], "a lock it holds may be acquired again"
    assert acquire("lock-0", bob).json["status"] == "held"
    assert acquire("lock-3", bob).json["status"] == "acquired", "the limit is per principal"
    strict.post("/locks/lock-0/release", {"lease_id": leases[0]}, token=ann)
    assert acquire("lock-4").json["status"] == "acquired"
    assert strict.post("/jobs/no-lock/claim", token=ann).json["status"] == "claimed", "other claims do not count"


def test_the_number_of_claims_is_limited(strict: ServerProcess) -> None:
    token = strict.new_token("claimer")
    for number in range(2):
        assert strict.post(f"/jobs/claim-{number}/claim", token=token).json["status"] == "claimed"
    refused = strict.post("/jobs/claim-2/claim", token=token)
    check_refused(refused, 409, "limit_exceeded")
    assert refused.json["limit"] == 2
    strict.post("/jobs", {"kind": "k", "queue": "limited"})
    check_refused(strict.post("/queues/limited/claim", token=token), 409, "limit_exceeded")
    check_refused(strict.post("/jobs/claim-2/claim", {"wait_seconds": 5}, token=token), 409, "limit_exceeded")
    assert strict.post("/locks/no-claim/acquire", token=token).json["status"] == "acquired"


def test_the_number_of_sessions_is_limited(strict: ServerProcess) -> None:
    token = strict.new_token("sitter")
    opened = [strict.post("/sessions", token=token) for _ in range(3)]
    assert [response.status for response in opened[:2]] == [201, 201]
    check_refused(opened[2], 409, "limit_exceeded")
    assert opened[2].json["limit"] == 2
    strict.post("/jobs", {"kind": "k", "queue": "of-sessions"})
    task = strict.post("/sessions/another/claim", {"agent": "a", "queues": ["of-sessions"]}, token=token)
    check_refused(task, 409, "limit_exceeded")
    strict.request("DELETE", f"/sessions/{opened[0].json['session_id']}", token=token)
    assert strict.post("/sessions", token=token).status == 201


def test_the_number_of_queued_jobs_is_limited(strict: ServerProcess) -> None:
    token, worker = strict.new_token("planner"), strict.new_token("worker")
    jobs = [{"kind": "k", "queue": "planned", "job_id": f"planned-{number}"} for number in range(4)]
    statuses = [strict.post("/jobs", job, token=token).status for job in jobs]
    assert statuses == [201, 201, 409, 409]
    refused = strict.post("/jobs", jobs[3], token=token)
    check_refused(refused, 409, "limit_exceeded")
    assert "queued jobs" in refused.json["error"]
    batch = strict.post("/batch", {"commands": [{"command": "enqueue", **job} for job in jobs]}, token=token).json
    assert [reply["status"] for reply in batch["answers"]] == [200, 200, 409, 409]
    assert strict.post("/queues/planned/claim", token=worker).json["status"] == "claimed"
    assert strict.post("/jobs", jobs[3], token=token).status == 201


def test_a_hundred_locks_by_default_and_any_number_of_claims(server: ServerProcess) -> None:
    token = server.new_token("collector")
    with server.connect() as connection:
        for kind, responses in (("locks/{}/acquire", []), ("jobs/j-{}/claim", [])):  # type: tuple[str, list[Response]]
            for number in range(101):
                connection.request("POST", "/" + kind.format(number), token=token)
                responses.append(connection.response())
            assert {response.status for response in responses[:100]} == {200}
            if "locks" in kind:
                check_refused(responses[100], 403, "lock_limit_exceeded")
            else:
                assert responses[100].json["status"] == "claimed"


# Rates


def test_the_number_of_requests_per_second_is_limited(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--requests-per-second", "5") as server:
        ann, bob = server.new_token("ann"), server.new_token("bob")
        with server.connect() as connection:
            responses = connection.get_all("/jobs", [ann] * 40)
        assert [response.status for response in responses[:10]] == [200] * 10, "the burst limit"
        refused = [response for response in responses if response.status != 200]
        check_refused(refused[0], 429, "rate_limited")
        assert 0 < refused[0].json["retry_after_ms"] <= 200
        assert refused[0].headers["retry-after"] == "1"
        assert server.get("/jobs", token=bob).status == 200, "the limit is per principal"
        assert server.get("/livez", token=ann).status == 200
        time.sleep(refused[-1].json["retry_after_ms"] / 1_000)
        assert server.get("/jobs", token=ann).status == 200


def test_guessing_behind_a_proxy_is_limited_per_client_address(strict: ServerProcess) -> None:
    """Addresses that the client made up, left of the one that the proxy added, do not count."""
    responses = [strict.guess(30, X_Forwarded_For=f"203.0.113.{n}, 198.51.100.7, 10.1.2.3") for n in range(3)]
    assert {response.status for some in responses for response in some} == {401, 429}
    (other,) = strict.guess(1, X_Forwarded_For="198.51.100.8, 10.1.2.3")
    assert other.status == 401
    assert strict.get("/jobs", headers={"X-Forwarded-For": "198.51.100.7"}).status == 200


def test_tokens_cannot_be_guessed_quickly(own_server: ServerProcess) -> None:
    known = own_server.new_token("known")
    assert own_server.get("/jobs", token=known).status == 200
    statuses = [response.status for response in own_server.guess()]
    assert statuses.count(401) >= 40
    assert set(statuses) == {401, 429}
    assert own_server.get("/jobs", token=known).status == 200, "valid tokens are still admitted"
    assert own_server.get("/jobs", token="nonsense").status == 401, "a malformed token does not count"


# Sizes


@pytest.mark.parametrize("size", [320 * KIB + 1, 1_024 * KIB, 20_000 * KIB])
def test_a_body_over_the_limit_is_refused(server: ServerProcess, size: int) -> None:
    response = server.post("/jobs/large/claim", raw=b" " * size)
    check_refused(response, 413, "body_too_large")
    assert response.json["limit"] == 320 * KIB


def test_a_chunked_body_over_the_limit_is_refused(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.send(
            b"POST /jobs/large/claim HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n" % server.token.encode()
        )
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        for _ in range(16):
            connection.send(chunk)
        connection.send(b"0\r\n\r\n")
        check_refused(connection.response(), 413, "body_too_large")


def test_a_body_of_exactly_the_limit_is_accepted(server: ServerProcess) -> None:
    document = b'{"kind": "k", "payload": "%s"}' % (b"x" * (256 * KIB - 2))
    response = server.post("/jobs", raw=document + b" " * (320 * KIB - len(document)))
    assert response.status == 201


def test_a_client_is_refused_before_it_has_sent_its_whole_body(server: ServerProcess) -> None:
    for token, status in (("", 401), ("nonsense", 401), (server.new_token("reader", "read"), 403)):
        assert server.post("/jobs/large/claim", raw=b" " * 300 * KIB, token=token).status == status


def test_a_connection_stays_usable_after_a_body_over_the_limit(server: ServerProcess) -> None:
    with server.connect() as connection:
        body = b" " * 400 * KIB
        connection.send(
            b"POST /jobs/large/claim HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (server.token.encode(), len(body))
        )
        check_refused(connection.response(), 413, "body_too_large")
        connection.send(body)
        connection.request("GET", "/jobs/large", token=server.token)
        assert connection.response().json["status"] == "free"


def test_the_number_of_headers_is_limited(server: ServerProcess) -> None:
    headers = "".join(f"X-{number}: 1\r\n" for number in range(61))
    with server.connect() as connection:
        connection.request("GET", "/jobs", token=server.token, headers=headers)  # which adds three
        assert connection.response().status == 200
        connection.request("GET", "/jobs", token=server.token, headers=headers + "X-61: 1\r\n")
        check_refused(connection.response(), 431, "headers_too_large")
        assert connection.is_ended()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 17 * KIB,
        b"GET /jobs HTTP/1.1\r\nHost: localhost\r\n" + b"x" * 17 * KIB + b": x",
        b"GET /jobs/" + b"x" * 17 * KIB + b" HTTP/1.1\r\nHost: localhost",
        b"GET /jobs HTTP/1.1\r\nHost: localhost\r\n" + b"\r\n".join(b"X-%d: 1" % number for number in range(1_000)),
    ],
    ids=["a long value", "a long name", "a long path", "many"],
)
def test_a_head_over_the_limit_is_refused(server: ServerProcess, head: bytes) -> None:
    with server.connect() as connection:
        connection.send(head + b"\r\n\r\n")
        check_refused(connection.response(), 431, "headers_too_large")
        assert connection.is_ended()


@pytest.mark.parametrize("start", [b"GET /jobs HTTP/1.1\r\nX: ", b"GET /jobs/"], ids=["header", "path"])
def test_an_endless_head_is_refused(server: ServerProcess, start: bytes) -> None:
    with server.connect() as connection:
        connection.send(start)
        assert _sent_until_cut(connection, b"x" * 4 * KIB) < 5_000 * KIB
        check_refused(connection.response(), 431, "headers_too_large")


@pytest.mark.parametrize(
    "trailer", [b"X: " + b"x" * 4 * KIB + b"\r\n", b"x" * 4 * KIB], ids=["many trailers", "an endless one"]
)
def test_trailers_are_limited_too(server: ServerProcess, trailer: bytes) -> None:
    with server.connect() as connection:
        connection.send(b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        assert _sent_until_cut(connection, trailer) < 5_000 * KIB


def _sent_until_cut(connection: Connection, part: bytes, limit: int = 20_000 * KIB) -> int:
    """The number of bytes the server accepted."""
    sent = 0
    connection.socket.settimeout(0.2)
    try:
        while sent < limit and not _is_readable_and_closed(connection):
            connection.send(part)
            sent += len(part)
    except (TimeoutError, ConnectionError):
        pass
    connection.socket.settimeout(5)
    return sent


def _is_readable_and_closed(connection: Connection) -> bool:
    connection.socket.setblocking(False)
    try:
        return b"connection: close" in connection.socket.recv(KIB, 2)  # MSG_PEEK
    except BlockingIOError:
        return False
    finally:
        connection.socket.settimeout(0.2)


# Timeouts


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with short timeouts and few connections."""
    seconds = str(QUICK_SECONDS)
    arguments = ("--request-seconds", seconds, "--idle-seconds", seconds, "--max-connections", "4")
    with ServerProcess(tmp_path_factory.mktemp("quick"), *arguments) as process:
        yield process
        process.check_has_not_failed()


def half_a_claim(server: ServerProcess) -> bytes:
    return (
        b"POST /jobs/slow/claim HTTP/1.1\r\nHost: localhost\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: 20\r\n\r\n{}" % server.token.encode()
    )


@pytest.mark.parametrize("part", ["head", "body"])
def test_an_incomplete_request_times_out(quick: ServerProcess, part: str) -> None:
    sent = b"GET /jobs HTTP/1.1\r\nHost: local" if part == "head" else half_a_claim(quick)
    with quick.connect() as connection:
        started = time.monotonic()
        connection.send(sent)
        response = connection.response()
        check_refused(response, 408, "request_timeout")
        assert f"within {QUICK_SECONDS} seconds" in response.json["error"]
        assert time.monotonic() - started > QUICK_SECONDS * 0.9
        assert connection.is_ended()
    assert quick.get("/jobs/slow").json["status"] == "free"


def test_trickling_bytes_does_not_extend_the_timeout(quick: ServerProcess) -> None:
    with quick.connect() as connection:
        connection.send(b"GET /jobs HTTP/1.1\r\nX: ")
        while not _is_readable_and_closed(connection):
            connection.send(b"x")
            time.sleep(QUICK_SECONDS / 20)
        check_refused(connection.response(), 408, "request_timeout")


def test_a_client_that_goes_on_sending_after_a_refusal_gets_one_response_only(quick: ServerProcess) -> None:
    with quick.connect() as connection:
        connection.send(half_a_claim(quick).replace(quick.token.encode(), b"nonsense"))
        check_refused(connection.response(), 401, "authentication_failed")
        assert connection.is_ended()


@pytest.mark.parametrize("before", ["nothing", "a request", "a request and an empty line"])
def test_a_connection_without_a_request_is_closed(quick: ServerProcess, before: str) -> None:
    with quick.connect() as connection:
        if "request" in before:
            connection.request("GET", "/livez", token="")
            assert connection.response().status == 200
        if "line" in before:
            connection.send(b"\r\n")
        started = time.monotonic()
        connection.socket.settimeout(QUICK_SECONDS * 5)
        assert connection.is_ended()
        assert time.monotonic() - started > QUICK_SECONDS / 2


def test_a_connection_is_kept_between_requests(quick: ServerProcess) -> None:
    with quick.connect() as connection:
        for _ in range(3):
            connection.request("GET", "/jobs/slow", token=quick.token)
            assert connection.response().status == 200


def test_a_waiting_claim_does_not_time_out(quick: ServerProcess) -> None:
    claim = quick.post("/jobs/waited-for/claim").json
    with quick.connect() as connection:
        body = {"wait_seconds": QUICK_SECONDS * 2}
        connection.request("POST", "/jobs/waited-for/claim", body, token=quick.token)
        assert connection.response().json["status"] == "held"
    quick.post("/jobs/waited-for/release", {"lease_id": claim["lease_id"]})


def test_the_number_of_connections_is_limited(quick: ServerProcess) -> None:
    streams: list[Stream] = []
    until(lambda: _are_all_open(quick, streams))
    try:
        with quick.connect() as connection:
            response = connection.response()
            check_refused(response, 503, "too_many_connections")
            assert response.headers["retry-after"] == "1"
            assert connection.is_ended()
    finally:
        for stream in streams:
            stream.close()
    until(lambda: _status_or_none(quick) == 200)


def _are_all_open(server: ServerProcess, streams: list[Stream]) -> bool:
    """Whether four streams are open now; connections of earlier tests may still be closing."""
    stream = server.stream("/events")
    if stream.status == 200:
        streams.append(stream)
    else:
        stream.close()
    return len(streams) == 4


def _status_or_none(server: ServerProcess) -> int | None:
    try:
        return server.get("/livez").status
    except ConnectionError:
        return None


# Hosts and origins


@pytest.fixture(scope="module")
def open_to_some(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    arguments = ("--allow-host", "Locks.Example", "--allow-origin", "https://app.example/")
    with ServerProcess(tmp_path_factory.mktemp("open"), *arguments) as process:
        yield process
        process.check_has_not_failed()


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "locks.example",
        "10.0.0.1",
        "0.0.0.0",
        "[::1",
        "a b",
        "\xe9",
    ],
)
def test_foreign_host_names_are_refused(server: ServerProcess, host: str) -> None:
    for path in ("/livez", "/jobs", "/nowhere"):
        check_refused(server.get(path, headers={"Host": host}), 421, "host_not_allowed")


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:3000", "127.0.0.1", "127.0.0.1:80", "[::1]:3000", "127.8.8.8"]
)
def test_local_host_names_are_accepted(server: ServerProcess, host: str) -> None:
    assert server.get("/jobs", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    ("host", "status"), [("locks.example", 200), ("LOCKS.example:443", 200), ("localhost", 200), ("evil.example", 421)]
)
def test_host_names_that_the_operator_allows_are_accepted(open_to_some: ServerProcess, host: str, status: int) -> None:
    assert open_to_some.get("/jobs", headers={"Host": host}).status == status


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://localhost", "null", "", "https://app.example", "http://[evil", "file://", "x y"],
)
def test_pages_of_other_sites_may_not_call(server: ServerProcess, origin: str) -> None:
    seq = server.seq
    for headers in ({"Origin": origin}, {"Origin": origin, "Access-Control-Request-Method": "POST"}):
        method = "OPTIONS" if len(headers) > 1 else "POST"
        response = server.request(method, "/jobs/x/claim", headers=headers)
        check_refused(response, 403, "origin_not_allowed")
        assert "access-control-allow-origin" not in response.headers
    assert server.seq == seq


def test_pages_of_this_server_may_call(server: ServerProcess) -> None:
    host = f"127.0.0.1:{server.port}"
    response = server.get("/jobs", headers={"Origin": f"http://{host}", "Host": host})
    assert response.status == 200
    assert "access-control-allow-origin" not in response.headers


def test_pages_that_the_operator_allows_may_call(open_to_some: ServerProcess) -> None:
    server, origin = open_to_some, {"Origin": "https://app.example"}
    asked = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    preflight = server.request("OPTIONS", "/jobs/x/claim", headers=asked, token="")
    assert (preflight.status, preflight.body) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == "https://app.example"
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    for response in (
        server.post("/jobs/x/claim", headers=origin),
        server.post("/jobs/x/claim", headers=origin, token=""),
        server.get("/nowhere", headers=origin),
    ):
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        assert response.headers["vary"] == "origin"
    for other in ("https://app.example.evil", "http://app.example", "https://APP.example"):
        check_refused(server.get("/jobs", headers={"Origin": other}), 403, "origin_not_allowed")


# Headers of responses


def test_every_response_has_the_security_headers(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.send(b"nonsense\r\n\r\n")
        responses = [connection.response()]
    session = server.post("/sessions")
    responses += [
        session,
        server.get("/livez", token=""),
        server.get("/openapi.json", token=""),
        server.get("/metrics", token=""),
        server.get("/nowhere"),
        server.get("/jobs", token=""),
        server.post("/jobs/x/claim", raw=b"nonsense"),
        server.get("/locks/x/watch"),
        server.request("DELETE", f"/sessions/{session.json['session_id']}"),
        server.request("PATCH", "/jobs"),
    ]
    assert [response.status for response in responses] == [400, 201, 200, 200, 200, 404, 401, 400, 200, 204, 405]
    for response in responses:
        for name, value in SECURITY_HEADERS:
            assert response.headers[name.decode()] == value.decode()
        assert "server" not in response.headers


def test_errors_follow_rfc_9457_on_request(server: ServerProcess) -> None:
    accept = {"Accept": "application/problem+json, application/json;q=0.5"}
    response = server.post("/locks/x/acquire", {"ttl_seconds": 0}, headers=accept)
    assert (response.status, response.headers["content-type"]) == (400, "application/problem+json")
    problem = response.json
    assert problem["status"] == 400
    assert problem["type"].endswith(":invalid_ttl")
    assert problem["title"]
    assert problem["detail"]
    assert problem["request_id"] == response.headers["x-request-id"]
    assert problem["code"] == "invalid_ttl"
    assert server.post("/locks/x/acquire", headers=accept).headers["content-type"] == "application/json"
    assert server.get("/jobs", headers=accept, token="").headers["content-type"] == "application/problem+json"
