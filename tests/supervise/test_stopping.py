"""Commands whose owner is asked to stop, or whose job is cancelled under them."""

import json
from pathlib import Path

import octostore as library
from tests.supervise.test_work import by_job, enqueue
from tests.support.processes import until
from tests.support.running import FOREVER, UNTIL_STOPPED, Octostore, types_of
from tests.support.survivors import Survivor

OBEDIENT = f"trap 'echo asked > $OCTOSTORE_JOB; exit 0' TERM; echo > $OCTOSTORE_JOB-ready; {UNTIL_STOPPED}"
"""Like many programs, it stops cleanly and exits with 0."""
ASKED = ["claimed", "stop_requested", "stop_delivered", "released"]


def test_a_command_is_stopped_on_request(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    stubborn = Survivor(tmp_path / "survivor", "ignoring")
    options = ["--ttl", "6", "--json"]
    runs = {
        "obedient": octostore.start("run", "obedient", "--once", *options, "--", "bash", "-c", OBEDIENT),
        "drained": octostore.start("run", "drained", *options, "--", "bash", "-c", OBEDIENT),
        "stubborn": octostore.start("run", "stubborn", "--stop-grace", "0.2", *options, "--", *stubborn.command),
    }
    stubborn.started()
    until(lambda: all((tmp_path / f"{job}-ready").exists() for job in ("obedient", "drained")))
    store.request_stop("obedient", reason="going down")
    store.request_stop("stubborn")
    assert store.cancel("drained", reason="not needed", drain=True).status == "claimed"
    done = {job: run.wait() for job, run in runs.items()}
    # Its own exit code says success, but it was stopped: `run` and the job must say so.
    assert {job: one.code for job, one in done.items()} == {"obedient": 124, "drained": 124, "stubborn": 137}
    assert (tmp_path / "obedient").read_text() == "asked\n"
    assert not stubborn.is_alive()
    assert "stopping obedient: asked to stop (going down)" in done["obedient"].err
    ran = json.loads(done["obedient"].out)
    assert (ran["is_lost"], ran["outcome"], ran["why"]) == (False, "released", "asked to stop (going down)")
    job = store.get_job("obedient")
    assert (job.status, job.attempts, job.note) == (
        "free",
        0,
        "the command was stopped: asked to stop (going down)",
    )
    assert [types_of(store, job) for job in ("obedient", "stubborn")] == [ASKED, ASKED]
    assert types_of(store, "drained") == [*ASKED, "cancelled"]
    assert (store.get_job("drained").status, store.get_job("drained").error) == ("dead", "not needed")


def test_a_worker_whose_command_is_stopped_continues_with_the_next_job(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    """And does not start the job again that was just stopped."""
    command = by_job(tmp_path, stopped=OBEDIENT, drained=OBEDIENT, cancelled=OBEDIENT, last="echo done")
    enqueue(store, "stopped", "drained", "cancelled", "last", max_attempts=1)
    work = octostore.start("work", "queue", "--until-empty", "--ttl", "6", "--", *command)
    until((tmp_path / "stopped-ready").exists)
    store.request_stop("stopped", reason="too much memory")
    until((tmp_path / "drained-ready").exists)
    store.cancel("drained", drain=True)
    until((tmp_path / "cancelled-ready").exists)
    store.cancel("cancelled", reason="not needed")
    done = work.wait()
    assert done.code == 0
    assert "stopping stopped: asked to stop (too much memory)" in done.err
    assert "UTC (cancelled: 'not needed')" in done.err
    jobs = {name: store.get_job(name) for name in ("stopped", "drained", "cancelled", "last")}
    assert {name: job.status for name, job in jobs.items()} == {
        "stopped": "queued",
        "drained": "dead",
        "cancelled": "dead",
        "last": "done",
    }
    stopped = jobs["stopped"]
    assert (stopped.attempts, stopped.last_outcome) == (0, "deferred")
    assert stopped.note is not None
    assert "too much memory" in stopped.note
    assert stopped.available_at is not None
    ended = stopped.previous[0].ended_at
    assert (stopped.available_at - ended).total_seconds() == 60


def test_the_command_of_a_cancelled_job_is_killed(octostore: Octostore, store: library.OctoStore) -> None:
    run = octostore.start("run", "job", "--ttl", "6", "--", "sleep", FOREVER)
    until(lambda: store.get_job("job").status == "claimed")
    store.cancel("job", reason="wrong machine")
    done = run.wait()
    assert done.code == 20
    assert "UTC (cancelled: 'wrong machine')" in done.err
    assert types_of(store, "job") == ["claimed", "cancelled"]


def test_the_first_reason_for_stopping_a_command_counts(octostore: Octostore, store: library.OctoStore) -> None:
    """The outcome must not depend on what else happens while the command is being stopped."""
    stubborn = ["--stop-grace", "3", "--", "bash", "-c", f"trap '' TERM; {UNTIL_STOPPED}"]
    runs = {
        job: octostore.start("run", job, "--max-silence", "1", "--max-run", seconds, *stubborn)
        for job, seconds in (("asked", "3"), ("timed", "0.2"))
    }
    until(lambda: store.get_job("asked").status == "claimed")
    store.request_stop("asked", reason="going down")
    until(lambda: "(--max-run)" in runs["timed"].err)
    store.request_stop("timed", reason="going down")
    for job, run in runs.items():
        first, *others = [line for line in run.wait().err.splitlines() if "stuck" not in line]
        assert others == []
        outcome = "released" if "asked to stop (going down)" in first else "failed"
        assert store.get_job(job).last_outcome == outcome
