"""How the live page reaches a browser: its shell, its assets, and the security policy."""

import gzip
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from octostore.server.assets import TYPES, Assets, assets
from octostore.server.http import DATA_POLICY, PAGE_POLICY, security_headers
from tests.support.connections import Response
from tests.support.processes import ROOT
from tests.support.server import ServerProcess

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
FILES = assets().by_path


def browse(server: ServerProcess, path: str = "/", method: str = "GET", **headers: str) -> Response:
    """Like a browser, without a token."""
    return server.request(method, path, token="", headers={"Accept": BROWSER, **headers})


# The shell


def test_a_browser_gets_the_page(server: ServerProcess) -> None:
    response = browse(server)
    assert (response.status, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["vary"] == "accept"
    assert response.body == assets().shell


def test_its_links_are_relative_and_exist(server: ServerProcess) -> None:
    shell = assets().shell.decode()
    assert "{assets}" not in shell
    assert 'href="/' not in shell
    assert 'src="/' not in shell
    for name in ("style.css", "app.js"):
        assert f'"{assets().folder}/{name}"' in shell
        assert browse(server, f"/{assets().folder}/{name}").status == 200


def test_other_clients_get_links_as_json(server: ServerProcess) -> None:
    for accept in ("*/*", "application/json"):
        response = browse(server, Accept=accept)
        assert (response.status, response.headers["content-type"]) == (200, "application/json")
        assert response.json["name"] == "OctoStore"
        assert [response.json[name] for name in ("page", "docs", "openapi")] == ["/", "/docs", "/openapi.json"]


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_only_our_own_scripts_and_styles(server: ServerProcess, path: str) -> None:
    response = browse(server, path)
    for name, value in security_headers(PAGE_POLICY):
        assert response.headers[name.decode()].encode() == value
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert response.headers["cross-origin-opener-policy"] == "same-origin"
    assert b"<style" not in response.body
    assert b"style=" not in response.body


def test_data_may_load_and_run_nothing(server: ServerProcess) -> None:
    for path in ("/jobs", "/health", f"/{assets().folder}/app.js", "/nowhere"):
        assert browse(server, path).headers["content-security-policy"].encode() == DATA_POLICY


# Assets


@pytest.mark.parametrize("path", FILES)
def test_an_asset_is_cached_forever(server: ServerProcess, path: str) -> None:
    plain, packed = browse(server, path), browse(server, path, **{"Accept-Encoding": "br, gzip, deflate"})
    for response in (plain, packed):
        assert response.status == 200
        for name, value in security_headers(cache=b"public, max-age=31536000, immutable"):
            assert response.headers[name.decode()].encode() == value
        assert response.headers["vary"] == "accept-encoding"
        assert response.headers["content-type"].encode() == TYPES[path.rpartition(".")[2]]
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body


def test_gzip_is_sent_only_to_clients_that_accept_it(server: ServerProcess) -> None:
    path = next(iter(FILES))
    for refused in ("identity", "gzip;q=0", "br, gzip; q=0.0", "xgzip"):
        assert "content-encoding" not in browse(server, path, **{"Accept-Encoding": refused}).headers
    assert browse(server, path, **{"Accept-Encoding": "GZIP;q=0.5"}).headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("path", ["/", next(iter(FILES))])
def test_head_returns_the_headers_of_get(server: ServerProcess, path: str) -> None:
    head, whole = browse(server, path, "HEAD"), browse(server, path)
    different = {"x-request-id", "date"}
    assert (head.status, head.body) == (200, b"")
    assert {name: value for name, value in head.headers.items() if name not in different} == {
        name: value for name, value in whole.headers.items() if name not in different
    }


def test_unknown_assets_are_404(server: ServerProcess) -> None:
    earlier = f"/ui/{'0' * 16}/app.js"
    folder = assets().folder
    for path in (earlier, f"/{folder}", f"/{folder}/", f"/{folder}/index.html", f"/{folder}/../app.py", "/ui", "/ui/"):
        response = browse(server, path)
        assert (response.status, response.json["code"]) == (404, "no_such_route")
        assert response.headers["cache-control"] == "no-store"
    file = next(iter(FILES))
    assert browse(server, file, "POST").status == 405
    assert browse(server, file.replace("/", "*", 1)).status == browse(server, "*").status == 404


def test_the_whole_page_is_small(server: ServerProcess) -> None:
    paths = ["/", *FILES]
    assert sum(len(browse(server, path, **{"Accept-Encoding": "gzip"}).body) for path in paths) < 60_000


def test_the_asset_folder_changes_with_any_file() -> None:
    one = Assets({"index.html": b"{assets}", "app.js": b"1", "views/now.js": b"2"})
    assert sorted(one.by_path) == [f"/{one.folder}/app.js", f"/{one.folder}/views/now.js"]
    assert one.shell.decode() == one.folder
    others = [
        {"index.html": b"{assets}", "app.js": b"1", "views/now.js": b"3"},
        {"index.html": b"{assets} ", "app.js": b"1", "views/now.js": b"2"},
        {"index.html": b"{assets}", "app.js": b"1", "views/then.js": b"2"},
    ]
    assert len({one.folder, *(Assets(other).folder for other in others)}) == 4


def test_all_assets_are_in_the_wheel(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    page = "octostore/server/page/"
    inside = {name.removeprefix(page) for name in zipfile.ZipFile(wheel).namelist() if name.startswith(page)}
    assert inside == {path.removeprefix(f"/{assets().folder}/") for path in FILES} | {"index.html"}
