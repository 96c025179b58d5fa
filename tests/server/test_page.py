"""How the live page gets to a browser: its shell, what it loads, and what the browser may do with it."""

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


def look(server: ServerProcess, path: str = "/", method: str = "GET", **headers: str) -> Response:
    """As a browser does, which has no token."""
    return server.request(method, path, token="", headers={"Accept": BROWSER, **headers})


# The shell


def test_a_browser_gets_the_page(server: ServerProcess) -> None:
    answer = look(server)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["vary"] == "accept"
    assert answer.body == assets().shell


def test_its_addresses_are_relative_and_lead_somewhere(server: ServerProcess) -> None:
    shell = assets().shell.decode()
    assert "{assets}" not in shell
    assert 'href="/' not in shell
    assert 'src="/' not in shell
    for name in ("style.css", "app.js"):
        assert f'"{assets().folder}/{name}"' in shell
        assert look(server, f"/{assets().folder}/{name}").status == 200


def test_others_are_told_where_to_go_from_here(server: ServerProcess) -> None:
    for accept in ("*/*", "application/json"):
        answer = look(server, Accept=accept)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json["name"] == "OctoStore"
        assert [answer.json[name] for name in ("page", "docs", "openapi")] == ["/", "/docs", "/openapi.json"]


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_run_and_show_nothing_but_our_own(server: ServerProcess, path: str) -> None:
    answer = look(server, path)
    for name, value in security_headers(PAGE_POLICY):
        assert answer.headers[name.decode()].encode() == value
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert b"<style" not in answer.body
    assert b"style=" not in answer.body


def test_data_shows_and_runs_nothing_at_all(server: ServerProcess) -> None:
    for path in ("/jobs", "/health", f"/{assets().folder}/app.js", "/nowhere"):
        assert look(server, path).headers["content-security-policy"].encode() == DATA_POLICY


# What it loads


@pytest.mark.parametrize("path", FILES)
def test_an_asset_is_kept_for_ever(server: ServerProcess, path: str) -> None:
    plain, packed = look(server, path), look(server, path, **{"Accept-Encoding": "br, gzip, deflate"})
    for answer in (plain, packed):
        assert answer.status == 200
        for name, value in security_headers(cache=b"public, max-age=31536000, immutable"):
            assert answer.headers[name.decode()].encode() == value
        assert answer.headers["vary"] == "accept-encoding"
        assert answer.headers["content-type"].encode() == TYPES[path.rpartition(".")[2]]
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body


def test_nobody_gets_gzip_who_refuses_it(server: ServerProcess) -> None:
    path = next(iter(FILES))
    for refused in ("identity", "gzip;q=0", "br, gzip; q=0.0", "xgzip"):
        assert "content-encoding" not in look(server, path, **{"Accept-Encoding": refused}).headers
    assert look(server, path, **{"Accept-Encoding": "GZIP;q=0.5"}).headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("path", ["/", next(iter(FILES))])
def test_a_head_is_what_a_get_begins_with(server: ServerProcess, path: str) -> None:
    head, whole = look(server, path, "HEAD"), look(server, path)
    different = {"x-request-id", "date"}
    assert (head.status, head.body) == (200, b"")
    assert {name: value for name, value in head.headers.items() if name not in different} == {
        name: value for name, value in whole.headers.items() if name not in different
    }


def test_what_is_not_there_is_not_there(server: ServerProcess) -> None:
    earlier = f"/ui/{'0' * 16}/app.js"
    folder = assets().folder
    for path in (earlier, f"/{folder}", f"/{folder}/", f"/{folder}/index.html", f"/{folder}/../app.py", "/ui", "/ui/"):
        answer = look(server, path)
        assert (answer.status, answer.json["code"]) == (404, "no_such_route")
        assert answer.headers["cache-control"] == "no-store"
    file = next(iter(FILES))
    assert look(server, file, "POST").status == 405
    assert look(server, file.replace("/", "*", 1)).status == look(server, "*").status == 404


def test_all_of_it_is_small(server: ServerProcess) -> None:
    paths = ["/", *FILES]
    assert sum(len(look(server, path, **{"Accept-Encoding": "gzip"}).body) for path in paths) < 60_000


def test_its_address_changes_with_any_of_it() -> None:
    one = Assets({"index.html": b"{assets}", "app.js": b"1", "views/now.js": b"2"})
    assert sorted(one.by_path) == [f"/{one.folder}/app.js", f"/{one.folder}/views/now.js"]
    assert one.shell.decode() == one.folder
    others = [
        {"index.html": b"{assets}", "app.js": b"1", "views/now.js": b"3"},
        {"index.html": b"{assets} ", "app.js": b"1", "views/now.js": b"2"},
        {"index.html": b"{assets}", "app.js": b"1", "views/then.js": b"2"},
    ]
    assert len({one.folder, *(Assets(other).folder for other in others)}) == 4


def test_all_of_it_is_in_the_wheel(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    page = "octostore/server/page/"
    inside = {name.removeprefix(page) for name in zipfile.ZipFile(wheel).namelist() if name.startswith(page)}
    assert inside == {path.removeprefix(f"/{assets().folder}/") for path in FILES} | {"index.html"}
