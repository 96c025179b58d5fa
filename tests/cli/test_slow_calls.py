"""A person at a terminal who waits for a store that does not reply sees why after a second; scripts see nothing."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

import octostore
from tests.support.cli import TerminalCli
from tests.support.processes import free_port
from tests.support.proxy import Proxy, say_nothing
from tests.support.server import ServerProcess

WELL_FORMED = "octo_qfdCLouvFP62SCXXPRbo5wFtWq0mcoq8bLxyJEuD8fk3K5jYq"


@contextmanager
def at_terminal(url: str, *line: str) -> Iterator[TerminalCli]:
    with TerminalCli(*line, OCTOSTORE_URL=url, OCTOSTORE_TOKEN=WELL_FORMED) as cli:
        yield cli


@pytest.mark.parametrize("line", [["owner", "job"], ["claim", "job", "--wait", "60"]])
def test_a_server_that_is_not_running(line: list[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with at_terminal(url, *line) as waiting:
        said = waiting.until(f"octostore: cannot reach {url}, trying until ")
        assert "cannot communicate" not in said.partition("cannot reach")[0], "it was still trying"


def test_a_server_that_says_nothing() -> None:
    with Proxy().always(say_nothing) as proxy, at_terminal(proxy.url, "owner", "job") as waiting:
        waiting.until(f"octostore: no reply yet from {proxy.url}, trying until ")


def test_a_file_that_somebody_else_writes_to(tmp_path: Path) -> None:
    path = tmp_path / "octostore.db"
    with octostore.connect(f"sqlite:///{path}") as store:
        store.claim_job("job")
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with at_terminal(f"sqlite:///{path}", "release", "job", "--lease-id", "wrong") as waiting:
            waiting.until(f"octostore: no reply yet from sqlite:///{path}, trying until ")
            other.execute("ROLLBACK")
            waiting.until("is lost")


def test_a_claim_that_waits_for_its_job_is_not_a_slow_call(server: ServerProcess) -> None:
    server.post("/jobs/awaited/claim", {"owner": "ann"})
    with TerminalCli(
        "claim", "awaited", "--wait", "2", OCTOSTORE_URL=server.url, OCTOSTORE_TOKEN=server.token
    ) as waiting:
        said = waiting.rest()
    assert "ann has it" in said
    assert "trying until" not in said
