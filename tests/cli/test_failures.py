"""Each kind of failure has its own exit code, says what to do next, and shows no secret."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from octostore.cli.store_address import StoreAddress
from tests.cli.conftest import Cli
from tests.support.cli import Done, run_cli
from tests.support.processes import PATIENCE_SECONDS, ROOT
from tests.support.server import ServerProcess
from tests.support.starting import PROGRAM

NOWHERE = "http://127.0.0.1:1"
WELL_FORMED = "octo_qfdCLouvFP62SCXXPRbo5wFtWq0mcoq8bLxyJEuD8fk3K5jYq"
SECRET = "hunter2"
NEWLINE = "two\nlines"

BAD_INPUT = [
    (["claim", "a b"], "job_id"),
    (["claim", "J", "--ttl", "0"], "ttl"),
    (["claim", "J", "--ttl", "2d"], "ttl"),
    (["claim", "J", "--ttl", "soon"], "ttl"),
    (["claim", "J", "--owner", ""], "owner"),
    (["claim", "J", "--owner", NEWLINE], "owner"),
    (["claim", "J", "--metadata", "{"], "metadata"),
    (["claim", "J", "--metadata", '{"a": 1, "a": 2}'], "metadata"),
    (["claim", "J", "--metadata", f'"{"x" * 2_000}"'], "metadata"),
    (["claim", "J", "--wait", "100d"], "wait"),
    (["claim", "J", "--lock-delay", "31"], "lock_delay"),
    (["claim", "J", "--session", "a b"], "session_id"),
    (["claim", "J", "--request-id", ""], "request_id"),
    (["heartbeat", "J", "--lease-id", "x", "--percent", "101"], "percent"),
    (["heartbeat", "J", "--lease-id", "x", "--percent", "nan"], "percent"),
    (["heartbeat", "J", "--lease-id", "x", "--percent", "half"], "percent"),
    (["heartbeat", "J", "--lease-id", "x", "--ttl", "0"], "ttl"),
    (["heartbeat", "J", "--lease-id", "x", "--progress", "x" * 2_000], "note"),
    (["heartbeat", "J", "--lease-id", NEWLINE], "lease_id"),
    (["release", "J", "--lease-id", "x", "--outcome", "gone"], "outcome"),
    (["release", "J", "--lease-id", "x", "--result", "1"], "result"),
    (["release", "J", "--lease-id", "x", "--retry-after", "1"], "retry_after"),
    (["release", "J", "--lease-id", "x", "--outcome", "failed", "--error", "x" * 3_000], "error"),
    (["next", "a b"], "queue"),
    (["next", "q", "--kind", "a b"], "kinds"),
    (["next", "q", "--ttl", "0"], "ttl"),
    (["enqueue", "a b"], "kind"),
    (["enqueue", "k", "--queue", "a/b"], "queue"),
    (["enqueue", "k", "--priority", "9999"], "priority"),
    (["enqueue", "k", "--priority", "high"], "priority"),
    (["enqueue", "k", "--max-attempts", "0"], "max_attempts"),
    (["enqueue", "k", "--run-at", "tomorrow"], "run_at"),
    (["enqueue", "k", "--run-at", "2026-11-16T06:00:00"], "run_at"),
    (["enqueue", "k", "--run-at", "1960-01-01T00:00:00Z"], "run_at"),
    (["enqueue", "k", "--in", "99999999999d"], "delay"),
    (["enqueue", "k", "--in", "1h", "--run-at", "2026-11-16T06:00:00Z"], "run_at"),
    (["enqueue", "k", "--payload", "@/missing"], "payload"),
    (["enqueue", "k", "--payload", "NaN"], "payload"),
    (["enqueue", "k", "--payload", "[" * 100 + "]" * 100], "payload"),
    (["enqueue", "k", "--job-id", ""], "job_id"),
    (["owner", "a b"], "job_id"),
    (["owner", "\udcff"], "job_id"),
    (["list", "a b"], "prefix"),
    (["list", "--status", "lost"], "status"),
    (["list", "--limit", "0"], "limit"),
    (["list", "--queue", "a b"], "queue"),
    (["list", "--watch", "--interval", "0"], "interval"),
    (["events", "--after", "-1"], "after"),
    (["events", "--limit", "-1"], "limit"),
    (["events", "--job", "a b"], "job_id"),
    (["events", "--prefix", "a b"], "prefix"),
    (["events", "--session", "a b"], "session_id"),
    (["events", "--session", "s", "--job", "J"], "job"),
    (["events", "--verify", "--job", "J"], "verify"),
    (["events", "--verify", "--session", "s"], "verify"),
    (["events", "--verify", "--after", "1"], "verify"),
    (["events", "--verify", "--follow"], "verify"),
    (["events", "--verify", "--export"], "verify"),
    (["sessions", "--status", "lost"], "status"),
    (["sessions", "a b"], "session_id"),
    (["sessions", "s", "--status", "open"], "status"),
    (["hand-over", "a b", "--to", "bob"], "session_id"),
    (["hand-over", "s", "--to", ""], "to_agent"),
    (["hand-over", "s", "--to", "bob", "--note", "x" * 9_000], "note"),
    (["health", "--dead", "many"], "dead"),
    (["health", "--dead", "0"], "dead"),
    (["health", "--dead", "5,1"], "dead"),
    (["health", "--late", "1,2,3"], "late"),
    (["health", "--oldest", "soon"], "oldest"),
    (["health", "--fail-on", "ok"], "fail_on"),
    (["discard", "a b"], "job_id"),
    (["discard", "J", "--reason", NEWLINE], "reason"),
    (["dead", "a b"], "prefix"),
    (["requeue", "a b"], "job_id"),
    (["cancel", "J", "--reason", NEWLINE], "reason"),
    (["force-release", "J", "--reason", "x" * 300], "reason"),
    (["token", "create", ""], "name"),
    (["token", "create", "n", "--prefix", "a b"], "prefix"),
    (["token", "create", "n", "--scope", "all"], "scope"),
    (["token", "create", "n", "--expires-in", "0"], "expires_in"),
    (["completion", "ksh"], "shell"),
    (["serve", "--port", "70000"], "port"),
    (["serve", "--allow-origin", "example.org"], "allow_origin"),
    (["serve", "--allow-origin", "https://example.org/app"], "allow_origin"),
    (["work", "q", "--deferred-exit", "0"], "deferred_exit"),
]
MISUNDERSTOOD = [
    ([], None),
    (["claim"], "the following arguments are required: JOB"),
    (["clam"], "unknown command 'clam'; did you mean claim?"),
    (["xyzzy"], "unknown command 'xyzzy'"),
    (["unlock"], "unknown command 'unlock'; did you mean release?"),
    (["status"], "unknown command 'status'; did you mean owner?"),
    (["ls"], "unknown command 'ls'; did you mean list?"),
    (["lits"], "unknown command 'lits'; did you mean list?"),
    (["claim", "J", "--tt", "5"], "unknown option --tt; did you mean --ttl?"),
    (["list", "--xyzzy=1"], "unknown option --xyzzy"),
    (["owner", "J", "K"], "unexpected argument 'K'"),
    (["claim", "J", "--ttl"], "argument --ttl: expected one argument"),
    (["hand-over", "S"], "the following arguments are required: --to"),
    (["owner", "J", "--", "ls"], "unexpected argument 'ls'"),
    (["claim", "--", "J", "--owner", "ann"], "unexpected argument '--owner'; put options before `--`"),
    (["claim", "--wiat", "1", "--", "J"], "unknown option --wiat; did you mean --wait?"),
    (["events", "--", "J"], "unexpected argument 'J'"),
    (["--", "owner", "J"], "the following arguments are required: COMMAND"),
    (["run", "J"], "no command given; use `octostore run JOB [options] -- COMMAND …`"),
    (["work", "Q", "./do.sh"], "put `--` before the command: `octostore work Q -- ./do.sh`"),
    (["work", "Q", "./do it.sh", "-v"], "put `--` before the command: `octostore work Q -- './do it.sh' …`"),
    (["run", "J", "--wiat", "5", "--", "true"], "unknown option --wiat; did you mean --wait?"),
    (["run", "J", "--wiat", "5"], "unknown option --wiat; did you mean --wait?"),
    (["token"], "the following arguments are required: create|list|revoke|rotate|generate"),
]


def shown(value: object) -> str:
    return " ".join(value)[:40] if isinstance(value, list) else ""


@pytest.mark.parametrize(("arguments", "field"), BAD_INPUT, ids=shown)
def test_bad_input_names_the_field_and_changes_nothing(cli: Cli, arguments: list[str], field: str) -> None:
    lease = cli.lease()
    arguments = [cli.job if word == "J" else lease if word == "x" else word for word in arguments]
    before = cli.log()
    done = cli.call(*arguments)
    assert (done.code, done.out) == (64, ""), done
    assert field in done.err.replace("-", "_"), done.err
    envelope = cli.json(*arguments, code=64)
    assert envelope["code"] == "invalid_input"
    assert envelope["field"] == field
    assert envelope["error"] in done.err
    assert cli.log() == before
    assert lease not in done.err


@pytest.mark.parametrize(("arguments", "problem"), MISUNDERSTOOD, ids=shown)
def test_an_invalid_command_line_says_what_is_wrong(cli: Cli, arguments: list[str], problem: str | None) -> None:
    done = cli.call(*arguments)
    assert done.code == 64
    if problem is not None:
        assert done.out == ""
        assert done.err.startswith("usage: octostore ")
        assert f"octostore: {problem}\n(see `octostore" in done.err
        assert cli.call("--json", *arguments).json == {
            "error": problem,
            "code": "invalid_input",
            "details": "Correct the request; nothing was changed.",
            **({"field": "ttl"} if "argument --ttl" in problem else {}),
        }


def test_bad_input_of_a_real_process(cli: Cli) -> None:
    for arguments in (["claim", "a b"], ["claim", "J", "--ttl", "soon"], ["enqueue", "k", "--payload", "{"]):
        done = cli.run(*arguments, "--json")
        assert (done.code, done.json["code"]) == (64, "invalid_input")
        assert done.json["error"] in done.err


# Unreachable


def start(*arguments: str, **env: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*PROGRAM, *arguments],
        env={**os.environ, "OCTOSTORE_TOKEN": WELL_FORMED, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> Done:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return Done(process.returncode, out, err)


def test_a_server_that_is_not_running_is_unreachable() -> None:
    """All at the same time, because each keeps trying for some seconds."""
    processes = [
        start("list", "--url", NOWHERE),
        start("owner", "J", OCTOSTORE_URL=NOWHERE),
        start("claim", "J", "--json", OCTOSTORE_URL=NOWHERE),
    ]
    by_option, by_variable, as_json = map(finish, processes)
    for done in (by_option, by_variable, as_json):
        assert done.code == 69
        assert f"octostore: cannot communicate with the server at {NOWHERE}: " in done.err
        assert "octostore:   next  check that the server is running (`octostore serve` starts one)" in done.err
        assert WELL_FORMED not in done.out + done.err
        assert "trying until" not in done.err, "that is for a person at a terminal"
    assert f"octostore:   store {NOWHERE} (from --url)\n" in by_option.err
    assert f"octostore:   store {NOWHERE} (from OCTOSTORE_URL)\n" in by_variable.err
    assert (by_option.out, by_variable.out) == ("", "")
    assert (as_json.json["code"], as_json.json["reason"]) == ("unreachable", "network")
    assert as_json.json["details"].startswith("check that the server is running")
    assert as_json.json["retry_after_ms"] == 1_000


def test_without_a_store_trying_again_is_not_the_advice(clean: Path) -> None:
    failure = run_cli("list", "--json", OCTOSTORE_HOME=str(clean / "none")).json
    assert failure["reason"] == "no_store"
    assert failure["details"].startswith("if this is the right store, claim or enqueue a job to create it")
    assert "retry_after_ms" not in failure


def test_a_file_that_is_not_a_store_is_unreachable(clean: Path) -> None:
    folder = clean / "octostore"
    folder.mkdir()
    (folder / "octostore.db").write_text("this is not a database, but it is long enough to be read as one" * 100)
    done = run_cli("list")
    assert done.code == 69
    assert f"octostore:   store {folder}/octostore.db (the default: OCTOSTORE_URL is not set)\n" in done.err
    assert "octostore:   next  check the path" in done.err
    named = run_cli("list", "--json", OCTOSTORE_URL=f"sqlite:///{folder}/octostore.db")
    assert (named.code, named.json["reason"]) == (69, "not_a_database")
    assert f"store sqlite:///{folder}/octostore.db (from OCTOSTORE_URL)" in named.err


@pytest.mark.parametrize(
    "line",
    ["claim x", "claim x --keep --owner o", "enqueue k", "owner x", "list", "run x -- true", "work q -- true"],
)
def test_a_store_in_memory_is_refused(line: str) -> None:
    """Each command would have its own, so two of them could do the same job."""
    done = run_cli(*line.split(), OCTOSTORE_URL="memory:")
    assert (done.code, done.out) == (64, "")
    assert "url is `memory:`, a store that ends with the command; use a file, a database or a server" in done.err


def test_a_folder_that_cannot_be_created_is_reported() -> None:
    done = run_cli("list", OCTOSTORE_HOME="/proc/nowhere")
    assert (done.code, done.out) == (69, "")
    assert "the folder /proc/nowhere cannot be created" in done.err
    assert "Traceback" not in done.err


def test_a_server_that_is_not_octostore_is_unreachable(server: ServerProcess) -> None:
    done = run_cli("list", OCTOSTORE_URL=f"{server.url}/docs", OCTOSTORE_TOKEN=server.token)
    assert done.code == 69
    assert "check the URL" in done.err


@pytest.mark.parametrize(
    "url",
    [
        f"http://ann:{SECRET}@127.0.0.1:1",
        f"https://{SECRET}@host",
        f"http:/ann:{SECRET}@host",
        f"http://ann:{SECRET}@host:port",
        f"http://ann:{SECRET}",
        f"postgresql://ann:{SECRET}",
        f"postgresql://ann:{SECRET}/db",
        f"http://ann:a@{SECRET}@[::1",
        f"{SECRET}@host",
        WELL_FORMED,
        f"http://127.0.0.1:1/?token={WELL_FORMED}",
        f"http://{WELL_FORMED}@127.0.0.1:1",
    ],
)
@pytest.mark.parametrize("way", ["option", "variable"])
def test_secrets_of_a_url_are_not_shown(cli: Cli, url: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "variable":
        monkeypatch.setenv("OCTOSTORE_URL", url)
    done = cli.call("list", "--json", *(["--url", url] if way == "option" else []))
    assert (done.code, done.json["field"]) == (64, "url")
    assert f" (from {'--url' if way == 'option' else 'OCTOSTORE_URL'})\n" in done.err
    assert SECRET not in done.out + done.err
    assert WELL_FORMED not in done.out + done.err


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@host/db",
        f"postgresql://ann:{SECRET}?{SECRET}@host/db",
        f"postgresql://host/db?password={SECRET}",
        f"postgresql://host/db?user=a@b&password={SECRET}",
    ],
)
def test_secrets_of_a_database_are_not_shown(url: str) -> None:
    assert SECRET not in str(StoreAddress(url, "--url"))


def test_what_is_not_secret_is_shown() -> None:
    assert str(StoreAddress("sqlite:////home/ann@work/jobs.db", "--url")) == "sqlite:////home/ann@work/jobs.db"
    assert str(StoreAddress("https://host:8443/base", "--url")) == "https://host:8443/base"
    assert str(StoreAddress("http://ann:x@host:80/base", "--url")) == "http://***@host:80/base"
    assert str(StoreAddress("http://[::1]:80", "--url")) == "http://[::1]:80"
    assert str(StoreAddress("postgresql://one:1,two:2/db", "--url")) == "postgresql://one:1,two:2/db"


@pytest.mark.parametrize("name", ["OCTOSTORE_TOKEN", "OCTOSTORE_TOKEN_FILE"])
def test_a_malformed_token_is_refused_and_not_shown(name: str, clean: Path) -> None:
    mistyped = WELL_FORMED[:-1] + "x"
    path = clean / "token"
    path.write_text(mistyped)
    path.chmod(0o600)
    done = run_cli("list", OCTOSTORE_URL=NOWHERE, **{name: mistyped if name == "OCTOSTORE_TOKEN" else str(path)})
    assert done.code == 64
    assert f"octostore: {name} " in done.err
    assert mistyped not in done.err


def test_a_command_inside_run_learns_why_it_has_no_token() -> None:
    done = run_cli("list", OCTOSTORE_URL="https://locks.example.org", OCTOSTORE_RUN_SOCKET="/nowhere")
    assert done.code == 64
    assert "octostore:   next  `run` and `work` do not pass OCTOSTORE_TOKEN on to their commands" in done.err


def test_no_token() -> None:
    done = run_cli("list", OCTOSTORE_URL=NOWHERE)
    assert done.code == 64
    assert "set OCTOSTORE_TOKEN or OCTOSTORE_TOKEN_FILE" in done.err
    assert f"store {NOWHERE} (from OCTOSTORE_URL)" in done.err


# Not allowed


def test_a_token_is_limited_to_its_scopes_and_prefix(server: ServerProcess) -> None:
    env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.new_token("reader", "read", prefix="mine-")}
    refused = run_cli("claim", "mine-1", **env)
    assert (refused.code, refused.out) == (77, "")
    assert "octostore: this needs a token with the claim scope\n" in refused.err
    assert f"octostore:   store {server.url} (from OCTOSTORE_URL)\n" in refused.err
    assert "octostore:   next  use a token that may do this (OCTOSTORE_TOKEN or OCTOSTORE_TOKEN_FILE)" in refused.err
    assert env["OCTOSTORE_TOKEN"] not in refused.err
    other = run_cli("owner", "theirs-1", "--json", **env)
    assert (other.code, other.json["code"]) == (77, "not_allowed")
    assert run_cli("owner", "mine-1", **env).code == 0


def test_an_unknown_token_is_not_allowed(server: ServerProcess) -> None:
    done = run_cli("list", OCTOSTORE_URL=server.url, OCTOSTORE_TOKEN=WELL_FORMED)
    assert done.code == 77
    assert "this token is not valid" in done.err
    assert WELL_FORMED not in done.err


def test_more_claims_than_allowed_are_refused(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--max-claims", "1") as server:
        env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.token}
        assert run_cli("claim", "one", **env).code == 0
        done = run_cli("claim", "two", "--json", **env)
        assert (done.code, done.json["code"], done.json["limit"]) == (77, "limit_exceeded", 1)


# Internal errors


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, str]:
    """The environment of a process in which the library has a bug."""
    code = (
        "from octostore.client.reader import Reader\n"
        "def fail(*_):\n    raise RuntimeError('oh')\n"
        "Reader.get_job = fail\n"
    )
    (tmp_path / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": f"{tmp_path}:{ROOT}"}


def test_a_bug_is_reported_as_an_internal_error(broken: dict[str, str]) -> None:
    done = run_cli("owner", "J", **broken)
    assert (done.code, done.out) == (70, "")
    assert done.err == (
        "octostore: internal error: RuntimeError: oh\n"
        "octostore:   next  please report this, with the traceback that OCTOSTORE_DEBUG=1 prints\n"
    )
    shown = run_cli("owner", "J", **broken, OCTOSTORE_DEBUG="1")
    assert shown.code == 70
    assert "Traceback (most recent call last)" in shown.err
    as_json = run_cli("owner", "J", "--json", **broken)
    assert (as_json.code, as_json.json["code"]) == (70, "internal_error")
    assert as_json.json["error"] == "internal error: RuntimeError: oh"


# Closed streams


def test_commands_run_without_a_stdin(cli: Cli) -> None:
    """No command prompts."""
    done = cli.run("claim", cli.job, "--json", stdin=None)
    assert done.code == 0
    shell = ["bash", "-c", 'exec "$@" <&-', "bash", *PROGRAM]
    assert run_cli("owner", cli.job, program=shell).code == 0
    payload = run_cli("enqueue", "k", "--payload", "-", program=shell)
    assert payload.code == 64
    assert "argument --payload: it is not valid JSON" in payload.err


@pytest.mark.usefixtures("empty_store")
def test_closed_outputs_do_not_change_the_exit_code(clean: Path) -> None:
    out, err = clean / "out", clean / "err"
    script = f'"$@" >&- 2>{err}; echo $?; "$@" --nonsense 2>&- >{out}; echo $?'
    done = run_cli("owner", "J", program=["bash", "-c", script, "bash", *PROGRAM])
    assert done.out.split() == ["0", "64"]
    assert (err.read_text(), out.read_text()) == ("", "")


def test_a_closed_pipe_ends_a_command_quietly() -> None:
    run_cli("enqueue", "k")
    for arguments in (["events"], ["events", "--json"], ["owner", "a b", "--json"], ["--help"], ["list", "--help"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [*PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE, check=False
        )
        os.close(writing)
        assert done.returncode == 141, arguments
        assert b"Traceback" not in done.stderr
        assert b"Exception" not in done.stderr


@pytest.mark.parametrize(
    "line", ["events", "events --json", "owner J --json", "owner --json", "claim J --lease", "--help"]
)
def test_an_output_that_cannot_be_written_is_reported(line: str) -> None:
    run_cli("enqueue", "k")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *line.split()],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
        )
    assert done.returncode == 74
    assert done.stderr == "octostore: cannot write the output: No space left on device\n"


@pytest.mark.parametrize(
    ("line", "code"),
    [("events", 74), ("events --json", 74), ("owner J K", 64), ("release J", 64), ("run J -- true", 11)],
)
def test_messages_that_cannot_be_written_do_not_change_the_exit_code(line: str, code: int) -> None:
    """As with `>> log 2>&1` on a full disk."""
    run_cli("claim", "J", "--owner", "ann")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *line.split()], stdin=subprocess.DEVNULL, stdout=full, stderr=full, check=False
        )
    assert done.returncode == code


@pytest.mark.parametrize("line", ["events --follow", "events --follow --json", "list --status all --watch"])
def test_a_closed_pipe_ends_a_command_that_follows(cli: Cli, line: str) -> None:
    """At once, and not with the next event, which may never come."""
    cli.store.enqueue("k", job_id=cli.job)
    pipe = f"set -o pipefail; {sys.executable} -m octostore {line} | head -1"
    done = subprocess.run(
        ["bash", "-c", pipe],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (141, 1, "")


def test_a_failure_after_an_interrupt_does_not_hide_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come at any moment, and cleaning up may then fail; the exit code is still that of Ctrl-C."""

    def fail(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("cannot join thread before it is started")

    monkeypatch.setattr("octostore.client.reader.Reader.get_job", fail)
    assert cli.call("owner", cli.job) == (130, "", "")
