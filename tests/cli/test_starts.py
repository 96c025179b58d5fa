"""Every command in a fresh process: in other tests, most are forked from one that has imported everything."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

import octostore
from octostore.cli.subcommands import SUBCOMMANDS
from tests.support.cli import run_cli
from tests.support.server import ServerProcess
from tests.support.starting import SCRIPT

LINES = {
    "run": "run new -- true",
    "claim": "claim new-1",
    "heartbeat": "heartbeat held --lease-id LEASE",
    "release": "release to-release --lease-id LEASE",
    "mine": "mine",
    "hand-over": "hand-over session --to bob",
    "progress": "run noted -- octostore progress note",
    "checkpoint": "run saved -- octostore checkpoint {}",
    "batch": "batch",
    "enqueue": "enqueue build --job-id new-2",
    "next": "next q",
    "work": "work q-2 --until-empty -- true",
    "queues": "queues",
    "queue": "queue set q-3 --pause",
    "dead": "dead",
    "requeue": "requeue dead-1",
    "discard": "discard dead-2",
    "cancel": "cancel queued",
    "stop": "stop held",
    "owner": "owner held",
    "list": "list",
    "events": "events --job held",
    "sessions": "sessions session",
    "health": "health",
    "recover": "recover",
    "force-release": "force-release taken-away",
    "mcp": "mcp",
    "token": "token list",
    "prime": "prime",
    "setup": "setup --print",
    "hook": "hook stop",
    "doctor": "doctor",
    "completion": "completion bash",
    "ui": "ui --print",
}
BATCH = '{"command": "claim_job", "job_id": "new-3"}\n'
BY_HTTP = ("run", "claim", "batch", "work", "list", "token", "ui")
"""Together, they use all that commands need for a server."""
ELSEWHERE = {"demo", "serve", "backup", "restore"}
"""Tested in `test_demo.py` and `test_backup.py`; `serve` is started below."""


def test_every_command_is_covered() -> None:
    assert LINES.keys() | ELSEWHERE == {command.name for command in SUBCOMMANDS}


def prepare(store: octostore.OctoStore) -> dict[str, str]:
    """Fill the store, and return the lease ids of its claimed jobs."""
    leases = {name: store.claim_job(name).lease_id or "" for name in ("held", "to-release", "taken-away")}
    for name in ("dead-1", "dead-2", "queued"):
        store.enqueue("build", job_id=name, queue="other")
    for name in ("dead-1", "dead-2"):
        store.cancel(name)
    for queue in ("q", "q-2"):
        store.enqueue("build", queue=queue)
    store.open_session("ann", session_id="session")
    return leases


@pytest.mark.parametrize("kind", ["file", "server"])
def test_every_command_runs_in_a_fresh_process(kind: str, tmp_path: Path) -> None:
    path = f"{Path(SCRIPT[0]).parent}:{os.environ['PATH']}"
    if kind == "file":
        check(LINES.keys() - {"ui"}, {"PATH": path, "OCTOSTORE_URL": f"sqlite:///{tmp_path}/octostore.db"}, None)
    else:
        with ServerProcess(tmp_path, program=SCRIPT) as server:
            env = {"PATH": path, "OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.token}
            check(BY_HTTP, env, server.token)


def check(commands: Iterable[str], env: dict[str, str], token: str | None) -> None:
    with octostore.connect(env["OCTOSTORE_URL"], token=token) as store:
        leases = prepare(store)
    for name in commands:
        words = LINES[name].split()
        words = [leases[words[1]] if word == "LEASE" else word for word in words]
        done = run_cli(*words, stdin=BATCH if name == "batch" else "", program=SCRIPT, **env)
        assert (name, done.code) == (name, 0), done
        assert "Traceback" not in done.err
