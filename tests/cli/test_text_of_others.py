"""What others wrote never reaches a terminal raw, whichever command shows it.

Validation keeps much of it out of a store. Here every field contains it anyway, as if a store or a server did not
validate.
"""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore
from octostore.cli.main import main
from octostore.cli.subcommands import SUBCOMMANDS
from octostore.core.limits import PAYLOAD_BYTES
from tests.cli.conftest import Cli, store_of_an_hour_ago
from tests.support.cli import Done, run_cli, run_on_terminal
from tests.support.text_of_others import NASTY, hidden_in

PLACE = "NASTY"
"""The placeholder for it, which passes validation."""
DAY = 86_400
LINES: dict[str, list[str]] = {
    "run": ["run held -- true", "run held --wait 1 -- true", "run done --once -- true", "run dead -- true"],
    "claim": ["claim held", "claim done", "claim dead", "claim tried", "claim later", "claim NASTY", "claim not-now"],
    "heartbeat": ["heartbeat held --lease-id wrong", "heartbeat forced --lease-id wrong"],
    "release": ["release held --lease-id wrong --error NASTY"],
    "mine": ["mine --owner NASTY", "mine --release-all --owner NASTY"],
    "hand-over": ["hand-over local/session --to bob", "hand-over NASTY --to bob"],
    "progress": ["progress --percent NASTY", "progress NASTY note --owner NASTY"],
    "checkpoint": ["checkpoint @NASTY", "checkpoint NASTY", "checkpoint NASTY 1"],
    "batch": ["batch"],
    "enqueue": ["enqueue kind --job-id tried", "enqueue NASTY"],
    "next": ["next line", "next NASTY", "next paused"],
    "work": ["work other --until-empty -- false", "work line --until-empty -- true"],
    "dead": ["dead", "dead --story"],
    "requeue": ["requeue held", "requeue dead", "requeue --all --queue NASTY --reason why"],
    "discard": ["discard held", "discard dead", "discard NASTY", "discard --all --reason NASTY"],
    "cancel": ["cancel held", "cancel tried", "cancel NASTY"],
    "stop": ["stop held --reason NASTY", "stop dead", "stop NASTY"],
    "queues": ["queues", "queues --json"],
    "queue": ["queue set paused --max-claimed 3", "queue set NASTY --pause", "queue set third --pause --reason NASTY"],
    "owner": [
        "owner held",
        "owner done",
        "owner dead",
        "owner tried",
        "owner cancelled",
        "owner forced",
        "owner later",
    ],
    "list": ["list", *(f"list --status {status}" for status in ("all", "queued", "dead", "done", "free"))],
    "events": [
        "events",
        "events --export",
        "events --verify",
        "events --follow --limit 9",
        "events --session local/session",
    ],
    "sessions": ["sessions", "sessions local/session", "sessions --status all", "sessions NASTY"],
    "health": ["health"],
    "recover": ["recover"],
    "force-release": ["force-release held", "force-release NASTY"],
    "backup": ["backup NASTY/copy.db --url sqlite:///home/octostore/octostore.db"],
    "restore": ["restore NASTY --url sqlite:///new.db"],
    "serve": ["serve --tokens-file NASTY --url sqlite:///home/octostore/octostore.db"],
    "token": ["token list", "token create NASTY", "token revoke NASTY"],
    "prime": ["prime", "prime --owner NASTY", "prime --url sqlite:///NASTY", "prime NASTY"],
    "doctor": ["doctor --url sqlite:///NASTY", "doctor"],
    "completion": ["completion NASTY"],
    "ui": ["ui --print --url http://NASTY", "ui --print --url http://127.0.0.1:1/NASTY"],
    "setup": [],  # shows the names of its own files, and nothing of a store
    "hook": [],  # has its own tests, in tests/agents: its stdout is for a program
    "mcp": [],  # has its own tests: its stdout is for a program
    "demo": [],  # shows only its own store, and takes long
}
"""Command lines that show what is in the store, or what they were called with."""
NEEDS_PROCESS = ("run", "work", "batch", "events --follow")
BATCH = [{"command": "claim_job", "job_id": "held"}, {"command": "requeue_job", "job_id": "held"}]


def fill(store: octostore.OctoStore) -> None:
    nasty = f"some {PLACE} text"
    session = store.open_session(f"agent {PLACE}", session_id="session", ttl=DAY)
    session.save({"x": nasty, PLACE: 1})
    store.open_session(f"agent {PLACE}", session_id=f"session-{PLACE}", ttl=DAY).hand_over(f"to {PLACE}", nasty)
    held = lease_of(store, "held", ttl=DAY, metadata={PLACE: nasty}, session_id="session")
    store.heartbeat_job("held", held, progress=nasty, percent=40)
    store.request_stop("held", reason=nasty)
    lease_of(store, f"bound-{PLACE}", ttl=DAY, session_id="session")
    for job, attempts in {"tried": 9, "dead": 1}.items():
        store.enqueue(f"kind-{PLACE}", {PLACE: nasty}, queue=f"queue-{PLACE}", job_id=job, max_attempts=attempts)
        lease = lease_of(store, job)
        store.checkpoint_job(job, lease, {PLACE: nasty})
        error = f"first {PLACE}\nmiddle {PLACE}\nlast {PLACE}"
        store.release_job(job, lease, "failed", error=error, note=nasty)
    store.release_job("done", lease_of(store, "done"), "done", result=nasty, note=nasty)
    store.release_job("later", lease_of(store, "later"), "deferred", retry_after=DAY, note=nasty)
    store.enqueue("build", queue="line", job_id="cancelled")
    store.cancel("cancelled", reason=nasty)
    lease_of(store, "forced")
    store.force_release("forced", reason=nasty)
    lease_of(store, f"forced-{PLACE}", ttl=1)  # it has expired since
    store.enqueue(f"kind-{PLACE}", nasty, queue="line", job_id=f"job-{PLACE}")
    store.enqueue(f"kind-{PLACE}", nasty, queue="other", job_id="other")
    store.limit_queue(f"queue-{PLACE}", 3)
    store.enqueue("build", queue="paused", job_id="not-now")
    store.set_queue("paused", paused=True, reason=nasty)
    store.create_token(f"token {PLACE}", prefix=PLACE)


def lease_of(store: octostore.OctoStore, job: str, **options: object) -> str:
    lease = store.claim_job(job, f"owner {PLACE}", **options).lease_id  # type: ignore[arg-type]
    assert lease is not None
    return lease


def plant(database: sqlite3.Connection) -> None:
    """Replace `PLACE` everywhere: raw in text, and escaped in JSON."""
    query = "SELECT name, sql FROM sqlite_master WHERE type = ?"
    triggers = database.execute(query, ["trigger"]).fetchall()
    for name, _ in triggers:
        database.execute(f"DROP TRIGGER {name}")
    for table, _ in database.execute(query, ["table"]).fetchall():
        for _, column, kind, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
            if kind == "BLOB":
                changed = f"CAST(replace(CAST({column} AS TEXT), :place, :json) AS BLOB)"
            else:
                changed = f"replace({column}, :place, :raw)"
            database.execute(
                f"UPDATE {table} SET {column} = {changed} WHERE instr(CAST({column} AS TEXT), :place)",
                {"place": PLACE, "raw": NASTY, "json": json.dumps(NASTY)[1:-1]},
            )
    database.execute("UPDATE jobs SET host = host || ?", [NASTY])
    for _, definition in triggers:
        database.execute(definition)


@pytest.fixture(params=["file", "server"])
def hostile_store(
    request: pytest.FixtureRequest, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with store_of_an_hour_ago(request.param, clean, monkeypatch, fill, spoil=plant):
        yield


def test_every_command_is_covered() -> None:
    assert set(LINES) == {command.name for command in SUBCOMMANDS}, (
        "say in LINES how a new command shows text of others"
    )


@pytest.mark.usefixtures("hostile_store")
@pytest.mark.parametrize("command", [name for name, lines in LINES.items() if lines])
def test_it_is_never_shown_raw(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = ""
    for line in LINES[command]:
        for form in ([], ["--json"]):
            done = call(line, form, capsys)
            assert hidden_in(done.out + done.err) == [], (line, form)
            shown += done.out + done.err
    assert is_shown(shown), shown


def is_shown(text: str) -> bool:
    return r"\x1b" in text or r"\u001b" in text


def call(line: str, form: list[str], capsys: pytest.CaptureFixture[str]) -> Done:
    name, *rest = (word.replace(PLACE, NASTY) for word in line.split())
    words = [name, *form, *rest]
    if line.startswith(NEEDS_PROCESS):
        stdin = "\n".join(map(json.dumps, BATCH)) if name == "batch" else None
        return run_cli(*(word.replace("\0", "") for word in words), stdin=stdin)
    capsys.readouterr()
    return Done(main(words), *capsys.readouterr())


@pytest.mark.usefixtures("hostile_store")
@pytest.mark.parametrize(
    "line", ["owner held", "owner tried", "list", "events", "dead --story", "sessions local/session"]
)
def test_on_a_terminal_only_our_own_colours_are_raw(line: str) -> None:
    seen = run_on_terminal(*line.split())
    for colour in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m"):
        seen = seen.replace(colour, "")
    assert hidden_in(seen) == []
    assert r"\x1b[31m" in seen


def test_an_invalid_command_line_is_not_shown_raw(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([NASTY], ["list", f"--{NASTY}"], ["list", "--limit", NASTY], ["list", "--limit", NASTY, "--json"]):
        assert main(words) == 64
        out, err = capsys.readouterr()
        assert hidden_in(out + err) == []
        assert r"\x1b[31m" in err


def test_it_is_not_shown_raw_in_the_largest_documents_either(cli: Cli) -> None:
    script = "<script>alert(1)</script>"
    text = script + NASTY
    payload = [text, script * (PAYLOAD_BYTES // len(script) - 10), text]
    cli.store.enqueue("build", payload, job_id=cli.job, max_attempts=1)
    cli.store.release_job(cli.job, cli.lease(), "failed", error=text * 20, note=text * 10)
    story = cli.call("dead", cli.job, "--story")
    assert hidden_in(story.out) == []
    assert payload[1] in story.out
    as_json = cli.call("dead", cli.job, "--story", "--json")
    assert hidden_in(as_json.out) == []
    job = json.loads(as_json.out)["job"]
    assert (job["payload"], job["error"], job["note"]) == (payload, text * 20, text * 10)
