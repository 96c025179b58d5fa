"""The how-to for the live page is followed: its commands run, with its proxies in front of a real server."""

import http.client
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from octostore.server.assets import assets
from tests.support.connections import Response, Stream
from tests.support.documents import Machine, blocks_of, follow, replaced
from tests.support.processes import PATIENCE_SECONDS, ROOT, free_port
from tests.support.proxies import run_caddy, run_nginx
from tests.support.server import ServerProcess

PAGE = ROOT / "docs" / "how-to" / "page.md"
Proxy = Callable[[Path, str, int], AbstractContextManager[None]]
"""Runs a proxy in a folder, in front of the server at a URL, on a port."""


def options_of(start_of_line: str) -> list[str]:
    """Return the options of the server command that begins like this."""
    lines = [line for block in blocks_of(PAGE, "console") for line in block.text.splitlines()]
    (line,) = [line for line in lines if line.startswith(start_of_line)]
    return shlex.split(line)[2:]


def test_the_commands_on_the_page_work(tmp_path: Path) -> None:
    with Machine(tmp_path / "machine") as machine, ServerProcess(machine.folder / ".local/share/octostore") as server:
        machine.env["SERVER"] = server.url
        follow(blocks_of(PAGE), machine)
        assert (machine.folder / "wall.token").stat().st_mode & 0o077 == 0


def test_the_page_can_be_turned_off(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *options_of("octostore serve --no-ui")) as server:
        assert [server.get(path).status for path in ("/", "/jobs")] == [404, 200]


# Behind a proxy


@contextmanager
def nginx(folder: Path, upstream: str, port: int) -> Iterator[None]:
    (lines,) = blocks_of(PAGE, "nginx")
    here = replaced(lines.text, {"http://127.0.0.1:3000": upstream})
    with run_nginx(folder, f"server {{ listen 127.0.0.1:{port}; {here} }}", port):
        yield


@contextmanager
def caddy(folder: Path, upstream: str, port: int) -> Iterator[None]:
    (lines,) = blocks_of(PAGE, "caddyfile")
    here = {"127.0.0.1:3000": upstream.removeprefix("http://"), "example.org {": f"http://127.0.0.1:{port} {{"}
    with run_caddy(folder, replaced(lines.text, here), port):
        yield


def get(port: int, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Response:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return Response.read_from(connection.getresponse())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    options = options_of("octostore serve --base-path")
    with ServerProcess(tmp_path_factory.mktemp("home"), *options) as process:
        yield process


@pytest.mark.parametrize("proxy", [nginx, caddy], ids=["nginx", "caddy"])
def test_a_proxy_serves_the_page_under_a_path(server: ServerProcess, proxy: Proxy, tmp_path: Path) -> None:
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    with proxy(tmp_path, server.url, port):
        moved = get(port, "/octo", Accept="text/html")
        assert moved.status in {301, 302, 308}
        assert moved.headers["location"].removeprefix(origin) == "/octo/"
        assert get(port, "/octo/", Accept="text/html").body == assets().shell
        assert get(port, f"/octo/{assets().folder}/app.js").status == 200

        token = f'{{"token": "{server.token}"}}'
        response = get(port, "/octo/ui/login", "POST", token, Origin=origin)
        assert response.status == 204
        cookie, _, terms = response.headers["set-cookie"].partition(";")
        assert "Path=/octo/ui/;" in terms
        name = f"deploy%2F{port}"
        stream = Stream(port, "/octo/ui/api/events", {"Accept": "text/event-stream", "Cookie": cookie})
        with stream as events:
            own = {"Origin": origin, "Cookie": cookie}
            claimed = get(port, f"/octo/ui/api/jobs/{name}/claim", "POST", '{"owner": "ann"}', **own)
            assert claimed.json["status"] == "claimed", "a name with a slash is one name"
            assert any(event.event == "claimed" and event.data["job_id"] == claimed.json["job_id"] for event in events)
        seen = server.get(f"/jobs/{name}").json
        assert (seen["job_id"], seen["owner"]) == (name.replace("%2F", "/"), "ann")
        assert get(port, "/octo/ui/api/recover", "POST", Origin="https://evil.example", Cookie=cookie).status == 403
