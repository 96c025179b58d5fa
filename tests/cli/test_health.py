"""Whether the work gets done, for people and for monitors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore
from octostore.core.health import judge
from octostore.core.replies import Figures
from tests.cli.conftest import Cli, store_of_an_hour_ago
from tests.support.cli import run_cli
from tests.support.server import ServerProcess


@pytest.fixture(params=["file", "server"])
def hour_ago(request: pytest.FixtureRequest, clean: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fill(store: octostore.OctoStore) -> None:
        store.enqueue("import", job_id="waits")
        store.enqueue("import", job_id="is-dead")
        store.cancel("is-dead")
        session = store.open_session("ann", session_id="main", ttl=5_400)
        store.claim_job("bound", owner="ann", session_id="main")
        session.save({}, phase="executing")

    with store_of_an_hour_ago(request.param, clean, monkeypatch, fill):
        yield


@pytest.mark.usefixtures("hour_ago")
def test_work_that_does_not_get_done() -> None:
    done = run_cli("health")
    assert (done.code, done.err) == (12, "")
    verdict, waits, *lines = done.out.splitlines()
    assert verdict == "unhealthy"
    assert waits.startswith("  a job has been waiting for 3,6"), "the worst comes first"
    assert lines[:2] == ["  1 claim is late with heartbeats", "  1 dead job needs attention"]
    assert lines[2:7] == [
        f"queued     1, the oldest waiting for {lines[2].rpartition(' for ')[2]}",
        "running    1, of which 1 late",
        "dead       1",
        "lost       0 claims in the last hour",
        "sessions   1",
    ]
    header, row = lines[-2:]
    assert header.split() == ["SESSION", "AGENT", "PHASE", "HEARTBEAT", "JOBS"]
    assert row.split()[:3] in (["main", "ann", "executing"], ["local/main", "ann", "executing"])
    assert row.endswith(" ago (late)  bound")


@pytest.mark.usefixtures("hour_ago")
def test_health_for_scripts() -> None:
    done = run_cli("health", "--json")
    assert done.code == 12
    health = done.json
    assert (health["status"], len(health["reasons"])) == ("unhealthy", 3)
    assert (health["queued"], health["running"], health["late"], health["dead"]) == (1, 1, 1, 1)
    assert health["oldest_waiting_seconds"] >= 3_600
    assert health["takeovers_last_hour"] == 0
    (session,) = health["sessions"]
    assert (session["session_id"], session["phase"], session["is_late"]) == ("main", "executing", True)
    assert session["heartbeat_age_seconds"] >= 3_600


@pytest.mark.usefixtures("hour_ago")
@pytest.mark.parametrize(
    ("options", "status", "code"),
    [
        ("--fail-on never", "unhealthy", 0),
        ("--fail-on degraded", "unhealthy", 12),
        ("--oldest 1h,1d", "degraded", 0),
        ("--oldest 1h,1d --fail-on degraded", "degraded", 12),
        ("--oldest 5m", "degraded", 0),
        ("--oldest , --dead ,1", "unhealthy", 12),
        ("--oldest , --dead , --late ,", "ok", 0),
        ("--oldest , --dead 2 --late 2 --takeovers 1 --queued 2 --fail-on degraded", "ok", 0),
        ("--oldest , --dead 2 --late 2 --queued 1,2", "degraded", 0),
    ],
)
def test_thresholds(options: str, status: str, code: int) -> None:
    done = run_cli("health", "--json", *options.split())
    assert (done.json["status"], done.code) == (status, code)
    assert (done.json["reasons"] == []) == (status == "ok")


@pytest.mark.usefixtures("hour_ago")
def test_several_are_counted_in_the_plural() -> None:
    for number in range(2):
        run_cli("enqueue", "import", "--job-id", f"new-{number}")
    run_cli("cancel", "new-0")
    assert run_cli("health", "--queued", "1", "--json").json["reasons"][1:] == [
        "2 jobs are waiting",
        "1 claim is late with heartbeats",
        "2 dead jobs need attention",
    ]


@pytest.mark.usefixtures("empty_store")
def test_a_store_where_nothing_is_wrong() -> None:
    done = run_cli("health")
    assert done == (
        0,
        "ok\nqueued     0\nrunning    0\ndead       0\nlost       0 claims in the last hour\nsessions   0\n",
        "",
    )


def test_lost_claims_are_counted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losing a claim takes time, so this pretends that it happened."""
    monkeypatch.setattr("octostore.client.reader.judge", lambda figures, *more: judge(_with_losses(figures), *more))
    health = cli.json("health", "--takeovers", "7", "--oldest", ",", "--fail-on", "never")
    assert health["takeovers_last_hour"] == 7
    assert "7 claims expired or were taken away in the last hour" in health["reasons"]
    assert "lost       7 claims in the last hour\n" in cli.call("health", "--fail-on", "never").out


def _with_losses(figures: Figures) -> Figures:
    fields = {name: getattr(figures, name) for name in figures.__struct_fields__}
    return Figures(**{**fields, "taken_back": 7})


def test_a_limited_token_may_not_see_it(server: ServerProcess) -> None:
    env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.new_token("one", "read", prefix="mine-")}
    done = run_cli("health", "--json", **env)
    assert (done.code, done.json["code"]) == (77, "not_allowed")


def test_a_store_that_cannot_be_reached_is_not_unhealthy() -> None:
    done = run_cli("health", OCTOSTORE_HOME="/proc/nowhere")
    assert (done.code, done.out) == (69, "")


def test_doctor_says_which_store_it_is(cli: Cli) -> None:
    findings = {check["name"]: check["finding"] for check in cli.json("doctor")["checks"]}
    assert findings["id"] == f"the store's id is {cli.store.figures().store_id}"
