"""`octostore ui` opens the live page, logged in, and others see no secret on the way."""

import os
import re
import signal
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from octostore.wire.tokens import new_token
from tests.support.cli import Done, LiveCli, run_cli
from tests.support.connections import Response
from tests.support.processes import until
from tests.support.server import ServerProcess

BROWSER = """#!/bin/sh
path=${1#file://}
printf '%s' "$*" > {seen}/arguments
tr '\\0' '\\n' < /proc/$$/environ > {seen}/environment
stat -c %a "$path" > {seen}/mode
{read} > {seen}/page
"""


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    folder = tmp_path / "seen"
    folder.mkdir()
    return folder


def browser(seen: Path, read: str = 'cat "$path"') -> str:
    """A browser that records what it is started with, and what it opens."""
    path = seen / "browser"
    path.write_text(BROWSER.replace("{seen}", str(seen)).replace("{read}", read))
    path.chmod(0o700)
    return str(path)


def ui(server: ServerProcess, *arguments: str, **env: str) -> Done:
    """Run `octostore ui` with the store of this server, and not with its URL."""
    headless = {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    return run_cli("ui", *arguments, OCTOSTORE_HOME=str(server.home), **(headless | env))


def log_in(server: ServerProcess, link: str) -> Response:
    code = link.partition("#login=")[2]
    return server.post("/ui/login", {"code": code}, token="", headers={"Origin": server.url})


def left_in(server: ServerProcess) -> list[Path]:
    return list(server.home.glob("login-*"))


@pytest.mark.parametrize("names_server", [True, False])
def test_a_link_logs_in(server: ServerProcess, names_server: bool) -> None:
    done = ui(server, "--print", *(["--url", server.url] if names_server else []))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{server.url}/#login=")
    assert log_in(server, done.out.strip()).status == 204
    assert log_in(server, done.out.strip()).status == 401


def test_the_link_as_json(server: ServerProcess) -> None:
    document = ui(server, "--print", "--json").json
    assert set(document) == {"page", "link", "expires_at"}
    assert document["page"] == f"{server.url}/"
    assert log_in(server, document["link"]).status == 204


def test_a_browser_opens_the_page_and_nobody_else_sees_the_link(server: ServerProcess, seen: Path) -> None:
    done = ui(server, BROWSER=browser(seen))
    assert (done.code, done.out, done.err) == (0, f"opening {server.url}/ in your browser, logged in\n", "")
    page, arguments = (seen / "page").read_text(), (seen / "arguments").read_text()
    found = re.search(rf'url=({server.url}/#login=([\w-]+))"', page)
    assert found is not None
    for place in (arguments, (seen / "environment").read_text()):
        assert found[2] not in place
        assert server.token not in place
    opened = Path(unquote(urlsplit(arguments).path))
    assert opened.parent == server.home
    assert (seen / "mode").read_text() == "600\n"
    assert not opened.exists()
    assert log_in(server, found[1]).status == 204


def test_the_file_is_gone_however_it_ends(server: ServerProcess, seen: Path) -> None:
    environment = {"OCTOSTORE_HOME": str(server.home), "BROWSER": browser(seen, "true")}
    with LiveCli("ui", **environment) as waiting:
        waiting.line()
        (file,) = left_in(server)
        waiting.process.send_signal(signal.SIGINT)
        assert waiting.finish().code == 130
    assert left_in(server) == []

    with LiveCli("ui", **environment) as waiting:
        waiting.line()
        (file,) = left_in(server)
        waiting.process.kill()
        waiting.finish()
    os.utime(file, (0, 0))
    assert ui(server, BROWSER=browser(seen)).code == 0
    until(lambda: left_in(server) == [])


def test_without_a_browser_it_says_so_and_prints_the_link(server: ServerProcess, seen: Path) -> None:
    for broken in ("", browser(seen, "exit 1;")):
        done = ui(server, BROWSER=broken)
        assert done.code == 0
        assert "no browser could be started here" in done.err
        assert log_in(server, done.out.strip()).status == 204
    assert left_in(server) == []


def test_without_a_server_it_says_what_to_type(clean: Path) -> None:
    for has_store in (False, True):
        if has_store:
            assert run_cli("claim", "J", "--owner", "ann").code == 0
        done = run_cli("ui", "--print")
        assert done.code == 69
        assert "none of your servers on this machine serves this store" in done.err
        assert "octostore serve" in done.err
        assert (clean / "octostore" / "octostore.db").exists() == has_store


def test_a_server_of_another_store_is_not_taken_for_ours(server: ServerProcess, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    assert run_cli("claim", "J", "--owner", "ann", "--url", other).code == 0
    assert ui(server, "--print", "--url", other).code == 69


def test_a_server_that_is_gone_is_unreachable(server: ServerProcess, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "gone") as gone:
        home, url, token = gone.home, gone.url, gone.token
    assert run_cli("ui", "--print", OCTOSTORE_HOME=str(home)).code == 69
    done = run_cli("ui", "--print", "--url", url, OCTOSTORE_TOKEN=token)
    assert (done.code, "cannot communicate" in done.err) == (69, True)
    assert ui(server, "--print", "--url", server.url, OCTOSTORE_TOKEN=new_token()).code == 77


def test_of_several_servers_it_says_which_one_it_uses(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as first, ServerProcess(tmp_path) as second:
        done = ui(first, "--print")
        assert done.out.startswith(f"{second.url}/#login=")
        assert done.err == (
            f"octostore: several of your servers serve this store; using {second.url}; for another, add --url "
            f"{first.url}\n"
        )
        assert ui(first, "--print", "--url", first.url).err == ""


def test_a_server_without_a_page_gets_its_own_message(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--no-ui") as server:
        done = ui(server, "--print", "--url", server.url)
    assert done.code == 64
    assert "a server without a live page" in done.err


def test_under_a_sub_path_the_link_leads_there(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--base-path", "/octo") as server:
        for url in ([], ["--url", server.url], ["--url", f"{server.url}/octo"]):
            assert ui(server, "--print", *url).out.startswith(f"{server.url}/octo/#login=")
