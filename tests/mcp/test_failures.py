"""Lost, unreachable and not allowed are different results; so is a configuration that cannot work."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.async_as_sync import Loop
from tests.support.cli import run_cli
from tests.support.mcp import Agent, Mode
from tests.support.postgres import new_schema
from tests.support.processes import PATIENCE_SECONDS, free_port, until
from tests.support.server import ServerProcess

WITHOUT_SDK = """
import sys
sys.modules.update(dict.fromkeys(["mcp", "mcp_types", "pydantic", "anyio", "aiohttp"]))
from octostore.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server", port=free_port()) as process:
        yield process


def env_for(server: ServerProcess, token: str) -> dict[str, str]:
    return {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": token}


def test_an_agent_that_may_only_read_is_not_allowed_to_claim(server: ServerProcess, loop: Loop, tmp_path: Path) -> None:
    token = server.new_token("reader", "read")
    with Agent(loop, tmp_path, "reader", env=env_for(server, token), mode="legacy") as reader:
        assert reader.call("get_job_owner", job_id="job").document["status"] == "free"
        for refused in (reader.call("claim_job", job_id="job"), reader.call("claim_next_job")):
            assert (refused.is_error, refused.status) == (True, "not_allowed")
            assert "Trying again will not help" in refused.next
        assert token not in "".join(reader.said) + reader.stderr
    assert server.events("job") == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_without_a_token_the_tools_say_how_to_set_one(
    server: ServerProcess, loop: Loop, tmp_path: Path, mode: Mode
) -> None:
    home = tmp_path / "home"
    env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_HOME": str(home)}
    with Agent(loop, tmp_path, "ann", env=env, mode=mode) as ann:
        for asked in (ann.call("claim_job", job_id="job"), ann.call("my_claims")):
            assert (asked.is_error, asked.status, "field" in asked.document) == (True, "not_set_up", False)
            assert "set OCTOSTORE_TOKEN or OCTOSTORE_TOKEN_FILE" in asked.document["error"]
            assert "Tell your user what `error` says" in asked.next
            assert "OCTOSTORE_TOKEN_FILE belong in this MCP server's `env`" in asked.next
    assert "token is required" in ann.stderr
    assert server.events("job") == []


def test_a_token_file_that_is_written_later(server: ServerProcess, loop: Loop, tmp_path: Path) -> None:
    path = tmp_path / "token"
    env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN_FILE": str(path)}
    with Agent(loop, tmp_path, "ann", env=env) as ann:
        asked = ann.call("claim_job", job_id="job")
        assert (asked.status, str(path) in asked.document["error"]) == ("not_set_up", True)
        path.touch(0o600)
        path.write_text(server.token)
        assert ann.call("claim_job", job_id="job").status == "claimed"


def test_a_server_that_is_gone_is_unreachable_and_the_lease_is_lost(
    server: ServerProcess, loop: Loop, tmp_path: Path
) -> None:
    with Agent(loop, tmp_path, "ann", env=env_for(server, server.token)) as ann:
        assert ann.call("claim_job", job_id="job", ttl=2).status == "claimed"
        server.kill()
        asking = ann.start("get_job", job_id="job")
        until(lambda: "the lease on job is lost" in ann.stderr)
        late = ann.start("report_progress", job_id="job", note="on")
        (mine,) = ann.call("my_claims").document["claims"]
        assert (mine["status"], mine.get("holder")) == ("lost", None)
        assert late.result(PATIENCE_SECONDS).status == "lease_lost"
        asked = asking.result(PATIENCE_SECONDS)
        assert (asked.is_error, asked.status) == (True, "unreachable")
        assert "Nothing is known about the job" in asked.next
    assert server.token not in "".join(ann.said) + ann.stderr


def test_an_agent_can_leave_while_the_server_does_not_respond(
    server: ServerProcess, loop: Loop, tmp_path: Path
) -> None:
    with Agent(loop, tmp_path, "ann", env=env_for(server, server.token)) as ann:
        ann.call("claim_job", job_id="job")
        server.process.send_signal(signal.SIGSTOP)
        ann.leave()
        ann.until_gone()
    server.process.send_signal(signal.SIGCONT)


def test_a_store_that_can_be_reached_later(loop: Loop, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.write_text("this is not a database, and longer than the header of one: " + "x" * 4_096)
    with Agent(loop, tmp_path, "ann", "--url", f"sqlite:///{path}", env={}) as ann:
        asked = ann.call("claim_job", job_id="job")
        assert (asked.is_error, asked.status, asked.document["reason"]) == (True, "unreachable", "not_a_database")
        path.unlink()
        assert ann.call("claim_job", job_id="job").status == "claimed"
    assert "tools say so until they reach the store" in ann.stderr


def test_a_store_in_which_nothing_ever_happened(loop: Loop, tmp_path: Path) -> None:
    with Agent(loop, tmp_path, "ann", env={"OCTOSTORE_HOME": str(tmp_path / "new")}) as ann:
        asked = ann.call("get_job", job_id="job")
        assert (asked.is_error, asked.status, asked.document["reason"]) == (True, "unreachable", "no_store")
        assert asked.next == "Nothing was ever claimed or enqueued here. claim_job and enqueue_job create the store."
        assert ann.call("claim_job", job_id="job").status == "claimed"
        assert ann.call("get_job", job_id="job").document["status"] == "claimed"


def test_postgresql_behaves_the_same(loop: Loop, tmp_path: Path) -> None:
    with Agent(loop, tmp_path, "ann", env={"OCTOSTORE_URL": new_schema()}) as ann:
        assert ann.call("claim_job", job_id="job").status == "claimed"
        assert ann.call("claim_job", job_id="job").document["held_here"] is True
        assert ann.call("release_job", job_id="job", outcome="done").document["status"] == "done"


def test_an_invalid_url_is_reported_at_once() -> None:
    done = run_cli("mcp", "--url", "ftp://example.org")
    assert (done.code, done.out) == (64, "")
    assert "octostore: no tool works until this is corrected: url" in done.err


def test_an_invalid_url_is_reported_to_the_agent(loop: Loop, tmp_path: Path) -> None:
    with Agent(loop, tmp_path, "ann", "--url", "ftp://example.org", env={}) as ann:
        asked = ann.call("claim_job", job_id="job")
        assert (asked.is_error, asked.status, asked.document["error"][:3]) == (True, "not_set_up", "url")


def test_it_needs_neither_the_sdk_nor_its_dependencies(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_SDK, "mcp", "--url", f"sqlite:///{tmp_path}/jobs.db"]
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    done = subprocess.run(command, input=ping, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'{"jsonrpc":"2.0","id":1,"result":{}}\n', b"")
