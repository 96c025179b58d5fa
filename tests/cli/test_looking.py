"""Who has what, since when, and what happened."""

import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import octostore
from octostore.cli import words
from tests.cli.conftest import Cli, store_of_an_hour_ago
from tests.support.cli import run_cli
from tests.support.processes import until


def test_an_owner_that_is_alive(cli: Cli) -> None:
    lease = cli.lease(metadata={"branch": "fix"}, ttl=600)
    cli.store.heartbeat_job(cli.job, lease, progress="running tests", percent=40)
    done = cli.run("owner", cli.job)
    assert (done.code, done.err) == (0, "")
    first, alive, since, where, doing, metadata, *_commands = done.out.splitlines()
    assert first == f"ann has {cli.job}"
    assert alive.startswith("  alive     heartbeat ")
    assert alive.endswith(" left")
    assert "attempt 1, fencing token " in since
    assert where == f"  where     on {os.uname().nodename}, process {os.getpid()}"
    assert doing.startswith("  doing     40% running tests (")
    assert metadata == '  metadata  {"branch": "fix"}'
    assert lease not in done.out


def test_owner_ends_with_the_command_line_that_takes_the_job_away(cli: Cli) -> None:
    lease = cli.lease()
    *_, why, gentle, command = cli.run("owner", cli.job).out.splitlines()
    assert why.startswith("to ask the owner to stop, or to take the job away")
    assert cli.call(*shlex.split(gentle)[1:]).code == 0
    owner = cli.store.get_job_owner(cli.job)
    assert owner is not None
    assert owner.stop_requested is not None
    assert ("admin" in why) == os.environ.get("OCTOSTORE_URL", "").startswith("http")
    octostore_, *arguments = shlex.split(command)
    assert octostore_ == "octostore"
    assert cli.run(*arguments).code == 0
    assert cli.store.get_job_owner(cli.job) is None
    with pytest.raises(octostore.LeaseLost, match="taken away by an operator"):
        cli.store.heartbeat_job(cli.job, lease)


def test_that_command_line_names_the_store_if_it_had_to_be_named(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other store.db"
    with octostore.connect(url) as store:
        store.claim_job("deploy")
    *_, command = cli.call("owner", "deploy", "--url", url).out.splitlines()
    assert cli.call(*shlex.split(command)[1:]).code == 0
    assert "nobody has deploy" in cli.call("owner", "deploy", "--url", url).out


def test_an_owner_that_has_disappeared(cli: Cli) -> None:
    cli.lease(ttl=1)
    time.sleep(1.1)
    done = cli.run("owner", cli.job)
    first, before, ended, _hint = done.out.splitlines()
    assert (first, before) == (f"nobody has {cli.job}: it is free", "before")
    assert "ann disappeared after " in ended
    cli.lease(owner="bob")
    assert "ann disappeared after " in cli.call("owner", cli.job).out
    events = cli.call("events", "--job", cli.job).out
    assert "ann disappeared: no heartbeat since " in events
    assert " (TTL 1s)" in events
    assert "bob took over from ann" in events
    assert cli.json("owner", cli.job)["previous"][0]["how"] == "expired"


def test_a_job_that_nobody_has_had(cli: Cli) -> None:
    done = cli.run("owner", cli.job, "--json")
    assert (done.code, done.json["status"], done.json["owner"]) == (0, "free", None)
    assert cli.call("owner", cli.job).out.startswith(f"nobody has ever claimed or enqueued {cli.job}")


def test_a_checkpoint_is_shown(cli: Cli) -> None:
    """People see as much as fits; --json shows all of it."""
    small, large = {"step": 3}, {"files": [f"file-{number}" for number in range(300)]}
    lease = cli.lease()
    for checkpoint in (small, large):
        cli.store.checkpoint_job(cli.job, lease, checkpoint)
        assert cli.json("owner", cli.job)["checkpoint"] == checkpoint
        (shown,) = (line for line in cli.call("owner", cli.job).out.splitlines() if line.startswith("  checkpoint "))
        assert (shown == '  checkpoint {"step": 3}') == (checkpoint is small)
    assert shown.startswith('  checkpoint {"files": ["file-0", ')
    assert shown.endswith(f"… ({len(json.dumps(large, separators=(',', ':'))):,} bytes; --json shows all of it)")
    cli.store.release_job(cli.job, lease)
    assert "  checkpoint " in cli.call("owner", cli.job).out
    assert f"bytes; `octostore owner {cli.job} --json` shows all of it" in cli.call("claim", cli.job).out


def test_a_finished_job(cli: Cli) -> None:
    cli.store.release_job(cli.job, cli.lease(), "done", result={"pr": 77})
    out = cli.call("owner", cli.job).out
    assert f"nobody has {cli.job}: it is done\n" in out
    assert 'result    {"pr": 77}' in out
    assert "ann finished it after " in out


def test_the_list_of_claimed_jobs(cli: Cli) -> None:
    prefix = cli.new_name("list")
    assert cli.run("list", prefix).out == f"no claimed jobs that begin with {prefix}\n"
    lease = cli.lease(f"{prefix}-b", owner="bob")
    cli.store.heartbeat_job(f"{prefix}-b", lease, progress="testing", percent=50)
    cli.lease(f"{prefix}-a")
    cli.store.enqueue("build", job_id=f"{prefix}-c")
    done = cli.run("list", prefix)
    assert (done.code, done.err) == (0, "")
    header, first, second = done.out.splitlines()
    assert header.split() == ["JOB", "OWNER", "SINCE", "HEARTBEAT", "LEFT", "PROGRESS", "ATTEMPT"]
    assert first.split()[:2] == [f"{prefix}-a", "ann"]
    assert second.split()[:2] == [f"{prefix}-b", "bob"]
    assert re.search(r"  50% testing \((just now|\d+s ago)\)  1$", second), second
    assert lease not in done.out


def test_the_list_of_other_jobs(cli: Cli) -> None:
    prefix, queue = cli.new_name("list"), cli.new_name("queue")
    for name in "abc":
        cli.store.enqueue("build", job_id=f"{prefix}-{name}", queue=queue)
    cli.store.release_job(f"{prefix}-a", cli.lease(f"{prefix}-a"), "done")
    assert [job["job_id"] for job in cli.json("list", prefix, "--status", "queued")["jobs"]] == [
        f"{prefix}-b",
        f"{prefix}-c",
    ]
    assert len(cli.json("list", "--status", "all", "--queue", queue)["jobs"]) == 3
    out = cli.call("list", prefix, "--status", "all").out
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["done", "queued", "queued"]
    page = cli.json("list", prefix, "--status", "all", "--limit", "2")
    assert (len(page["jobs"]), page["cursor"]) == (2, f"{prefix}-b")
    assert "… and more; raise --limit to see them" in cli.call("list", prefix, "--status", "all", "--limit", "2").out


def test_the_jobs_of_a_queue_in_the_order_in_which_they_will_run(cli: Cli) -> None:
    queue = cli.new_name("queue")
    names = {what: cli.new_name(f"{number}-{what}") for number, what in enumerate(("held", "later", "ready", "first"))}
    cli.store.enqueue("build", job_id=names["held"], queue=queue)
    cli.store.claim_next(queue, owner="ann")
    cli.store.enqueue("build", job_id=names["later"], queue=queue, run_at=words.now() + timedelta(hours=2))
    cli.store.enqueue("test", job_id=names["ready"], queue=queue)
    cli.store.enqueue("build", job_id=names["first"], queue=queue, priority=1, max_attempts=3)
    done = cli.run("list", "--queue", queue)
    assert (done.code, done.err) == (0, "")
    header, *rows = (line.split() for line in done.out.splitlines())
    assert header == ["JOB", "STATUS", "DUE", "PRIORITY", "ATTEMPTS", "AGE", "KIND", "OWNER"]
    assert [row[0] for row in rows] == [names[what] for what in ("first", "ready", "later", "held")]
    assert rows[0][1:5] == ["queued", "now", "1", "0/3"]
    assert rows[2][1:4] == ["queued", "in", "1h"]
    assert (rows[3][1], rows[3][3], rows[3][-1]) == ("claimed", "0/5", "ann")
    assert [job["job_id"] for job in cli.json("list", "--queue", queue)["jobs"]] == [row[0] for row in rows]
    assert len(cli.json("list", "--queue", queue, "--status", "claimed")["jobs"]) == 1
    part = cli.json("list", "--queue", queue, "--limit", "3")
    rest = cli.store.list_jobs(queue=queue, order="run", cursor=part["cursor"])
    assert [job.job_id for job in rest.jobs] == [names["held"]]


def test_the_jobs_of_an_owner_or_a_kind(cli: Cli) -> None:
    prefix, owner = cli.new_name("list"), cli.new_name("owner")
    cli.store.enqueue("rare", job_id=f"{prefix}-a", queue=prefix)
    cli.lease(f"{prefix}-b", owner=owner)
    assert [job["job_id"] for job in cli.json("list", "--owner", owner)["jobs"]] == [f"{prefix}-b"]
    assert [job["job_id"] for job in cli.json("list", "--queue", prefix, "--kind", "rare")["jobs"]] == [f"{prefix}-a"]
    nothing = cli.call("list", "--queue", prefix, "--kind", "build", "--owner", owner).out
    assert nothing.startswith(f"owner {owner} has no jobs of kind build in queue {prefix}\n")
    assert cli.call("list", "--owner", "nobody").out == "owner nobody has no claimed jobs\n"
    assert cli.call("list", "--owner", owner, "--status", "done").out.splitlines() == [
        f"owner {owner} has no done jobs",
        f"  next       octostore list --owner {owner}    # only claimed jobs have an owner",
    ]


def test_a_queue_without_jobs_says_what_to_type(cli: Cli) -> None:
    queue = cli.new_name("queue")
    assert cli.call("list", "--queue", queue).out.splitlines() == [
        f"no jobs in queue {queue}",
        f"  next       octostore enqueue KIND --queue {queue}",
    ]
    assert f"octostore list --queue {queue}" in cli.call("list", "--queue", queue, "--status", "dead").out


def test_a_list_of_several_pages(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octostore.cli.commands.list.PAGE_MAX", 3)
    prefix = cli.new_name("pages")
    names = [f"{prefix}-{number}" for number in range(8)]
    for name in names:
        cli.store.enqueue("build", job_id=name, queue=prefix)
    whole = cli.json("list", prefix, "--status", "all", "--limit", "5000")
    assert ([job["job_id"] for job in whole["jobs"]], whole["cursor"]) == (names, None)
    part = cli.json("list", prefix, "--status", "all", "--limit", "5")
    assert ([job["job_id"] for job in part["jobs"]], part["cursor"]) == (names[:5], names[4])


def test_a_list_that_is_watched(cli: Cli) -> None:
    prefix = cli.new_name("watch")
    with cli.start("list", prefix, "--watch", "--interval", "0.1", "--json") as watching:
        assert json.loads(watching.line()) == {"jobs": [], "cursor": None}
        claim = cli.run("claim", f"{prefix}-a", "--owner", "ann", "--json").json
        assert json.loads(watching.line())["jobs"][0]["owner"] == "ann"
        assert cli.run("heartbeat", f"{prefix}-a", "--progress", "x", OCTOSTORE_LEASE_ID=claim["lease_id"]).code == 0
        assert json.loads(watching.line())["jobs"][0]["claim"]["progress"]["note"] == "x"
        assert watching.interrupt() == (130, "", "")


def test_a_list_that_is_watched_without_json(cli: Cli) -> None:
    prefix = cli.new_name("watch")
    with cli.start("list", prefix, "--watch", "--interval", "0.1") as watching:
        assert watching.line() == f"no claimed jobs that begin with {prefix}"
        cli.lease(f"{prefix}-a")
        assert watching.line() == ""
        assert watching.line().startswith("JOB ")
        assert watching.line().startswith(f"{prefix}-a  ann  ")
        assert watching.interrupt().code == 130


def test_what_happened(cli: Cli) -> None:
    lease = cli.lease()
    cli.store.release_job(cli.job, lease, "failed", error="no disk")
    cli.store.release_job(cli.job, cli.lease(owner="bob"), "done", result=1)
    done = cli.run("events", "--job", cli.job)
    assert (done.code, done.err) == (0, "")
    sentences = [line.partition(f"  {cli.job}  ")[2] for line in done.out.splitlines()]
    assert sentences == ["ann claimed it", "ann failed: no disk", "bob claimed it (attempt 2)", "bob finished it"]
    page = cli.json("events", "--prefix", cli.job)
    assert [event["type"] for event in page["events"]] == ["claimed", "failed", "claimed", "done"]
    seqs = [event["seq"] for event in page["events"]]
    assert page["after"] == seqs[-1]
    rest = cli.json("events", "--job", cli.job, "--after", str(seqs[1]))
    assert [event["seq"] for event in rest["events"]] == seqs[2:]
    assert len(cli.json("events", "--job", cli.job, "--limit", "1")["events"]) == 1
    assert lease not in done.out + json.dumps(page)


def test_nothing_happened(cli: Cli) -> None:
    done = cli.run("events", "--job", cli.job)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(f"octostore: nobody has ever claimed or enqueued {cli.job}")
    assert cli.json("events", "--job", cli.job, "--after", "0") == {"events": [], "after": 0}


@pytest.mark.parametrize("form", ["json", "text"])
def test_events_are_followed(cli: Cli, form: str) -> None:
    cli.lease()
    with cli.start("events", "--job", cli.job, "--follow", *(["--json"] if form == "json" else [])) as following:
        first = following.line()
        assert cli.run("force-release", cli.job, "--reason", "enough").code == 0
        second = following.line()
        if form == "json":
            assert [json.loads(line)["type"] for line in (first, second)] == ["claimed", "force_released"]
        else:
            assert first.endswith(f"{cli.job}  ann claimed it")
            assert second.endswith(": enough")
        assert following.interrupt() == (130, "", "")


def test_a_limited_number_of_events_is_followed(cli: Cli) -> None:
    cli.store.release_job(cli.job, cli.lease())
    done = cli.run("events", "--job", cli.job, "--follow", "--limit", "2", "--json")
    assert [json.loads(line)["type"] for line in done.out.splitlines()] == ["claimed", "released"]


@pytest.fixture(params=["file", "server"])
def hour_ago(request: pytest.FixtureRequest, clean: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two leases have expired since, which is not in the log yet, and one will soon."""

    def fill(store: octostore.OctoStore) -> None:
        store.enqueue("build", job_id="queued")
        store.claim_job("queued", owner="ann", ttl=60)
        store.claim_job("plain", owner="bob", ttl=120)
        store.claim_job("late", owner="eve", ttl=5_400)
        store.claim_job("stuck", owner="dan", ttl=86_400, max_silence=600)

    with store_of_an_hour_ago(request.param, clean, monkeypatch, fill):
        yield


@pytest.mark.usefixtures("hour_ago")
def test_an_owner_that_is_late() -> None:
    output = run_cli("owner", "late").out
    assert re.search(r"\n  late      heartbeat 1h.* ago, 29m.* left; then the job is free\n", output), output
    assert " ago (late)" in run_cli("list", "late").out


@pytest.mark.usefixtures("hour_ago")
def test_an_owner_that_is_stuck() -> None:
    output = run_cli("owner", "stuck").out
    assert re.search(r"\n  stuck     no progress for 1h.* \(limit 10m\); heartbeat 1h.* ago, 22h.* left\n", output), (
        output
    )
    assert re.search(r" ago \(stuck\)  .*  none for 1h.*, limit 10m  1\n", run_cli("list", "stuck").out)
    assert run_cli("health", "--late", ",", "--fail-on", "degraded", "--stuck", "1").code == 12
    health = run_cli("health").out
    assert "1 owner is stuck: alive, but making no progress" in health
    assert ", of which 1 late and 1 stuck\n" in health
    with octostore.connect() as store:
        claim = store.claim_job("other", owner="dan", max_silence=1)
        until(lambda: store.heartbeat_job("other", claim.lease_id or "").stuck)
    assert "dan is stuck: alive, but no progress since " in run_cli("events", "--job", "other").out


@pytest.mark.usefixtures("hour_ago")
@pytest.mark.parametrize("form", ["json", "text"])
def test_expired_jobs_are_recovered(form: str) -> None:
    done = run_cli("recover", *(["--json"] if form == "json" else []))
    assert (done.code, done.err) == (0, "")
    if form == "json":
        assert done.json["is_complete"] is True
        taken = {one["job_id"]: (one["owner"], one["ttl"], one["status"]) for one in done.json["recovered"]}
        assert taken == {"queued": ("ann", 60, "queued"), "plain": ("bob", 120, "free")}
    else:
        header, *rows = done.out.splitlines()
        assert header.split() == ["JOB", "OWNER", "LAST", "HEARTBEAT", "TTL", "EXPIRED", "NOW"]
        (queued,) = (row.split() for row in rows if row.startswith("queued"))
        assert (queued[1], queued[-1]) == ("ann", "queued")
        assert "59m" in queued or "58m" in queued
    assert run_cli("recover").out == "no expired leases; nothing to recover\n"
    assert "ann disappeared: no heartbeat since " in run_cli("events", "--job", "queued").out


def test_recover_reports_nothing_twice(cli: Cli) -> None:
    """A real server may have been quicker."""
    cli.lease(ttl=1)
    time.sleep(1.1)
    taken = [one for one in cli.run("recover", "--json").json["recovered"] if one["job_id"] == cli.job]
    assert len(taken) <= 1
    assert [event["type"] for event in cli.json("events", "--job", cli.job)["events"]] == ["claimed", "expired"]
    assert cli.job not in [one["job_id"] for one in cli.json("recover")["recovered"]]
