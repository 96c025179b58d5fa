"""A server under a sub-path, behind a proxy that passes the path through or strips it; and without a live page."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore
from octostore.server.assets import assets
from tests.support.server import ServerProcess

BASE = "/octo"
BROWSER = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("home"), "--base-path", f"{BASE}/") as process:
        yield process
        process.check_has_not_failed()


@pytest.fixture(params=[BASE, ""], ids=["passed through", "stripped"])
def seen(request: pytest.FixtureRequest) -> str:
    """The base path as the server sees it."""
    left: str = request.param
    return left


def test_the_page_and_the_api_work_under_the_base_path(server: ServerProcess, seen: str) -> None:
    assert server.get(f"{seen}/", headers=BROWSER, token="").body == assets().shell
    assert server.get(f"{seen}/{assets().folder}/app.js", token="").status == 200
    assert server.get(f"{seen}/docs", token="").status == 200
    assert server.get(f"{seen}/jobs").status == 200
    claimed = server.post(f"{seen}/jobs/under{seen.replace('/', '-')}/claim", {"owner": "ann"})
    assert claimed.json["status"] == "claimed"


def test_the_cookie_path_includes_the_base_path(server: ServerProcess, seen: str) -> None:
    response = server.post(f"{seen}/ui/login", {"token": server.token}, token="", headers={"Origin": server.url})
    cookie, _, terms = response.headers["set-cookie"].partition(";")
    assert f"Path={BASE}/ui/;" in terms
    assert server.get(f"{seen}/ui/api/jobs", token="", headers={"Cookie": cookie}).status == 200


def test_links_include_the_base_path(server: ServerProcess, seen: str) -> None:
    about = server.get(f"{seen}/", token="").json
    assert [about[name] for name in ("page", "docs", "openapi")] == ["/octo/", "/octo/docs", "/octo/openapi.json"]
    assert server.get(f"{seen}/openapi.json", token="").json["servers"] == [{"url": BASE}]
    metadata = server.get(f"{seen}/.well-known/oauth-protected-resource/mcp", token="").json
    assert metadata["resource"] == f"{server.url}{BASE}/mcp"
    challenge = server.post(f"{seen}/mcp", token="").headers["www-authenticate"]
    assert f'"{server.url}{BASE}/.well-known/oauth-protected-resource/mcp"' in challenge
    assert any(f"{server.url}{BASE}/ (" in line for line in server.greeting)


def test_the_page_without_its_slash_redirects(server: ServerProcess) -> None:
    for query in ("", "?view=job&job=a%2Fb"):
        response = server.get(f"{BASE}{query}", headers=BROWSER, token="")
        assert (response.status, response.headers["location"]) == (308, f"{BASE}/{query}")


def test_nothing_else_is_stripped(server: ServerProcess) -> None:
    for path in ("/octopus/jobs", "/octojobs", "/octo/octo/jobs", "/x/octo/jobs", "/OCTO/jobs"):
        assert server.get(path).status == 404


def test_the_library_connects_under_the_base_path(server: ServerProcess) -> None:
    with octostore.connect(f"{server.url}{BASE}", token=server.token) as store:
        assert store.claim_job("by-library", owner="ann").status == "claimed"
        assert store.get_job_owner("by-library") is not None


def test_no_ui_removes_every_route_of_the_page(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--no-ui") as server:
        own = {"Origin": server.url}
        folder = assets().folder
        for path in ("/", "/ui/api/jobs", f"/{folder}/app.js", f"/{folder}/style.css"):
            assert server.get(path, headers=BROWSER).json["code"] == "no_such_route"
        for path in ("/ui/login", "/ui/logout", "/auth/link", "/ui/api/recover"):
            assert server.post(path, {}, headers=own).json["code"] == "no_such_route"
        assert server.get("/jobs").status == 200
        docs = server.get("/docs", token="")
        linked = re.findall(rf'href="({folder}/[^"]+)"', docs.body.decode())
        assert len(linked) == 2, "the API page's icon and style sheet"
        for path in linked:
            assert server.get(f"/{path}", token="").status == 200
        paths = server.get("/openapi.json", token="").json["paths"]
        assert "/jobs" in paths
        assert not {"/", "/ui/login", "/auth/link"} & set(paths)
        assert not any("live page" in line for line in server.greeting)
