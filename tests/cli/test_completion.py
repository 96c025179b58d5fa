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

# What bash does when TAB is pressed: it splits the line into words, and calls the function registered for the first.
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
    """Install `octostore` on the PATH, and its script for bash."""
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
    """What bash would offer after `line`; a space after a word means that it is complete."""
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


def completions(line: str) -> list[str]:
    """What bash's script would receive: the same process without a shell around it, which can be forked."""
    with tempfile.NamedTemporaryFile() as output:
        asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
        run_cli(**FROM_BASH, **asked, _ARGCOMPLETE_STDOUT_FILENAME=output.name)
        return [word.rstrip(" ") for word in output.read().decode().split(FROM_BASH["IFS"]) if word]


@pytest.mark.usefixtures("path")
def test_commands_and_options() -> None:
    assert offered("octostore ow") == completions("octostore ow") == ["owner"]
    assert set(completions("octostore re")) == {"release", "recover", "requeue", "restore"}
    assert set(completions("octostore list --")) >= {"--status", "--queue", "--limit", "--watch", "--json", "--url"}
    assert completions("octostore list --wa") == ["--watch"]
    assert set(completions("octostore list --status d")) == {"done", "dead"}
    assert set(completions("octostore token ")) >= {"create", "list", "revoke"}
    assert set(offered("octostore token create ci --scope ")) == {"read", "claim", "admin"}
    assert completions("octostore completion f") == ["fish"]
    assert set(completions("octostore hook s")) == {"session-start", "session-end", "stop"}


@pytest.mark.usefixtures("path")
def test_names_of_jobs(cli: Cli) -> None:
    prefix = cli.new_name("tab")
    cli.lease(f"{prefix}-a/b")
    cli.store.enqueue("build", job_id=f"{prefix}-c")
    assert set(offered(f"octostore owner {prefix}")) == {f"{prefix}-a/b", f"{prefix}-c"}
    assert completions(f"octostore requeue x {prefix}-c") == [f"{prefix}-c"]
    assert completions(f"octostore events --job {prefix}-a") == [f"{prefix}-a/b"]


@pytest.mark.usefixtures("path")
def test_names_with_special_characters(cli: Cli) -> None:
    """Characters that mean something to a shell do not break completion."""
    prefix = cli.new_name("tab")
    cli.lease(f"{prefix}#12")
    cli.lease(f"{prefix}@host+1")
    assert set(offered(f"octostore owner {prefix}")) == {f"{prefix}#12", f"{prefix}@host+1"}
    assert offered(f"octostore owner {prefix}#") == [f"{prefix}#12"]
    assert completions(f"octostore heartbeat {prefix}-nobodys") == []


def test_names_of_queues(cli: Cli) -> None:
    queue = cli.new_name("tab")
    cli.store.set_queue(queue, paused=True)
    for line in ("queue set", "next", "list --queue"):
        assert completions(f"octostore {line} {queue[:-1]}") == [queue]


def test_names_of_sessions(cli: Cli) -> None:
    prefix = cli.new_name("tab")
    for name in "ab":
        cli.store.open_session("ann", session_id=f"{prefix}-{name}")
    cli.lease(f"{prefix}-c")
    assert set(completions(f"octostore sessions {prefix}")) == {f"{prefix}-a", f"{prefix}-b"}
    assert completions(f"octostore events --session {prefix}-a") == [f"{prefix}-a"]
    assert completions(f"octostore hand-over {prefix}-b") == [f"{prefix}-b"]


def test_names_of_another_store(clean: Path) -> None:
    url = f"sqlite:///{clean}/other.db"
    run_cli("enqueue", "build", "--job-id", "elsewhere", "--url", url)
    assert completions("octostore owner e") == []
    assert completions(f"octostore --url {url} owner e") == ["elsewhere"]


@pytest.mark.usefixtures("path")
def test_an_unreachable_store_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no error is printed."""
    monkeypatch.setenv("OCTOSTORE_URL", "http://127.0.0.1:1")
    assert completions("octostore owner e") == []
    monkeypatch.setenv("OCTOSTORE_TOKEN", "octo_qfdCLouvFP62SCXXPRbo5wFtWq0mcoq8bLxyJEuD8fk3K5jYq")
    assert offered("octostore owner e") == []


def test_completion_does_not_wait_for_a_store_that_does_not_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    has_replied = threading.Event()

    def open_at_last(_place: StoreAddress) -> None:
        has_replied.wait()
        raise octostore.Unreachable("it was too late anyway", reason="network")

    monkeypatch.setattr(StoreAddress, "open", open_at_last)
    monkeypatch.setattr(completers, "PATIENCE_SECONDS", 0.01)
    assert completers.job_names("e", argparse.Namespace()) == []
    has_replied.set()


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
