"""Sessions: what they are doing, how they are handed over, and what happened to them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore
from tests.cli.conftest import Cli, store_of_an_hour_ago
from tests.support.cli import run_cli
from tests.support.server import ServerProcess


@pytest.fixture
def name(cli: Cli) -> str:
    return cli.new_name("session")


def with_jobs(cli: Cli, name: str, count: int = 2) -> str:
    """Open a session with jobs, and return its lease id."""
    lease = cli.store.open_session("ann", session_id=name, ttl=600).reply.lease_id
    for number in range(count):
        cli.lease(f"{cli.job}-{number}", session_id=name)
    return lease


def row_of(cli: Cli, name: str, *options: str) -> str:
    (row,) = (row for row in cli.call("sessions", *options).out.splitlines() if row.startswith(name))
    return row


def test_sessions(cli: Cli, name: str) -> None:
    with cli.store.open_session(agent="ann", session_id=name, ttl=600) as session:
        for number in range(5):
            cli.lease(f"{cli.job}-{number}", session_id=name)
        session.save({"turn": 1}, phase="planning")
        done = cli.run("sessions")
        assert (done.code, done.err) == (0, "")
        header, *_ = done.out.splitlines()
        assert header.split() == ["SESSION", "AGENT", "STATUS", "PHASE", "SINCE", "HEARTBEAT", "LEFT", "JOBS"]
        row = row_of(cli, name)
        assert row.split()[1:4] == ["ann", "open", "planning"]
        assert row.endswith(f"{cli.job}-0, {cli.job}-1, {cli.job}-2 and 2 more")
        assert name in [session["session_id"] for session in cli.json("sessions")["sessions"]]
    assert name not in [session["session_id"] for session in cli.json("sessions")["sessions"]]
    closed = cli.json("sessions", "--status", "closed")["sessions"]
    assert name in [session["session_id"] for session in closed]
    assert name in [session["session_id"] for session in cli.json("sessions", "--status", "all")["sessions"]]


@pytest.mark.usefixtures("empty_store")
def test_no_session() -> None:
    assert run_cli("sessions").out == "no open sessions\n"


def test_one_session_is_shown_in_full(cli: Cli, name: str) -> None:
    lease = with_jobs(cli, name)
    cli.store.save_session(name, lease, {"turn": 7, "next": "x" * 500}, phase="executing")
    done = cli.run("sessions", name)
    assert (done.code, done.err) == (0, "")
    first, alive, since, context, jobs, lately, *events, hint = done.out.splitlines()
    assert first == f"ann has {name}: executing"
    assert alive.startswith("  alive     heartbeat ")
    assert alive.endswith(" left")
    assert since.endswith(f" UTC), by {cli.store.whoami().name}")
    assert context.startswith('  context   520 bytes: {"turn": 7, "next": "xxx')
    assert context.endswith("xxx…")
    assert jobs == f"  jobs      {cli.job}-0, {cli.job}-1"
    assert lately == "lately"
    assert [line[29:] for line in events] == [
        f"{name}  ann opened its session",
        f"{cli.job}-0  ann claimed it",
        f"{cli.job}-1  ann claimed it",
        f"{name}  ann saved its context (520 bytes); phase idle → executing",
    ]
    assert hint == f"  (full history: octostore events --session {name})"
    assert lease not in done.out
    assert len(cli.call("events", "--session", name).out.splitlines()) == 4


def test_only_the_last_events_of_a_session_are_shown(cli: Cli, name: str) -> None:
    with_jobs(cli, name, count=20)
    output = cli.call("sessions", name).out
    assert output.count(" claimed it") == 10
    assert f"{cli.job}-19  ann claimed it" in output


def test_a_session_is_followed(cli: Cli, name: str) -> None:
    with_jobs(cli, name, count=1)
    cli.lease(f"{cli.job}-of-nobody")
    with cli.start("events", "--session", name, "--follow", "--json") as following:
        assert [json.loads(following.line())["type"] for _ in range(2)] == ["session_opened", "claimed"]
        cli.store.force_release(f"{cli.job}-0")
        assert json.loads(following.line())["type"] == "force_released"


def test_a_session_that_is_closed(cli: Cli, name: str) -> None:
    cli.store.open_session("ann", session_id=name).close()
    lines = cli.call("sessions", name).out.splitlines()
    assert lines[0] == f"ann had {name}, which is closed: idle"
    assert lines[1].startswith("  ended     ")
    assert lines[-2].endswith(f"{name}  ann closed its session")


def test_an_unknown_session_is_not_found(cli: Cli, name: str) -> None:
    done = cli.call("sessions", name, "--json")
    assert (done.code, done.json["code"]) == (64, "not_found")


def test_a_limited_token_may_see_its_own_session(server: ServerProcess) -> None:
    """A caller may see its own session and its events."""
    token = server.new_token("one", "read", "claim", prefix="mine-")
    with octostore.connect(server.url, token=token) as store, store.open_session("ann") as session:
        done = run_cli("sessions", session.session_id, OCTOSTORE_URL=server.url, OCTOSTORE_TOKEN=token)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"ann has {session.session_id}: idle\n")
    assert "ann opened its session" in done.out


def test_sessions_of_others_as_an_operator_names_them(server: ServerProcess) -> None:
    theirs = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.new_token("ci", "read", "claim")}
    with octostore.connect(server.url, token=theirs["OCTOSTORE_TOKEN"]) as store:
        store.open_session("ann", session_id="builder")
    ours = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.token}
    rows = [run_cli("sessions", **env).out.splitlines() for env in (theirs, ours)]
    for lines, name in zip(rows, ["builder", "ci/builder"], strict=True):
        assert any(row.startswith(f"{name} ") for row in lines), lines
    lines = run_cli("sessions", "ci/builder", **ours).out.splitlines()
    assert lines[0] == "ann has ci/builder: idle"
    assert lines[-2].endswith("  ci/builder  ann opened its session")
    assert lines[-1] == "  (full history: octostore events --session ci/builder)"
    assert run_cli("events", "--session", "ci/builder", **ours).out.endswith("  ci/builder  ann opened its session\n")
    missing = run_cli("sessions", "builder", "--json", **ours)
    assert (missing.code, missing.json["error"]) == (64, "principal 'admin' has no session named 'builder'")


def test_a_session_is_closed_by_its_lease_or_by_an_operator(server: ServerProcess) -> None:
    tokens = [server.new_token("ci", "read", "claim") for _ in range(2)]
    first, second = [{"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": token} for token in tokens]
    with octostore.connect(server.url, token=tokens[0]) as store:
        leases = [store.open_session("ann", session_id=name).reply.lease_id for name in ("by-lease", "by-operator")]
    refused = run_cli("sessions", "by-lease", "--close", "--json", **second)
    assert (refused.code, refused.json["code"]) == (77, "not_allowed")
    closed = run_cli("sessions", "by-lease", "--close", OCTOSTORE_LEASE_ID=leases[0], **first)
    assert (closed.code, closed.out) == (0, "closed by-lease and released its jobs\n")
    operator = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.token}
    assert run_cli("sessions", "ci/by-operator", "--close", **operator).code == 0
    output = run_cli("sessions", "by-operator", **first).out
    assert output.startswith("ann had by-operator, which is closed: idle")
    assert "  admin closed ann's session\n" in output


def test_close_needs_a_session(cli: Cli) -> None:
    assert cli.call("sessions", "--close").code == 64


# Handing over


@pytest.mark.parametrize("way", ["with the lease", "on behalf"])
def test_a_session_is_handed_over(cli: Cli, name: str, way: str) -> None:
    cli.store.enqueue("build", job_id=f"{cli.job}-0")  # a task does not go back to its queue either
    lease = with_jobs(cli, name)
    env = {"OCTOSTORE_LEASE_ID": lease} if way == "with the lease" else {}
    done = cli.run("hand-over", name, "--to", "bob", "--note", "the tests still fail", **env)
    assert (done.code, done.err) == (0, "")
    both = f"{cli.job}-0, {cli.job}-1"
    assert done.out.startswith(f"handed {name} over to bob, with {both}; bob must open the session before ")
    assert done.out.endswith(" UTC\n")

    assert row_of(cli, name).endswith(f"handed over to bob, not opened yet; {cli.job}-0, {cli.job}-1")
    waiting = cli.call("sessions", name).out.splitlines()
    assert waiting[0] == f"{name} was handed over to bob, who has not opened it yet: idle"
    assert waiting[1].startswith("  offered   ")
    assert "  note      the tests still fail" in waiting

    bob = cli.store.open_session("bob", session_id=name)
    assert sorted(job.job_id for job in bob.in_flight if job.is_ours) == [f"{cli.job}-0", f"{cli.job}-1"]
    assert row_of(cli, name).endswith(f"  {cli.job}-0, {cli.job}-1")
    assert [line[29:] for line in cli.call("events", "--session", name).out.splitlines()[3:]] == [
        f"{name}  ann handed its session over to bob (the tests still fail)",
        f"{cli.job}-0  ann handed it over to bob (the tests still fail)",
        f"{cli.job}-0  bob got it from ann, with the session",
        f"{cli.job}-1  ann handed it over to bob (the tests still fail)",
        f"{cli.job}-1  bob got it from ann, with the session",
        f"{name}  bob resumed its session",
    ]
    assert "ann released it after " in cli.call("owner", f"{cli.job}-0").out


def test_a_session_that_was_handed_over_is_lost(cli: Cli, name: str) -> None:
    lease = with_jobs(cli, name)
    assert cli.call("hand-over", name, "--to", "bob", "--lease-id", lease).code == 0
    assert cli.call("hand-over", name, "--to", "bob", "--lease-id", lease).code == 0, "repeating is not an error"
    refused = cli.call("hand-over", name, "--to", "eve", "--lease-id", lease, "--json")
    assert (refused.code, refused.json["code"]) == (20, "lease_lost")
    assert "'bob'" in refused.err
    assert lease not in refused.out + refused.err


def test_a_session_of_somebody_else_is_not_handed_over(server: ServerProcess) -> None:
    with octostore.connect(server.url, token=server.token) as store, store.open_session("ann") as session:
        env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.new_token("stranger", "claim")}
        done = run_cli("hand-over", session.session_id, "--to", "eve", "--json", **env)
        assert (done.code, done.json["code"]) == (64, "not_found")
        assert session.keepalive()


# Sessions that are late, or lost


@pytest.fixture(params=["file", "server"])
def hour_ago(request: pytest.FixtureRequest, clean: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The prefix of its sessions: they were opened on the file, and a server's operator is another principal."""

    def fill(store: octostore.OctoStore) -> None:
        store.open_session("ann", session_id="late", ttl=5_400)
        store.open_session("eve", session_id="lost", ttl=60)
        store.claim_job("import-17", owner="eve", session_id="lost")

    with store_of_an_hour_ago(request.param, clean, monkeypatch, fill):
        yield "" if request.param == "file" else "local/"


def test_a_session_that_is_late(hour_ago: str) -> None:
    (_, row) = run_cli("sessions").out.splitlines()
    assert row.startswith(f"{hour_ago}late  ")
    assert " ann    open    idle   1h" in row
    assert " ago (late)  29m" in row
    assert "\n  late      heartbeat 1h" in run_cli("sessions", f"{hour_ago}late").out


def test_a_session_that_is_lost(hour_ago: str) -> None:
    assert run_cli("recover").code == 0
    (_, row) = run_cli("sessions", "--status", "expired").out.splitlines()
    assert row.endswith("  in flight: import-17")
    assert "(late)" not in row
    output = run_cli("sessions", f"{hour_ago}lost").out
    assert output.startswith(f"eve disappeared with {hour_ago}lost: idle\n  ended     59m")
    assert "\n  in flight import-17\n" in output
    assert "lost  eve disappeared with its session: no heartbeat since " in output
    assert " (TTL 1m); noticed 59m" in output
