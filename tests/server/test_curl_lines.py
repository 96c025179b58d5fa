"""Every documented curl line, ours and others', works with the real curl in a real shell."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
import pytest

from octostore.server.examples import SHELL_NAMES, curl_line
from octostore.server.openapi import EVENTS
from octostore.server.router import Route
from octostore.server.routes import ROUTES
from octostore.stores.store import open_store
from tests.support.api import DOCUMENT
from tests.support.processes import PATIENCE_SECONDS, ROOT
from tests.support.seed_lines import CLAIM_LOOP, ONE_OWNER
from tests.support.served import ServedStore
from tests.support.server import ServerProcess

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")

TIMED_OUT = 28
"""The exit code of curl when `--max-time` ends a stream."""
HANDLERS = {route.operation: route for route in ROUTES}


class Ran(NamedTuple):
    exit_code: int
    output: str
    errors: str


def run(script: str, env: dict[str, str] | None = None) -> Ran:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OCTOSTORE_")}
    done = subprocess.run(
        ["bash", "-c", script],
        env={**clean, "no_proxy": "*", **(env or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


# On the API page


@pytest.fixture
def shell(tmp_path: Path) -> Iterator["Shell"]:
    """A shell with a fresh server, in a thread, because starting a process for each example is slow."""
    server = ServedStore(open_store(f"sqlite:///{tmp_path}/octostore.db"), tmp_path)
    yield Shell(server.place.origin, server.token)
    server.stop()


class Shell:
    """Has variables for the server, a token, and values from earlier responses."""

    def __init__(self, url: str, token: str) -> None:
        self.env = {"OCTOSTORE_URL": url, "OCTOSTORE_TOKEN": token}

    def call(self, line: str) -> tuple[int, str, str]:
        """The status, content type and body of the response."""
        ran = run(f"curl() {{ command curl -w '\\n%{{http_code}} %{{content_type}}' \"$@\"; }}\n{line}", self.env)
        assert (ran.exit_code, ran.errors) == (0, "")
        content, _, trailer = ran.output.rpartition("\n")
        status, _, kind = trailer.partition(" ")
        return int(status), kind.partition(";")[0], content

    def call_first(self, route: Route) -> None:
        for name in route.example.get("first", []):
            status, _, content = self.call(curl_line(HANDLERS[name]))
            assert status in HANDLERS[name].responses
            response = json.loads(content)
            self.env |= {name: str(response[field]) for name, field in SHELL_NAMES.items() if field in response}

    def listen(self, line: str) -> list[dict[str, str]]:
        """The events that arrive within a second."""
        ran = run(f'curl() {{ command curl --max-time 1 "$@"; }}\n{line}', self.env)
        assert ran.exit_code == TIMED_OUT, ran
        frames = [frame.splitlines() for frame in ran.output.split("\n\n") if frame]
        return [dict(line.partition(": ")[::2] for line in frame) for frame in frames]


def documented_content(route: Route, status: int) -> dict[str, Any]:
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    content: dict[str, Any] = operation["responses"][str(status)].get("content", {})
    return content


def check_schema(schema: dict[str, Any], value: Any) -> None:
    schema = {**schema, "components": DOCUMENT["components"]}
    jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(value)


@pytest.mark.parametrize("route", [route for route in ROUTES if route.responses], ids=lambda route: route.name)
def test_an_example_of_the_api_page_works(route: Route, shell: Shell) -> None:
    shell.call_first(route)
    status, kind, content = shell.call(curl_line(route))
    assert status == min(route.responses, key=lambda status: status != 201)  # the store was empty
    contents = documented_content(route, status)
    if not contents:
        assert (kind, content) == ("", "")
    elif kind != "application/json":
        assert kind in contents
        assert content
    else:
        response = json.loads(content)
        check_schema(contents[kind]["schema"], response)
        examples = contents[kind].get("examples", {"": {"value": contents[kind].get("example", {})}})
        check_likeness(route.name, next(iter(examples.values()))["value"], response)


@pytest.mark.parametrize("route", [route for route in ROUTES if route.stream], ids=lambda route: route.name)
def test_an_example_of_a_stream_works(route: Route, shell: Shell) -> None:
    shell.call_first(route)
    retry, first, *_ = shell.listen(curl_line(route, accept=EVENTS if route.responses else None))
    assert int(retry["retry"]) > 0
    documented = documented_content(route, 200)[EVENTS]
    data = json.loads(first.pop("data"))
    check_schema(documented["x-event-data"], data)
    example = dict(line.partition(": ")[::2] for line in documented["example"].splitlines() if line)
    check_likeness(route.name, json.loads(example.pop("data")), data)
    assert set(first) == set(example)


VARIES = re.compile(
    r".*(_at|_ms|_seq|_id)|at|since|seq|after|fencing_token|token|active_locks|total_\w+|\w*_sessions|uptime_\w+|resource\w*|code"
    r"|rates\w*"
)
"""Times, numbers and ids, which differ in every response."""


def check_likeness(where: str, example: Any, response: Any) -> None:
    """`response` equals the example, except for values that differ each time."""
    if isinstance(example, dict):
        assert isinstance(response, dict), where
        if example:
            assert list(response) == list(example), where
        for name, value in example.items():
            if value is not None and VARIES.fullmatch(name) and name not in {"job_id", "session_id"}:
                assert isinstance(response[name], type(value)), f"{where}: {name}"
            else:
                check_likeness(f"{where}: {name}", value, response[name])
    elif isinstance(example, list):
        assert len(response) >= len(example), where
        for one, other in zip(example, response, strict=False):
            check_likeness(where, one, other)
    else:
        assert response == example, where


# In the documents of the lock service that we are compatible with


def with_our_server(line: str, server: ServerProcess, token: str) -> str:
    line = line.replace("https://api.octostore.io", server.url)
    return line.replace("YOUR_TOKEN", token).replace("***", token)


@pytest.mark.parametrize(
    ("line", "name", "seconds", "metadata"),
    [
        pytest.param(ONE_OWNER, "deploy-main", 60, "host=runner-7 build=1842", id="one owner"),
        pytest.param(
            CLAIM_LOOP + 'echo "$claim"',
            "github-issue-1842",
            120,
            "runner=agent-3 task=https://github.com/acme/app/issues/1842",
            id="claim loop",
        ),
    ],
)
def test_a_line_of_the_seed_documents_works_as_they_say(
    line: str, name: str, seconds: int, metadata: str, own_server: ServerProcess
) -> None:
    agents = [own_server.new_token(f"agent-{number}") for number in range(3)]
    ran = [run(with_our_server(line, own_server, agent)) for agent in agents]
    assert [one.exit_code for one in ran] == [0, 0, 0]
    acquired, *others = [json.loads(one.output) for one in ran]

    assert acquired["status"] == "acquired"
    assert acquired["lease_id"]
    assert acquired["expires_at"].endswith("Z")
    assert seconds * 450 < acquired["renew_after_ms"] <= seconds * 500  # half of what remains
    for held in others:
        assert held["status"] == "held"
        assert held["metadata"] == metadata
        assert held["expires_at"] == acquired["expires_at"]
        assert "lease_id" not in held
    inspected = own_server.get(f"/locks/{name}", token=agents[1]).json
    assert (inspected["status"], inspected["metadata"]) == ("held", metadata)
    assert inspected["holder_id"] == others[0]["holder_id"]


# In our own documents

BLOCK = re.compile(r"^```(?:sh|bash|console|shell)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVES = re.compile(r"^(?:make serve|octostore serve|python -m octostore\.server)\b.*$", re.MULTILINE)
TESTED_ELSEWHERE = {
    ROOT / "docs/how-to/agents.md",  # needs `octostore` as well: tests/docs/test_agents_page.py
    ROOT / "docs/how-to/tls-and-proxies.md",  # the same: tests/docs/test_tls_page.py
    ROOT / "docs/reference/http.md",  # generated from the examples that the tests above run
}
WRITTEN = [ROOT / "README.md", *sorted(set(ROOT.glob("docs/**/*.md")) - TESTED_ELSEWHERE)]


def blocks_of(path: Path) -> list[str]:
    """The blocks that contain a curl line, as a shell reads them."""
    found = []
    for block in BLOCK.findall(path.read_text(encoding="utf-8")):
        lines = block.splitlines()
        if any(line.startswith("$ ") for line in lines):  # the other lines are output
            lines = [line.removeprefix("$ ") for line in lines if line.startswith(("$ ", "> "))]
        script = SERVES.sub("", "\n".join(lines))
        if re.search(r"\bcurl\b", script):
            found.append(script)
    return found


@pytest.mark.parametrize(
    "path", [path for path in WRITTEN if blocks_of(path)], ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_curl_lines_of_a_document_work(path: Path, tmp_path: Path) -> None:
    """From top to bottom, on an empty store, with the default data folder."""
    home = tmp_path / ".local" / "share" / "octostore"
    home.mkdir(parents=True)
    with ServerProcess(home) as server:
        # Any other response than success ends the script.
        script = ['set -euo pipefail; curl() { command curl --fail-with-body "$@"; }', *blocks_of(path)]
        ran = run("\n".join(script).replace("127.0.0.1:3000", f"127.0.0.1:{server.port}"), {"HOME": str(tmp_path)})
    assert ran.exit_code == 0, ran
    assert ran.output


def test_the_curl_line_in_the_servers_greeting_works(own_server: ServerProcess) -> None:
    line = own_server.greeting[-1].removeprefix("try: ")
    assert line.startswith("curl ")
    ran = run(line)
    assert json.loads(ran.output)["status"] == "claimed"
