"""The log as a whole: exported, and verified."""

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import octostore
from octostore.cli.story import sentence
from octostore.client import verification
from octostore.core.events import DETAILS, Event
from tests.cli.conftest import Cli, progress_on_terminal, store_of_an_hour_ago
from tests.support.cli import run_cli
from tests.support.server import ServerProcess

# What somebody with access to the file and bad intentions could do.
LOSE_AN_EVENT = "DROP TRIGGER events_are_not_deleted; DELETE FROM events WHERE seq = 2;"
ADD_ATTEMPTS = "UPDATE jobs SET attempts = 7 WHERE job_id = 'second';"


def test_the_log_is_exported(cli: Cli) -> None:
    cli.store.release_job(cli.job, cli.lease(owner="エージェント"), "failed", error="no disk")
    cli.lease()
    done = cli.run("events", "--job", cli.job, "--export", PYTHONIOENCODING="ascii")
    assert (done.code, done.err) == (0, "")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [(event["type"], event["agent"], event["reason"]) for event in events] == [
        ("claimed", "エージェント", None),
        ("failed", "エージェント", "no disk"),
        ("claimed", "ann", None),
    ]
    assert cli.run("events", "--job", cli.job, "--export", "--json").out == done.out
    store_id = cli.store.figures().store_id
    assert [{"store_id": store_id} | event for event in cli.json("events", "--job", cli.job)["events"]] == events


def test_a_part_of_the_log_is_exported(cli: Cli) -> None:
    for _ in range(3):
        cli.store.release_job(cli.job, cli.lease())
    seqs = [event["seq"] for event in cli.json("events", "--job", cli.job)["events"]]
    done = cli.call("events", "--prefix", cli.job, "--export", "--after", str(seqs[1]), "--limit", "3")
    assert [json.loads(line)["seq"] for line in done.out.splitlines()] == seqs[2:5]
    nothing = cli.call("events", "--job", cli.job, "--export", "--after", str(seqs[-1]))
    assert nothing == (0, "", "octostore: no events match\n")


def test_the_log_since_a_time_and_by_type(cli: Cli) -> None:
    cli.store.release_job(cli.job, cli.lease())
    found = [cli.json("events", "--job", cli.job, "--since", since)["events"] for since in ("10m", "2025-01-01T00:00Z")]
    assert [[event["type"] for event in events] for events in found] == [["claimed", "released"]] * 2
    chosen = cli.json("events", "--since", "1h", "--job", cli.job, "--type", "released", "--type", "done")["events"]
    assert [event["type"] for event in chosen] == ["released"]
    assert cli.call("events", "--job", cli.job, "--since", "2999-01-01T00:00:00Z").err == "octostore: no events match\n"
    for wrong, problem in (
        ("yesterday", "'yesterday' is neither a duration nor a time; use 10m (ago) or 2026-11-16T06:00:00Z"),
        ("last-Tuesday", "is neither a duration nor a time; use 10m (ago) or "),
        ("2026-01-01T00:00:00", "has no time zone; append Z for UTC"),
        ("2026-13-01", "is not a time; use the form 2026-11-16T06:00:00Z"),
        ("99999999d", "is before 1970"),
    ):
        refused = cli.call("events", "--since", wrong)
        assert (refused.code, problem in refused.err) == (64, True), refused.err
    assert "choose from" in cli.call("events", "--type", "stolen").err


@pytest.mark.parametrize("cli", ["server"], indirect=True)  # a file has no tokens
def test_a_limited_token_exports_what_it_may_see(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.lease()
    limited = cli.json("token", "create", "limited", "--prefix", cli.job)["token"]
    monkeypatch.setenv("OCTOSTORE_TOKEN", limited)
    (line,) = cli.call("events", "--prefix", cli.job, "--export").out.splitlines()
    assert (json.loads(line)["type"], json.loads(line)["store_id"]) == ("claimed", None)


def test_an_export_does_not_wait_for_its_end(cli: Cli) -> None:
    cli.lease()
    with cli.start("events", "--job", cli.job, "--export", "--follow") as exporting:
        assert json.loads(exporting.line())["type"] == "claimed"
        cli.store.force_release(cli.job)
        assert json.loads(exporting.line())["type"] == "force_released"


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_sound_log(cli: Cli, form: str) -> None:
    """On a server, this includes the events of other tests."""
    session = cli.store.open_session("ann", ttl=600)
    cli.lease(session_id=session.session_id)
    session.hand_over("bob")
    last = cli.log()[-1][0]
    done = cli.run("events", "--verify", *(["--json"] if form == "json" else []))
    assert (done.code, done.err) == (0, ""), done
    if form == "json":
        assert (done.json["is_sound"], done.json["problems"]) == (True, [])
        assert done.json["last_seq"] >= last
        assert done.json["events"] == done.json["last_seq"]
    else:
        assert done.out.startswith("sound  ")
        assert [
            word for word in (" events, ", " claims, ", " job", " session", "; up to event ") if word not in done.out
        ] == []


def test_what_could_not_be_verified_is_shown(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.lease()
    monkeypatch.setattr(verification, "LOOKS", 0)  # as if everything changed
    skipped = cli.json("events", "--verify")["skipped"]
    done = cli.call("events", "--verify")
    assert (done.code, skipped > 0) == (0, True)
    assert f", 0 jobs, 0 sessions (skipped {skipped:,} that kept changing); up to event " in done.out


@pytest.mark.parametrize("kind", ["file", "server"])
def test_a_log_that_is_not_sound(kind: str, clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(store: octostore.OctoStore) -> None:
        for job in ("first", "second", "third"):
            store.enqueue("import", job_id=job)

    def spoil(database: sqlite3.Connection) -> None:
        database.executescript(LOSE_AN_EVENT + ADD_ATTEMPTS)

    with store_of_an_hour_ago(kind, clean, monkeypatch, fill, spoil=spoil):
        done = run_cli("events", "--verify")
        assert (done.code, done.err) == (70, "")
        assert done.out.splitlines() == [
            "not sound  2 problems in 2 events, 0 claims, 3 jobs, 0 sessions; up to event 3",
            "the log has a gap: event 3 follows event 1",
            "job 'second' is stored, but no event mentions it",
        ]
        as_json = run_cli("events", "--verify", "--json")
        assert (as_json.code, as_json.json["is_sound"]) == (70, False)
        assert as_json.json["problems"] == done.out.splitlines()[1:]


def test_only_operators_verify_a_log(server: ServerProcess) -> None:
    env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.new_token("reader", "read")}
    done = run_cli("events", "--verify", "--json", **env)
    assert (done.code, done.json["code"]) == (77, "not_allowed")
    assert "needs an admin token" in done.err


@pytest.mark.parametrize(("term", "shown"), [("xterm", "\rat event 1 …\r\x1b[K"), ("dumb", "")])
def test_progress_is_shown_on_a_terminal(cli: Cli, term: str, shown: str) -> None:
    cli.lease()
    with progress_on_terminal(term) as progress:
        assert cli.call("events", "--verify").out.startswith("sound")
    assert "".join(progress) == shown


# Every event in words


def test_every_event_type_has_a_sentence() -> None:
    """Even with only its required details."""
    now = datetime.now(UTC)
    filled: dict[str, Any] = {"status": "free", "heartbeat_at": now, "last_progress_at": now}
    for kind, details in DETAILS.items():
        data = {name: filled.get(name, 1) for name in details.__struct_fields__[: required(details)]}
        text = sentence(event(kind, data))
        assert text != kind
        assert "None" not in text


def required(details: type[Any]) -> int:
    """How many of the fields have no default; they come first."""
    return len(details.__struct_fields__) - len(details.__struct_defaults__)


def test_an_unknown_event_has_a_sentence_too() -> None:
    text = sentence(event("promoted", {}, agent="ann", reason="well\ndone"))
    assert text == "promoted (ann): well … done"


def event(kind: str, data: dict[str, Any], **more: Any) -> Event:
    at = datetime.now(UTC)
    return Event(seq=1, at=at, type=kind, actor="op", job_id="J", queue="q", session_id=None, data=data, **more)
