"""What the live page's cookie cannot do, for every route in the table, so that new routes are covered."""

import json
from typing import Any

import pytest

import octostore
from octostore.server.router import Route
from octostore.server.routes import ROUTES
from octostore.server.routes.page import MOUNT, page_routes
from octostore.wire.batches import OPERATIONS
from tests.support.page_client import Browser, is_refused, made
from tests.support.server import ServerProcess

MOUNTED = page_routes(ROUTES)
NOT_FOR_THE_PAGE = [
    route
    for route in ROUTES
    if not route.is_public and not route.is_page and MOUNT + route.path not in {other.path for other in MOUNTED}
]
UNSAFE = [route for route in MOUNTED if route.method != "GET"]
BY_OPERATION = {route.operation: route for route in ROUTES}


def by_name(route: Route) -> str:
    return route.name


def path_of(route: Route) -> str:
    path = route.path
    for name in route.params:
        path = path.replace(f"{{{name}}}", "a-name")
    return path


def body_of(route: Route) -> Any:
    """The body of its example, with an unknown lease."""
    if route.body is None:
        return None
    return json.loads(json.dumps(route.example.get("body", {})).replace("$LEASE", "none"))


def log_in(server: ServerProcess, token: str) -> Browser:
    browser = Browser(server)
    assert browser.log_in(token=token).status == 204
    return browser


@pytest.fixture(scope="module")
def admin(server: ServerProcess) -> Browser:
    return log_in(server, server.token)


# Read-only logins


@pytest.mark.parametrize("by", ["cookie", "token"])
def test_a_read_only_principal_changes_nothing_in_a_batch(server: ServerProcess, by: str) -> None:
    token, _ = made(server, "reader", "read")
    commands = [as_command(BY_OPERATION[operation]) for operation in OPERATIONS]
    seq = server.seq
    if by == "cookie":
        response = log_in(server, token).post("/ui/api/batch", {"commands": commands})
    else:
        response = server.post("/batch", {"commands": commands}, token=token)
    replies = zip(OPERATIONS, response.json["answers"], strict=True)
    assert [
        operation for operation, one in replies if (one["status"], one["body"]["code"]) != (403, "not_allowed")
    ] == []
    assert server.seq == seq


def as_command(route: Route) -> dict[str, Any]:
    names = dict.fromkeys(route.params, "a-name")
    return {"command": route.operation, **names, **(body_of(route) or {})}


def test_every_route_that_changes_something_needs_more_than_the_read_scope() -> None:
    """Except those about the caller's own login and token, and those whose commands and tools have their own scopes."""
    unscoped = {route.operation for route in ROUTES if route.method != "GET" and route.scope in {None, "read"}}
    assert unscoped == {"batch", "mcp", "rotate_token", "make_link", "log_in", "log_out"}


# Where the cookie is not accepted


@pytest.mark.parametrize("route", NOT_FOR_THE_PAGE, ids=by_name)
def test_routes_that_are_not_for_the_page_do_not_accept_the_cookie(admin: Browser, route: Route) -> None:
    assert is_refused(admin.call(route.method, path_of(route), body_of(route)), "authentication_required")
    assert admin.call(route.method, MOUNT + path_of(route), body_of(route)).status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/ui/api/../../jobs",
        "/ui/api/..%2F..%2Fjobs",
        "/ui/../jobs",
        "/ui/jobs",
        "/ui//api/jobs",
        "//ui/api/jobs",
        "/ui/api//jobs",
        "/ui%2Fapi/jobs",
        "/UI/api/jobs",
        "/jobs?/ui/api/jobs",
        "/jobs/%2Fui%2Fapi%2Fjobs",
        "/jobs;/ui/api/",
    ],
)
def test_no_other_path_accepts_the_cookie(admin: Browser, path: str) -> None:
    assert admin.get("/ui/api/jobs").status == 200
    response = admin.get(path)
    assert response.status in {400, 401, 404}
    assert b'"jobs"' not in response.body


def test_public_routes_ignore_the_cookie(server: ServerProcess, admin: Browser) -> None:
    server.post("/jobs", {"kind": "build", "queue": "secret-queue"})
    assert b"secret-queue" in server.get("/metrics").body
    assert b"secret-queue" not in admin.get("/metrics").body


# Other sites


@pytest.mark.parametrize("headers", [{"Origin": ""}, {"Origin": "http://evil.example"}], ids=["none", "another"])
@pytest.mark.parametrize("route", UNSAFE, ids=by_name)
def test_a_request_without_our_own_origin_changes_nothing(
    admin: Browser, route: Route, headers: dict[str, str]
) -> None:
    seq = admin.server.seq
    response = admin.call(route.method, path_of(route), body_of(route), **headers)
    assert (response.status, response.json["code"]) == (403, "origin_not_allowed")
    assert admin.server.seq == seq


# Revocation on another server


def test_a_token_revoked_elsewhere_ends_the_login_and_its_streams_here(server: ServerProcess) -> None:
    """On every server of the store."""
    token, token_id = made(server, "revoked-elsewhere", "read", "claim")
    paths = "/ui/api/events", "/ui/api/events?heartbeats=kept"
    with ServerProcess(server.home) as other:
        browsers = [log_in(server, token), Browser(other)]
        browsers[1].cookie = browsers[0].cookie
        streams = [browser.stream(path) for browser in browsers for path in paths]
        for stream in streams:
            stream.next()
        with octostore.connect(f"sqlite:///{server.home}/octostore.db") as store:
            store.revoke_token(token_id)
        for stream in streams:
            stream.rest()  # returns because the server ends the stream
            stream.close()
        for browser in browsers:
            assert is_refused(browser.get("/ui/api/jobs"))
            assert is_refused(browser.post("/ui/api/jobs/wanted/claim", {"owner": "someone"}))
    assert server.get("/jobs/wanted").json["is_known"] is False
