"""Logging in on the live page: the cookie, where it is valid, what ends it, and that other sites cannot use it."""

import base64
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from octostore.server.router import Route
from octostore.server.routes import ROUTES
from octostore.server.routes.page import page_routes
from octostore.wire.tokens import new_token
from tests.support.page_client import Browser, is_refused, made
from tests.support.server import ServerProcess

MOUNTED = page_routes(ROUTES)
BEHIND_LOGIN = [route for route in MOUNTED if not route.is_public]
UNSAFE = [route for route in MOUNTED if route.method != "GET"]


def by_name(route: Route) -> str:
    return route.name


@pytest.fixture
def browser(server: ServerProcess) -> Browser:
    return Browser(server)


@pytest.fixture
def admin(server: ServerProcess) -> Browser:
    browser = Browser(server)
    assert browser.log_in(token=server.token).status == 204
    return browser


# Logging in and out


def test_a_token_logs_a_browser_in(server: ServerProcess, browser: Browser) -> None:
    response = browser.log_in(token=server.token)
    assert (response.status, response.body) == (204, b"")
    name = f"octostore-{server.get('/health').json['store_id'][:8]}"
    found = re.fullmatch(rf"{name}=([\w-]+); Max-Age=(\d+); (.*)", response.headers["set-cookie"])
    assert found is not None, response
    assert 7 * 86_400 - 5 <= int(found[2]) <= 7 * 86_400
    assert found[3] == "Path=/ui/; HttpOnly; SameSite=Strict"
    assert server.token not in found[1]
    assert browser.get("/ui/api/auth/whoami").json["name"] == "admin"


def test_over_https_the_cookie_is_for_https_only(server: ServerProcess) -> None:
    browser = Browser(server, Origin=server.url.replace("http:", "https:"))
    assert browser.log_in(token=server.token).headers["set-cookie"].endswith("; Secure")


def test_logging_out_deletes_the_cookie(server: ServerProcess, admin: Browser) -> None:
    response = admin.post("/ui/logout")
    assert response.status == 204
    name = admin.cookie.partition("=")[0]
    assert response.headers["set-cookie"] == f"{name}=; Max-Age=0; Path=/ui/; HttpOnly; SameSite=Strict"
    assert is_refused(Browser(server).get("/ui/api/jobs"), "authentication_required")


def test_a_wrong_token_is_refused(server: ServerProcess, browser: Browser) -> None:
    token, token_id = made(server, "gone")
    server.request("DELETE", f"/tokens/{token_id}")
    for wrong in (new_token(), "octo_x", "", token, "\ud800", "octo_ü"):
        response = browser.log_in(token=wrong)
        assert is_refused(response)
        assert is_refused(browser.log_in(code=wrong))
        assert "set-cookie" not in response.headers
    bodies: list[Any] = [{}, {"token": server.token, "code": "x"}, {"token": 7}, {"tokens": server.token}, []]
    for body in bodies:
        assert browser.post("/ui/login", body).status in {400, 422}


def test_wrong_codes_are_rate_limited(own_server: ServerProcess) -> None:
    browser = Browser(own_server)
    with ExitStack() as at_end:
        connections = [at_end.enter_context(own_server.connect()) for _ in range(45)]
        for connection in connections:  # all before the first response: the limit is per second
            origin = "Origin: http://localhost\r\n"
            connection.request("POST", "/ui/login", {"code": new_token()}, token="", headers=origin)
        responses = [connection.response() for connection in connections]
    assert {response.status for response in responses} == {401, 429}
    assert all("retry-after" in response.headers for response in responses if response.status == 429)
    assert browser.log_in(token=own_server.token).status == 204, "valid tokens are still admitted"


# Where a cookie is valid, and where a token is


@pytest.mark.parametrize("route", BEHIND_LOGIN, ids=by_name)
def test_the_api_does_not_accept_the_cookie(admin: Browser, route: Route) -> None:
    path = re.sub(r"{\w+}", "a-name", route.path).removeprefix("/ui/api")
    assert is_refused(admin.call(route.method, path), "authentication_required")


@pytest.mark.parametrize("route", BEHIND_LOGIN, ids=by_name)
def test_the_page_does_not_accept_a_token(server: ServerProcess, route: Route) -> None:
    path = re.sub(r"{\w+}", "a-name", route.path)
    response = server.request(route.method, path, headers={"Origin": server.url})
    assert is_refused(response, "authentication_required")


def test_the_page_does_not_accept_a_token_that_the_api_just_did(server: ServerProcess) -> None:
    """In requests with the same header lines, on one connection."""
    with server.connect() as connection:
        for path, status in (("/jobs", 200), ("/ui/api/jobs", 401), ("/jobs", 200)):
            connection.request("GET", path, token=server.token)
            assert connection.response().status == status


def test_the_page_uses_the_cookie_even_if_there_is_a_token(server: ServerProcess, browser: Browser) -> None:
    reader, _ = made(server, "reader", "read")
    browser.log_in(token=reader)
    bearer = {"Authorization": f"Bearer {server.token}"}
    assert browser.get("/ui/api/auth/whoami", **bearer).json["name"] == "reader"
    assert browser.get("/auth/whoami", **bearer).json["name"] == "admin"


def test_routes_that_the_page_cannot_call(admin: Browser) -> None:
    for method, path in (
        ("POST", "/mcp"),
        ("POST", "/auth/token/rotate"),
        ("POST", "/auth/link"),
        ("GET", "/locks"),
        ("POST", "/locks/x/acquire"),
        ("POST", "/ui/login"),
        ("GET", "/"),
        ("GET", ""),
    ):
        response = admin.call(method, f"/ui/api{path}")
        assert (response.status, response.json["code"]) == (404, "no_such_route")


def test_the_page_uses_the_handlers_of_the_api(server: ServerProcess, admin: Browser) -> None:
    claimed = admin.post("/ui/api/jobs/by-page/claim", {"owner": "someone"}).json
    assert claimed["status"] == "claimed"
    assert admin.get("/ui/api/jobs/by-page").json == server.get("/jobs/by-page").json
    taken = admin.post("/ui/api/jobs/by-page/force-release", {"reason": "a test"})
    assert taken.status == 200
    assert server.events("by-page")[-1]["actor"] == "admin"
    with admin.stream("/ui/api/events?job=by-page") as stream:
        assert stream.next().event == "claimed"


def test_a_login_has_the_scopes_and_prefix_of_its_token(server: ServerProcess, browser: Browser) -> None:
    token, _ = made(server, "limited", "read", prefix="mine-")
    browser.log_in(token=token)
    assert browser.get("/ui/api/jobs").status == 200
    assert browser.get("/ui/api/jobs?prefix=theirs").status == 403
    assert browser.get("/ui/api/tokens").status == 403


@pytest.mark.parametrize("route", UNSAFE, ids=by_name)
def test_a_read_only_login_changes_nothing(reader: Browser, route: Route) -> None:
    body = route.example.get("body", {}) if route.body else None
    response = reader.call(route.method, re.sub(r"{\w+}", "a-name", route.path), body)
    if route.operation == "batch":
        assert {one["status"] for one in response.json["answers"]} == {403}
    else:
        assert (response.status, response.json["code"]) == (403, "not_allowed")


@pytest.fixture(scope="module")
def reader(server: ServerProcess) -> Iterator[Browser]:
    token, _ = made(server, "only-reads", "read")
    browser = Browser(server)
    browser.log_in(token=token)
    seq = server.seq
    yield browser
    events = server.get(f"/events?after={seq}&limit=1000").json["events"]
    assert "only-reads" not in {event["actor"] for event in events}


# Other sites

UNTRUSTED = [
    {"Origin": ""},
    {"Origin": "null"},
    {"Origin": "http://evil.example"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
]


@pytest.mark.parametrize("headers", UNTRUSTED, ids=str)
def test_pages_of_other_sites_change_nothing(server: ServerProcess, admin: Browser, headers: dict[str, str]) -> None:
    seq = server.seq
    for path in ("/ui/api/jobs/by-others/claim", "/ui/login", "/ui/logout"):
        response = admin.post(path, {"token": server.token} if path == "/ui/login" else {}, **headers)
        assert (response.status, response.json["code"]) == (403, "origin_not_allowed")
        assert "set-cookie" not in response.headers
    assert server.seq == seq


def test_an_allowed_origin_may_use_the_api_but_not_the_page(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--allow-origin", "https://dash.example") as server:
        browser = Browser(server)
        browser.log_in(token=server.token)
        theirs = {"Origin": "https://dash.example"}
        assert server.get("/jobs", headers=theirs).status == 200
        assert browser.get("/ui/api/jobs", **theirs).status == 403
        assert browser.post("/ui/api/recover", **theirs).status == 403


def test_sec_fetch_site_identifies_our_own_page(admin: Browser) -> None:
    """The origin does not if a proxy changes the host."""
    same = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "same-origin"}
    assert admin.post("/ui/api/recover", **same).status == 200
    assert admin.get("/ui/api/jobs", Origin="").status == 200
    assert admin.get("/ui/api/jobs", **{"Origin": "", "Sec-Fetch-Site": "none"}).status == 200
    assert admin.get("/ui/api/jobs", **{"Origin": "", "Sec-Fetch-Site": "same-site"}).status == 403


# What ends a login


def test_a_tampered_cookie_is_refused(admin: Browser) -> None:
    name, _, value = admin.cookie.partition("=")
    content = base64.urlsafe_b64decode(value)
    later = content[:32] + (2**63).to_bytes(8) + content[40:]
    short, long, empty = content[:-1], content + b"0", b""
    flipped = [bytes([*content[:at], content[at] ^ 1, *content[at + 1 :]]) for at in (0, 39, 40, 71)]
    for wrong in (later, short, long, empty, *flipped):
        response = admin.get("/ui/api/jobs", Cookie=f"{name}={base64.urlsafe_b64encode(wrong).decode()}")
        assert response.status == 401
    for garbage in ("=", "%", "é", '"', value.swapcase()):
        assert admin.get("/ui/api/jobs", Cookie=f"{name}={garbage}".encode().decode("latin-1")).status == 401
    assert is_refused(admin.get("/ui/api/jobs", Cookie=f"octostore-00000000={value}"), "authentication_required")
    assert admin.get("/ui/api/jobs", Cookie=f"a=b;{name}=x; {admin.cookie} ;c").status == 200


def test_the_cookie_is_found_among_other_cookies(server: ServerProcess, admin: Browser) -> None:
    name = admin.cookie.partition("=")[0]
    for before in (f"other=1; {name}=", f"{name}=AAAA; {admin.cookie[:-1]}", f"x{admin.cookie}", "a=" + "x" * 8_000):
        assert admin.get("/ui/api/jobs", Cookie=f"{before}; {admin.cookie}").status == 200
    with server.connect() as connection:  # as sent by proxies that speak HTTP/2 with the browser
        fields = f"Cookie: other=1\r\nCookie: {admin.cookie}\r\nCookie: more=2\r\n"
        connection.send(f"GET /ui/api/jobs HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode())
        assert connection.response().status == 200


def test_a_login_ends_when_its_token_is_revoked(server: ServerProcess, browser: Browser) -> None:
    token, token_id = made(server, "revoked", "read")
    browser.log_in(token=token)
    with browser.stream("/ui/api/events") as stream:
        stream.next()
        server.request("DELETE", f"/tokens/{token_id}")
        stream.rest()  # returns because the server ends the stream
    assert is_refused(browser.get("/ui/api/jobs"))


def test_a_login_ends_when_its_token_is_rotated(server: ServerProcess, browser: Browser) -> None:
    token, _ = made(server, "rotated", "read")
    browser.log_in(token=token)
    with browser.stream("/ui/api/events") as stream:
        stream.next()
        assert server.post("/auth/token/rotate", token=token).status == 200
        stream.rest()
    assert is_refused(browser.get("/ui/api/jobs"))


def test_a_login_ends_when_its_token_expires(server: ServerProcess, browser: Browser) -> None:
    token, _ = made(server, "brief", "read", expires_in_seconds=3_600)
    cookie = browser.log_in(token=token).headers["set-cookie"]
    assert 3_590 <= int(cookie.partition("Max-Age=")[2].partition(";")[0]) <= 3_600


def test_a_login_lasts_a_week(admin: Browser) -> None:
    ends_at = datetime.fromisoformat(admin.get("/ui/api/auth/whoami").json["expires_at"])
    assert timedelta(days=6, hours=23) < ends_at - datetime.now(UTC) <= timedelta(days=7)


def test_a_cookie_is_valid_on_every_server_of_its_store_and_on_no_other(
    server: ServerProcess, admin: Browser, tmp_path: Path
) -> None:
    with ServerProcess(server.home) as other, ServerProcess(tmp_path) as stranger:
        assert Browser(other).get("/ui/api/jobs", Cookie=admin.cookie).status == 200
        name = f"octostore-{stranger.get('/health').json['store_id'][:8]}"
        theirs = f"{name}={admin.cookie.partition('=')[2]}"
        assert is_refused(Browser(stranger).get("/ui/api/jobs", Cookie=theirs))


# Login links


def test_a_link_logs_in_once(server: ServerProcess, browser: Browser) -> None:
    token, _ = made(server, "linked", "read")
    link = server.post("/auth/link", token=token).json
    left = datetime.fromisoformat(link["expires_at"]) - datetime.now(UTC)
    assert timedelta(seconds=50) < left < timedelta(seconds=61), "a minute, rounded to milliseconds"
    assert browser.log_in(code=link["code"]).status == 204
    assert browser.get("/ui/api/auth/whoami").json["name"] == "linked"
    again = browser.log_in(code=link["code"])
    assert is_refused(again)
    assert "octostore ui" in again.json["details"]


def test_a_link_ends_with_its_token(server: ServerProcess, browser: Browser) -> None:
    token, token_id = made(server, "unlinked", "read")
    code = server.post("/auth/link", token=token).json["code"]
    server.request("DELETE", f"/tokens/{token_id}")
    assert is_refused(browser.log_in(code=code))


def test_a_new_link_replaces_the_oldest_one_of_the_same_token(server: ServerProcess, browser: Browser) -> None:
    kept = server.post("/auth/link").json["code"]
    token, _ = made(server, "many", "read")
    codes = [server.post("/auth/link", token=token).json["code"] for _ in range(12)]
    assert [browser.log_in(code=code).status for code in codes] == [401] * 2 + [204] * 10
    assert browser.log_in(code=kept).status == 204


def test_no_secret_of_a_login_is_logged(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--access-log") as server:
        browser = Browser(server)
        code = server.post("/auth/link").json["code"]
        browser.log_in(code=code)
        browser.log_in(code=code)
        browser.log_in(token=new_token())
        browser.get("/ui/api/jobs")
        log = server.log
    assert "path=/ui/login" in log
    assert "token_refused: a token was refused, reason=unknown" in log
    assert "principal=admin" in log
    assert code not in log
    assert browser.cookie.partition("=")[2] not in log
