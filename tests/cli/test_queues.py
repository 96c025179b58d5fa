"""Queues, and what operators do with their jobs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from octostore.cli.commands import queues
from octostore.cli.console import Console
from octostore.core.replies import QueueFigures, QueueList, QueueRates
from tests.cli.conftest import Cli
from tests.support.cli import run_cli
from tests.support.server import ServerProcess


@pytest.fixture
def queue(cli: Cli) -> str:
    return cli.new_name("queue")


def test_a_job_through_its_queue(cli: Cli, queue: str) -> None:
    later = cli.run("enqueue", "review", "--queue", queue, "--payload", '{"pr": 77}', "--json")
    assert (later.code, later.err) == (0, "")
    assert (later.json["created"], later.json["status"], later.json["priority"]) == (True, "queued", 5)
    first = cli.run("enqueue", "build", "--queue", queue, "--job-id", cli.job, "--priority", "1")
    assert (first.code, first.out) == (0, f"enqueued {cli.job} in {queue}\n")

    claim = cli.run("next", queue, "--owner", "ann", "--ttl", "10m", "--json")
    assert (claim.code, claim.err) == (0, "")
    assert (claim.json["job_id"], claim.json["owner"], claim.json["ttl"]) == (cli.job, "ann", 600)
    reviewed = cli.run("next", queue, "--kind", "review")
    assert reviewed.code == 0
    assert 'payload    {"pr": 77}' in reviewed.out
    assert "kind       review" in reviewed.out

    empty = cli.run("next", queue, "--owner", "ann")
    summary, hint = empty.out.splitlines()
    assert (empty.code, summary.startswith(f"empty: nothing to claim in queue {queue} now: 2 claimed by ")) == (
        10,
        True,
    )
    assert hint.split("#")[0].split() == ["next", "octostore", "next", queue, "--wait", "5m"]
    reply = cli.json("next", queue, code=10)
    assert (reply["status"], reply["all_done"], reply["available_at"]) == ("empty", False, None)
    assert (reply["queue_status"]["claimed"], "ann" in reply["queue_status"]["owners"]) == (2, True)


def test_an_empty_queue_says_whether_all_is_done(cli: Cli, queue: str) -> None:
    never = cli.call("next", queue, "--wait")
    assert (never.code, never.out) == (
        10,
        f"empty: there are no jobs in queue {queue}, not even finished ones; check its name\n",
    )
    for name, outcome in ((cli.job, "done"), (cli.new_name("job"), "failed")):
        cli.store.enqueue("build", queue=queue, job_id=name, max_attempts=1)
        cli.store.release_job(name, cli.store.claim_next(queue).lease_id or "", outcome)  # type: ignore[arg-type]
    settled = cli.call("next", queue, "--wait")
    assert (settled.code, settled.out.splitlines()) == (
        10,
        [
            f"empty: every job in queue {queue} is done or dead: 1 done, 1 dead",
            f"  dead       octostore dead --queue {queue}",
        ],
    )
    assert cli.json("next", queue, code=10)["all_done"] is True
    assert "nothing of kind test is left" in cli.call("next", queue, "--kind", "test").out


def test_waiting_without_an_end(cli: Cli, queue: str) -> None:
    """It keeps waiting while others hold jobs."""
    cli.store.enqueue("build", queue=queue, job_id=cli.job)
    lease = cli.store.claim_next(queue).lease_id
    assert lease is not None
    with cli.start("next", queue, "--owner", "heir", "--wait", "--json") as waiting:
        cli.store.release_job(cli.job, lease)
        assert waiting.finish().json["owner"] == "heir"
    wrong = cli.call("next", "--wait", queue)
    assert wrong.code == 64
    assert "put the queue first" in wrong.err


def test_only_some_kinds(cli: Cli, queue: str) -> None:
    cli.store.enqueue("build", queue=queue)
    assert cli.call("next", queue, "--kind", "review").code == 10
    assert cli.json("next", queue, "--kind", "review", "--kind", "build")["kind"] == "build"


def test_the_lease_of_the_next_job_alone(cli: Cli, queue: str) -> None:
    assert cli.call("next", queue, "--lease").out == ""
    cli.store.enqueue("build", queue=queue, job_id=cli.job)
    assert cli.call("heartbeat", cli.job, "--lease-id", cli.call("next", queue, "--lease").out.strip()).code == 0


def test_a_job_that_was_enqueued_before(cli: Cli, queue: str) -> None:
    cli.store.enqueue("build", 1, queue=queue, job_id=cli.job)
    again = cli.run("enqueue", "build", "--queue", queue, "--job-id", cli.job, "--payload", "2")
    assert (again.code, again.out) == (
        0,
        f"{cli.job} already exists and is queued; nothing changed\n",
    )
    assert cli.json("enqueue", "build", "--job-id", cli.job)["created"] is False
    assert cli.store.get_job(cli.job).payload == 1


def test_a_job_for_later(cli: Cli, queue: str) -> None:
    assert cli.call("enqueue", "report", "--queue", queue, "--job-id", cli.job, "--in", "1h30m").code == 0
    assert cli.call("next", queue).code == 10
    delayed = cli.call("claim", cli.job)
    assert delayed.code == 11
    assert "in 1h 29m" in delayed.out
    owner = cli.call("owner", cli.job).out
    assert f"nobody has {cli.job}: it is queued in {queue}, available in 1h 29m" in owner
    at = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    dated = cli.json("enqueue", "report", "--queue", queue, "--run-at", at.isoformat())
    assert datetime.fromisoformat(dated["available_at"]) == at


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_a_payload_from_a_file_or_stdin(cli: Cli, queue: str, way: str, tmp_path: Path) -> None:
    if way == "file":
        (tmp_path / "payload.json").write_text("[1, 2]", encoding="utf-8")
        done = cli.run("enqueue", "sum", "--queue", queue, "--payload", f"@{tmp_path}/payload.json", "--json")
    else:
        done = cli.run("enqueue", "sum", "--queue", queue, "--payload", "-", "--json", stdin="[1, 2]")
    assert cli.store.get_job(done.json["job_id"]).payload == [1, 2]


def test_dead_jobs_and_back(cli: Cli, queue: str) -> None:
    cli.store.enqueue("import", queue=queue, job_id=cli.job, max_attempts=1)
    lease = cli.store.claim_job(cli.job, owner="ann").lease_id
    assert lease is not None
    cli.store.release_job(cli.job, lease, "failed", error="Traceback\n  File …\nOSError: no space left")

    dead = cli.run("dead", cli.job)
    assert (dead.code, dead.err) == (0, "")
    header, row, *_ = dead.out.splitlines()
    assert header.split() == ["JOB", "QUEUE", "KIND", "ATTEMPTS", "LAST", "CLAIM", "ERROR"]
    assert row.startswith(f"{cli.job}  {queue}  import  1/1 ")
    assert row.endswith("Traceback … OSError: no space left")
    assert [job["job_id"] for job in cli.json("dead", "--queue", queue)["jobs"]] == [cli.job]
    claim = cli.call("claim", cli.job)
    assert claim.code == 11
    assert f"octostore requeue {cli.job}" in claim.out

    requeued = cli.run("requeue", cli.job, "--reason", "the disk is larger now")
    assert (requeued.code, requeued.out) == (0, f"requeued {cli.job}: it is queued now\n")
    assert cli.json("dead", cli.job)["jobs"] == []
    assert cli.call("dead", cli.job).out == f"no dead jobs begin with {cli.job}\n"
    assert cli.call("dead", "--queue", queue).out == f"no dead jobs in queue {queue}\n"
    assert cli.call("dead", cli.job, "--queue", queue).out == f"no dead jobs in queue {queue} begin with {cli.job}\n"
    assert "requeued by" in cli.call("events", "--job", cli.job).out
    assert "the disk is larger now" in cli.call("events", "--job", cli.job).out


def test_a_dead_job_without_an_error_shows_how_it_ended(cli: Cli, queue: str) -> None:
    cli.store.enqueue("import", queue=queue, job_id=cli.job, max_attempts=1)
    cli.store.release_job(cli.job, cli.lease(), "failed")
    assert cli.run("dead", cli.job).out.splitlines()[1].endswith("  failed")
    assert "  error     failed\n" in cli.call("dead", cli.job, "--story").out
    assert f"dead {cli.job}: out of attempts or cancelled\n" in cli.call("claim", cli.job).out
    assert f"job '{cli.job}' is dead (out of attempts or cancelled)" in cli.call("run", cli.job, "--", "true").err
    cli.store.requeue(cli.job)
    cli.store.cancel(cli.job)
    assert cli.run("dead", cli.job).out.splitlines()[1].endswith("  cancelled")


def dead_letter(cli: Cli, queue: str, max_attempts: int = 1) -> None:
    cli.store.enqueue("import", {"customer": 72}, queue=queue, job_id=cli.job, max_attempts=max_attempts)
    for _ in range(max_attempts):
        cli.store.requeue(cli.job)  # now, and not after its backoff
        error = "Traceback\n  File …\nOSError: no space left"
        cli.store.release_job(cli.job, cli.lease(), "failed", error=error, note="look at the disk")


def test_the_story_of_a_dead_job_is_complete(cli: Cli, queue: str) -> None:
    dead_letter(cli, queue, max_attempts=2)
    done = cli.run("dead", cli.job, "--story")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:8] == [
        f"{cli.job} is dead: import in queue {queue}",
        "  attempts  2 of 2 used",
        "  error     Traceback",
        "              File …",
        "            OSError: no space left",
        '  payload   {"customer": 72}',
        "  note      look at the disk",
        "last attempts",
    ]
    assert done.out.count("ann failed after ") == 2
    assert [line[29:] for line in lines[lines.index("story") + 1 : -1]] == [
        f"enqueued in {queue} as import",
        "ann claimed it",
        "ann failed: Traceback … OSError: no space left (look at the disk); the job is back in its queue",
        "requeued by " + cli.store.whoami().name + "; 1 attempt used up",
        "ann claimed it (attempt 2)",
        "ann failed: Traceback … OSError: no space left (look at the disk); the job is dead now, after 2 attempts",
    ]


def test_a_drained_job_is_not_shown_as_out_of_attempts(cli: Cli, queue: str) -> None:
    cli.store.enqueue("import", queue=queue, job_id=cli.job)
    lease = cli.lease()
    cli.store.cancel(cli.job, reason="not needed", drain=True)
    cli.store.release_job(cli.job, lease)
    by = cli.store.whoami().name
    lines = cli.call("dead", cli.job, "--story").out.splitlines()
    assert [line[29:] for line in lines[lines.index("story") + 3 : -1]] == [
        f"{by} asked ann to stop (the job will then be cancelled): not needed",
        "ann released it; the job is dead now",
        f"cancelled by {by}: not needed",
    ]


def test_stories_of_dead_jobs_come_one_by_one(cli: Cli, queue: str) -> None:
    jobs = sorted(cli.store.enqueue("import", number, queue=queue).job_id for number in range(3))
    for job in jobs:
        cli.store.cancel(job)
    done = cli.call("dead", "--queue", queue, "--story", "--json")
    stories = [json.loads(line) for line in done.out.splitlines()]
    assert [story["job"]["job_id"] for story in stories] == jobs
    assert sorted(story["job"]["payload"] for story in stories) == [0, 1, 2]
    assert [[event["type"] for event in story["events"]] for story in stories] == [["enqueued", "cancelled"]] * 3
    assert cli.call("dead", "--queue", queue, "--story").out.count(" is dead: import in queue ") == 3
    unknown = cli.call("dead", cli.job, "--story")
    assert (unknown.code, unknown.out) == (0, "")
    assert unknown.err.startswith(f"octostore: nobody has ever claimed or enqueued {cli.job}")


@pytest.mark.parametrize(("options", "left"), [([], 2), (["--keep-attempts"], 1)])
def test_how_many_attempts_a_requeued_job_has(cli: Cli, queue: str, options: list[str], left: int) -> None:
    dead_letter(cli, queue, max_attempts=2)
    requeued = cli.json("requeue", cli.job, *options)
    assert (requeued["status"], requeued["attempts"]) == ("queued", 2 if options else 0)
    for _ in range(left):
        assert cli.store.get_job(cli.job).status == "queued"
        cli.store.requeue(cli.job)
        cli.store.release_job(cli.job, cli.lease(), "failed")
    assert cli.store.get_job(cli.job).status == "dead"


def test_a_requeued_job_does_not_wait_for_its_backoff(cli: Cli, queue: str) -> None:
    cli.store.enqueue("import", queue=queue, job_id=cli.job, delay=3_600)
    done = cli.call("requeue", cli.job)
    assert (done.code, done.out) == (0, f"requeued {cli.job}: it is queued now\n")
    assert cli.store.claim_next(queue, owner="ann").job_id == cli.job


def test_requeueing_a_job_that_can_be_claimed_changes_nothing(cli: Cli, queue: str) -> None:
    cli.store.enqueue("import", queue=queue, job_id=cli.job, payload={"page": 3})
    done = cli.call("requeue", cli.job)
    assert (done.code, done.out) == (0, f"{cli.job} is queued; nothing changed\n")


def test_a_discarded_job(cli: Cli, queue: str) -> None:
    dead_letter(cli, queue)
    done = cli.run("discard", cli.job, "--reason", "the customer has left")
    assert (done.code, done.out) == (0, f"discarded {cli.job}: it is free now\n")
    again = cli.call("discard", cli.job)
    assert (again.code, again.out) == (0, f"{cli.job} is free; nothing changed\n")  # repeating is not an error
    assert cli.json("dead", cli.job)["jobs"] == []
    events = cli.call("events", "--job", cli.job).out.splitlines()
    assert events[-1].endswith(f"  discarded by {cli.store.whoami().name}: the customer has left")
    assert cli.call("next", queue).code == 10


def test_a_job_that_is_not_dead_is_not_discarded(cli: Cli, queue: str) -> None:
    cli.store.enqueue("import", queue=queue, job_id=cli.job)
    refused = cli.call("discard", cli.job, "--json")
    assert (refused.code, refused.json["code"], refused.json["status"]) == (64, "conflict", "queued")
    assert "cancel it first" in refused.err


def test_a_cancelled_job(cli: Cli, queue: str) -> None:
    cli.store.enqueue("import", queue=queue, job_id=cli.job)
    done = cli.run("cancel", cli.job, "--reason", "no longer needed", "--json")
    assert (done.code, done.json["status"], done.json["error"]) == (0, "dead", "no longer needed")
    assert cli.call("next", queue).code == 10
    assert "no longer needed" in cli.call("dead", cli.job).out


def test_a_job_that_is_taken_away(cli: Cli) -> None:
    lease = cli.lease()
    done = cli.run("force-release", cli.job, "--reason", "its runner was shut down")
    assert (done.code, done.out) == (0, f"{cli.job} is free now, taken from ann\n")
    heartbeat = cli.call("heartbeat", cli.job, "--lease-id", lease)
    assert heartbeat.code == 20
    assert "its runner was shut down" in heartbeat.err
    assert "ann lost it (force-released) after " in cli.call("owner", cli.job).out
    again = cli.call("force-release", cli.job)
    assert (again.code, again.out) == (0, f"{cli.job} is free; nothing changed\n")


def test_a_job_that_is_cancelled_while_somebody_has_it(cli: Cli) -> None:
    lease = cli.lease()
    done = cli.run("cancel", cli.job, "--reason", "not needed")
    assert (done.code, done.out) == (0, f"{cli.job} is dead now, taken from ann\n")
    heartbeat = cli.call("heartbeat", cli.job, "--lease-id", lease)
    assert heartbeat.code == 20
    assert "(cancelled: 'not needed'); the job is dead" in heartbeat.err
    assert "ann lost it (cancelled) after " in cli.call("owner", cli.job).out
    assert "cancelled and taken from ann by " in cli.call("events", "--job", cli.job).out
    assert "None" not in cli.call("dead", cli.job).out
    assert f"{cli.job} is dead: never enqueued\n" in cli.call("dead", cli.job, "--story").out


@pytest.mark.parametrize(
    ("command", "then"), [(["stop"], ""), (["cancel", "--drain"], "; the job will be cancelled when ann stops")]
)
def test_an_owner_that_is_asked_to_stop(cli: Cli, command: list[str], then: str) -> None:
    lease = cli.lease()
    done = cli.call(*command, cli.job, "--reason", "going down")
    message = f"at its next heartbeat, ann will be asked to stop {cli.job}{then}\n"
    assert (done.code, done.out) == (0, message)
    assert "not delivered yet: going down" in cli.call("owner", cli.job).out
    heartbeat = cli.call("heartbeat", cli.job, "--lease-id", lease)
    assert heartbeat.code == 0
    assert heartbeat.out.splitlines()[1].endswith(" (going down); release the job once you have stopped")
    again = cli.call("stop", cli.job, "--reason", "another one")
    assert (again.code, again.out) == (0, f"ann was already asked to stop {cli.job} (going down); nothing changed\n")
    released = cli.call("release", cli.job, "--lease-id", lease, "--json")
    assert released.json["status"] == ("dead" if then else "free")
    story = cli.call("events", "--job", cli.job).out
    assert " asked ann to stop" in story
    assert "ann received the stop request" in story


@pytest.mark.parametrize("command", ["requeue", "cancel", "discard", "force-release", "stop"])
def test_a_token_that_may_only_claim_needs_admin(server: ServerProcess, command: str) -> None:
    environment = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.new_token("worker", "claim")}
    refused = run_cli(command, "deploy", **environment)
    assert refused.code == 77
    assert "this needs a token with the admin scope" in refused.err


@pytest.mark.parametrize("command", ["requeue", "cancel", "discard", "force-release", "stop"])
def test_an_unknown_job_is_not_found(cli: Cli, command: str) -> None:
    done = cli.run(command, cli.job, "--json")
    assert (done.code, done.json["code"]) == (64, "not_found")


@pytest.mark.parametrize(("command", "code"), [("requeue", 11), ("discard", 11)])
def test_a_claimed_job_is_a_conflict(cli: Cli, queue: str, command: str, code: int) -> None:
    cli.store.enqueue("import", queue=queue, job_id=cli.job)
    cli.lease()
    done = cli.call(command, cli.job, "--json")
    assert (done.code, done.json["code"], done.json["status"]) == (code, "conflict", "claimed")


def test_several_jobs_at_once(cli: Cli, queue: str) -> None:
    jobs = [cli.new_name("several") for _ in range(3)]
    for job in jobs[::2]:
        cli.store.enqueue("import", queue=queue, job_id=job)
    done = cli.run("cancel", *jobs)
    assert (done.code, done.out) == (64, f"{jobs[0]} is dead now\n{jobs[2]} is dead now\n")
    assert jobs[1] in done.err
    requeued = cli.call("requeue", *jobs, "--json")
    assert [line[:10] for line in requeued.out.splitlines()] == ['{"job_id":', '{"error":"', '{"job_id":']


def test_a_waiting_command_says_what_it_waits_for(cli: Cli, queue: str) -> None:
    cli.run("enqueue", "build", "--queue", queue)
    cli.run("next", queue, "--owner", "ann")
    waited = cli.run("next", queue, "--wait", "0.1")
    assert (waited.code, waited.err) == (
        10,
        f"octostore: waiting: nothing to claim in queue {queue} now: 1 claimed by ann\n",
    )
    assert cli.run("next", queue, "--wait", "0.1", "--json").err == ""
    assert cli.run("next", queue, "--wait", "1e9").code == 64


def test_the_next_owner_reads_the_whole_checkpoint(cli: Cli) -> None:
    cli.run("claim", cli.job, "--keep", "--owner", "ann", "--while-pid", "0")
    cli.run("checkpoint", cli.job, json.dumps({"next": "x" * 400}), "--owner", "ann")
    cli.run("release", cli.job, "--owner", "ann")
    assert json.dumps({"next": "x" * 400}) in cli.run("claim", cli.job, "--owner", "bob").out


def test_a_job_of_a_full_queue_claimed_by_name(cli: Cli, queue: str) -> None:
    for name in (cli.job, f"{cli.job}-2"):
        cli.store.enqueue("build", queue=queue, job_id=name)
    cli.call("queue", "set", queue, "--max-claimed", "1")
    cli.call("claim", cli.job)
    full = f"its queue {queue} is full: only 1 may be claimed at once"
    assert cli.call("claim", f"{cli.job}-2") == (11, f"delayed {cli.job}-2: {full}\n", "")
    assert cli.call("claim", f"{cli.job}-2", "--json").json["max_claimed"] == 1
    ran = cli.run("run", f"{cli.job}-2", "--", "true")
    assert (ran.code, full in ran.err) == (11, True)


def test_pausing_and_resuming_a_queue(cli: Cli, queue: str) -> None:
    cli.store.enqueue("build", queue=queue, job_id=cli.job)
    paused = cli.call("queue", "set", queue, "--pause", "--reason", "deploying", "--max-claimed", "3")
    assert paused.code == 0
    assert paused.out.startswith(f"queue {queue} is paused by ")
    assert paused.out.endswith(" (deploying), at most 3 claimed at once\n")
    empty = cli.call("next", queue)
    assert (empty.code, f"empty: queue {queue} is paused by " in empty.out) == (10, True)
    assert f"octostore queue set {queue} --resume" in empty.out
    delayed = cli.call("claim", cli.job)
    assert (delayed.code, f"its queue {queue} is paused by " in delayed.out) == (11, True)
    by = cli.store.whoami().name
    owner = cli.call("owner", cli.job)
    assert owner.out.startswith(
        f"nobody has {cli.job}: it is queued in {queue}; the queue is paused by {by} (deploying)\n"
    )
    assert f"  queue {queue}: paused by {by}, at most 3 claimed at once: deploying\n" in cli.call("events").out
    with cli.start("next", queue, "--owner", "heir", "--wait", "1m", "--json") as waiting:
        resumed = cli.json("queue", "set", queue, "--resume", "--max-claimed", "none")
        assert resumed == {"queue": queue, "max_claimed": None, "paused": False, "pause": None}
        assert waiting.finish().json["owner"] == "heir"


def test_the_log_says_who_limited_a_queue(cli: Cli, queue: str) -> None:
    cli.store.enqueue("build", queue=queue)
    for limit in ("2", "none"):
        done = cli.call("queue", "set", queue, "--max-claimed", limit)
        assert (done.out, done.err) == (
            f"queue {queue} is open{', at most 2 claimed at once' if limit == '2' else ''}\n",
            "",
        )
    by = cli.store.whoami().name
    lines = [line[27:] for line in cli.call("events").out.splitlines() if f"  queue {queue}: " in line]
    assert lines == [f"  queue {queue}: limited to 2 at once by {by}", f"  queue {queue}: limit lifted by {by}"]


def test_a_mistyped_queue_is_noticed(cli: Cli, queue: str) -> None:
    cli.store.enqueue("build", queue=queue)
    wrong = cli.call("queue", "set", f"{queue}s", "--pause")
    assert (wrong.code, wrong.out.startswith(f"queue {queue}s is paused by ")) == (0, True)
    # Queues of other tests may have similar names; the closest comes first.
    assert wrong.err.startswith(f"octostore: queue {queue}s has no jobs yet; did you mean {queue}")
    assert cli.call("queue", "set", "nosuch", "--resume").err == (
        "octostore: queue nosuch has no jobs yet; check its name\n"
    )
    assert cli.call("queue", "set", f"{queue}s", "--pause", "--json").err == ""


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "queue set needs --pause, --resume or --max-claimed"),
        (["--max-claimed", "0"], "'0' is not a limit; use a whole number of at least 1, or none"),
        (["--pause", "--resume"], "not allowed with argument"),
    ],
)
def test_invalid_settings_are_refused(cli: Cli, queue: str, options: list[str], problem: str) -> None:
    wrong = cli.call("queue", "set", queue, *options)
    assert (wrong.code, problem in wrong.err) == (64, True), wrong
    if "usage:" in wrong.err:
        assert "usage: octostore queue set QUEUE [options]\n" in wrong.err
        assert "(see `octostore queue set --help`)" in wrong.err


def test_all_queues_in_a_table(cli: Cli, queue: str) -> None:
    for number in range(2):
        cli.store.enqueue("build", queue=queue, job_id=f"{cli.job}-{number}")
    cli.store.claim_next(queue)
    cli.store.set_queue(queue, paused=True, reason="deploying")
    listed = cli.json("queues")
    (figures,) = [one for one in listed["queues"] if one["queue"] == queue]
    assert (figures["ready"], figures["claimed"], figures["paused"], sum(figures["rates"]["enqueued"])) == (
        1,
        1,
        True,
        2,
    )
    table = cli.call("queues")
    (row,) = [line for line in table.out.splitlines() if line.startswith(f"{queue} ")]
    assert row.split()[:2] == [queue, "1"]
    assert row.endswith("(deploying)")
    assert "ENQUEUED, FINISHED and FAILED: in the last 10 minutes\ncounted " in table.out


def test_rates_are_of_the_last_ten_minutes_or_as_far_as_the_log_was_read() -> None:
    now = datetime.now(UTC)
    rates = QueueRates(enqueued=[7] * 50 + [2] * 10, done=[1] * 60, failed=[9] * 50 + [0] * 10)
    nothing: dict[str, Any] = dict.fromkeys(("ready", "later", "claimed", "dead", "done"), 0)
    nothing |= dict.fromkeys(("available_at", "max_claimed", "last_claim_at"))
    figures = QueueFigures(queue="builds", all_done=True, owners=[], counted_to=10_000, rates=rates, **nothing)
    listed = QueueList(
        queues=[figures],
        more=False,
        counted_at=now,
        counted_to=10_000,
        rates_since=now - timedelta(minutes=59),
        bucket_seconds=60,
    )
    header, row, span, _ = queues._lines(listed, Console(is_json=False))
    assert (header.split()[7:10], row.split()) == (["ENQUEUED", "FINISHED", "FAILED"], ["builds", "20", "10"])
    assert span == "ENQUEUED, FINISHED and FAILED: in the last 10 minutes"
    busy = msgspec.structs.replace(listed, rates_since=now - timedelta(minutes=4))
    assert [*queues._lines(busy, Console(is_json=False))][2].endswith(": in the last 4m")
