"""TAB, in a real shell, with the script that `octostore completion` prints."""

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import octostore
from octostore.cli import completers
from octostore.cli.store_address import StoreAddress
from tests.cli.conftest import Cli
from tests.support.cli import run_cli
from tests.support.processes import PATIENCE_SECONDS

# What bash itself does when TAB is pressed: the words of the line, and the function that was registered for the first.
COMPLETE_BASH = """
source "$OCTOSTORE_HOME/completion.bash"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
read -ra COMP_WORDS <<<"$COMP_LINE"
[[ $COMP_LINE == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
function=$(complete -p octostore | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function octostore "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
FROM_BASH = {"IFS": "\v", "_ARGCOMPLETE_SHELL": "bash", "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
SHELLS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}


@pytest.fixture
def path(tmp_path: Path, clean: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`octostore` is there, and its script for bash."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "octostore"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m octostore "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    (clean / "octostore").mkdir(mode=0o700, exist_ok=True)
    (clean / "octostore" / "completion.bash").write_text(run_cli("completion", "bash").out)
    return folder


def offered(line: str) -> list[str]:
    """What bash would offer behind `line`; a space behind a word says that it is whole."""
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE_BASH, "bash", line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return [word.rstrip(" ") for word in done.stdout.splitlines() if word]


def told(line: str) -> list[str]:
    """What bash's script would be told: the same process without a shell around it, which can be forked."""
    with tempfile.NamedTemporaryFile() as answer:
        asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
        run_cli(**FROM_BASH, **asked, _ARGCOMPLETE_STDOUT_FILENAME=answer.name)
        return [word.rstrip(" ") for word in answer.read().decode().split(FROM_BASH["IFS"]) if word]


@pytest.mark.usefixtures("path")
def test_commands_and_options() -> None:
    assert offered("octostore ow") == told("octostore ow") == ["owner"]
    assert set(told("octostore re")) == {"release", "recover", "requeue", "restore"}
    assert set(told("octostore list --")) >= {"--status", "--queue", "--limit", "--watch", "--json", "--url"}
    assert told("octostore list --wa") == ["--watch"]
    assert set(told("octostore list --status d")) == {"done", "dead"}
    assert set(told("octostore token ")) >= {"create", "list", "revoke"}
    assert set(offered("octostore token create ci --scope ")) == {"read", "claim", "admin"}
    assert told("octostore completion f") == ["fish"]


@pytest.mark.usefixtures("path")
def test_names_of_jobs(cli: Cli) -> None:
    prefix = cli.new_name("tab")
    cli.lease(f"{prefix}-a/b")
    cli.store.enqueue("build", job_id=f"{prefix}-c")
    assert set(offered(f"octostore owner {prefix}")) == {f"{prefix}-a/b", f"{prefix}-c"}
    assert told(f"octostore requeue x {prefix}-c") == [f"{prefix}-c"]
    assert told(f"octostore events --job {prefix}-a") == [f"{prefix}-a/b"]


@pytest.mark.usefixtures("path")
def test_names_with_signs(cli: Cli) -> None:
    """What a shell would take for something else is offered so that it does not."""
    prefix = cli.new_name("tab")
    cli.lease(f"{prefix}#12")
    cli.lease(f"{prefix}@host+1")
    assert set(offered(f"octostore owner {prefix}")) == {f"{prefix}#12", f"{prefix}@host+1"}
    assert offered(f"octostore owner {prefix}#") == [f"{prefix}#12"]
    assert told(f"octostore heartbeat {prefix}-nobodys") == []


def test_names_of_queues(cli: Cli) -> None:
    queue = cli.new_name("tab")
    cli.store.set_queue(queue, paused=True)
    for line in ("queue set", "next", "list --queue"):
        assert told(f"octostore {line} {queue[:-1]}") == [queue]


def test_names_of_sessions(cli: Cli) -> None:
    prefix = cli.new_name("tab")
    for name in "ab":
        cli.store.open_session("ann", session_id=f"{prefix}-{name}")
    cli.lease(f"{prefix}-c")
    assert set(told(f"octostore sessions {prefix}")) == {f"{prefix}-a", f"{prefix}-b"}
    assert told(f"octostore events --session {prefix}-a") == [f"{prefix}-a"]
    assert told(f"octostore hand-over {prefix}-b") == [f"{prefix}-b"]


def test_names_of_another_store(clean: Path) -> None:
    url = f"sqlite:///{clean}/other.db"
    run_cli("enqueue", "build", "--job-id", "elsewhere", "--url", url)
    assert told("octostore owner e") == []
    assert told(f"octostore --url {url} owner e") == ["elsewhere"]


@pytest.mark.usefixtures("path")
def test_a_store_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is offered, and nothing is said."""
    monkeypatch.setenv("OCTOSTORE_URL", "http://127.0.0.1:1")
    assert told("octostore owner e") == []
    monkeypatch.setenv("OCTOSTORE_TOKEN", "octo_qfdCLouvFP62SCXXPRbo5wFtWq0mcoq8bLxyJEuD8fk3K5jYq")
    assert offered("octostore owner e") == []


def test_nobody_waits_for_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    has_answered = threading.Event()

    def open_at_last(_place: StoreAddress) -> None:
        has_answered.wait()
        raise octostore.Unreachable("it was too late anyway", reason="network")

    monkeypatch.setattr(StoreAddress, "open", open_at_last)
    monkeypatch.setattr(completers, "PATIENCE_SECONDS", 0.01)
    assert completers.job_names("e", argparse.Namespace()) == []
    has_answered.set()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_scripts(shell: str, tmp_path: Path) -> None:
    done = run_cli("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert "octostore" in done.out
    assert run_cli("completion", shell, "--json").json == {"shell": shell, "script": done.out.removesuffix("\n")}
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(done.out)
        subprocess.run([*SHELLS[shell], str(script)], check=True)
