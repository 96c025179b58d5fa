"""`octostore work`: a command for each job of a queue."""

import json
import os
import re
import signal
import time
from itertools import accumulate
from pathlib import Path

import octostore as library
from tests.support.processes import until
from tests.support.running import FOREVER, UNTIL_GO, Octostore, children_of, is_alive
from tests.support.survivors import Survivor

RESULT_BYTES = 65_536


def enqueue(store: library.OctoStore, *job_ids: str, max_attempts: int = 5) -> None:
    for job_id in job_ids:
        store.enqueue("kind", {"for": job_id}, job_id=job_id, queue="queue", max_attempts=max_attempts)


def by_job(tmp_path: Path, **scripts: str) -> tuple[str, ...]:
    """A command that runs a different script for each job."""
    cases = "\n".join(f"{job}) {script};;" for job, script in scripts.items())
    script = tmp_path / "by-job"
    script.write_text(f"case $OCTOSTORE_JOB in\n{cases}\nesac\n")
    return ("bash", str(script))


def statuses(store: library.OctoStore, *job_ids: str) -> list[str]:
    return [store.get_job(job_id).status for job_id in job_ids]


# Outcomes of a job


def test_the_payload_is_on_stdin_and_the_result_comes_from_stdout(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    x = "head -c 50000 /dev/zero | tr '\\0' x"
    expected = {
        "json": ("""echo '{"words": ["ä", null, 1.5]}'""", {"words": ["ä", None, 1.5]}),
        "number": ("echo 7", 7),
        "text": ("echo two; echo lines", "two\nlines"),
        "much_text": (f"echo some; {x}", "some\n" + "x" * 50_000),
        "binary": ("printf '\\xff and more'", "\N{REPLACEMENT CHARACTER} and more"),
        "surrogate": ("""echo '"\\ud800"'""", '"\\ud800"'),
        "nothing": ("true", None),
        "spread_out": ("""echo '{"a":'; head -c 50000 /dev/zero | tr '\\0' '\\n'; echo '1}'""", {"a": 1}),
        "full": (
            f"""printf '"'; head -c {RESULT_BYTES - 2} /dev/zero | tr '\\0' x; echo '"'""",
            "x" * (RESULT_BYTES - 2),
        ),
        "long": (f"""printf '"'; head -c {RESULT_BYTES - 1} /dev/zero | tr '\\0' x; echo '"'""", None),
        "very_long": (f"for x in 1 2 3; do {x}; done", None),
        # Its end alone would be a number.
        "cut_off": ("echo nothing; head -c 100000 /dev/zero | tr '\\0' ' '; echo 7", None),
    }
    command = by_job(tmp_path, **{job_id: script for job_id, (script, _) in expected.items()})
    enqueue(store, *expected)
    script = f"cat > payload-$OCTOSTORE_JOB; env -0 > environment-$OCTOSTORE_JOB; exec {' '.join(command)}"
    done = octostore.run("work", "queue", "--until-empty", "--json", "--concurrency", "3", "--", "bash", "-c", script)
    assert done.code == 0
    assert json.loads(done.out) == {"queue": "queue", "handled": len(expected)}
    warnings = [line for line in done.err.splitlines() if "too large for a result" in line]
    assert sorted(line.split()[1] for line in warnings) == ["cut_off:", "long:", "very_long:"]
    assert "its output of 150,000 bytes" in done.err
    for job_id, (_, result) in expected.items():
        job = store.get_job(job_id)
        assert (job_id, job.status, job.result) == (job_id, "done", result)
        assert (tmp_path / f"payload-{job_id}").read_text() == json.dumps({"for": job_id}, separators=(",", ":")) + "\n"
        environment = (tmp_path / f"environment-{job_id}").read_text().split("\0")
        token = next(event.seq for event in store.events(job_id=job_id) if event.type == "claimed")
        assert {
            f"OCTOSTORE_JOB={job_id}",
            "OCTOSTORE_QUEUE=queue",
            "OCTOSTORE_KIND=kind",
            "OCTOSTORE_ATTEMPT=1",
            f"OCTOSTORE_FENCING_TOKEN={token}",
        } <= set(environment)


def test_a_failing_job_is_retried_until_it_is_dead_and_deferring_is_not_counted(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    command = by_job(
        tmp_path,
        failing="echo said; echo 'no disk' >&2; exit 3",
        last="echo 'no disk' >&2; exit 3",
        slow=f"sleep {FOREVER}",
        deferred="echo 'no quota' >&2; exit 75",
        fine="true",
    )
    enqueue(store, "failing", "slow", "deferred", "fine")
    enqueue(store, "last", max_attempts=1)
    store.enqueue("other", job_id="other", queue="queue")
    options = ["--until-empty", "--concurrency", "2", "--kind", "kind", "--retry-after", "1h", "--max-run", "1"]
    done = octostore.run("work", "queue", *options, "--", *command)
    assert done.code == 0
    assert "no disk" in done.err
    jobs = {job_id: store.get_job(job_id) for job_id in ("failing", "last", "slow", "deferred", "fine", "other")}
    assert {job_id: (job.status, job.attempts) for job_id, job in jobs.items()} == {
        "failing": ("queued", 1),
        "last": ("dead", 1),
        "slow": ("queued", 1),
        "deferred": ("queued", 0),
        "fine": ("done", 1),
        "other": ("queued", 0),
    }
    assert jobs["failing"].error == jobs["last"].error == "exit code 3\nno disk"
    assert "(--max-run)" in (jobs["slow"].error or "")
    assert jobs["deferred"].note == "no quota"
    assert "octostore: deferred: deferred (exit code 75)\n" in done.err
    (deferred,) = [event for event in store.events(job_id="deferred") if event.type == "deferred"]
    assert (deferred.data["available_at"] - deferred.at).total_seconds() == 3_600


def test_a_worker_says_that_its_queue_has_no_jobs(octostore: Octostore, store: library.OctoStore) -> None:
    message = "octostore: queue mistyped has no jobs, not even finished ones"
    assert octostore.run("work", "mistyped", "--until-empty", "--json", "--", "true") == (
        10,
        '{"queue":"mistyped","handled":0}\n',
        f"{message}\n",
    )
    assert octostore.run("work", "mistyped", "--until-empty", "--quiet", "--", "true") == (10, "", "")
    work = octostore.start("work", "mistyped", "--", "true")
    until(lambda: work.err == f"{message}; waiting for one\n")
    store.enqueue("kind", queue="mistyped", job_id="first")
    until(lambda: store.get_job("first").status == "done")
    work.send(signal.SIGTERM)
    assert work.wait().code == 0
    assert octostore.run("work", "mistyped", "--until-empty", "--", "true") == (10, "", "")


def test_a_worker_that_runs_until_it_is_stopped_reports_each_job(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    enqueue(store, "fine", "broken")
    command = by_job(tmp_path, fine="true", broken="exit 3")
    work = octostore.start("work", "queue", "--", *command)
    quiet = octostore.start("work", "queue", "--quiet", "--kind", "other", "--", "true")
    until(lambda: "broken: exit code 3\n" in work.err)
    first, *lines = work.err.splitlines()
    assert first == "octostore: working on queue queue"
    assert [re.sub(r"after .*", "after", line) for line in lines] == [
        "octostore: fine started (kind, attempt 1)",
        "octostore: fine finished after",
        "octostore: broken started (kind, attempt 1)",
        "octostore: broken: exit code 3",
    ]
    for one in (work, quiet):
        one.send(signal.SIGTERM)
        assert one.wait().code == 0
    assert quiet.err == ""


def test_a_worker_says_that_its_queue_is_paused_and_continues_when_it_is_resumed(
    octostore: Octostore, store: library.OctoStore
) -> None:
    store.enqueue("kind", queue="queue", job_id="job")
    store.set_queue("queue", paused=True, reason="deploying")
    message = (
        "octostore: queue queue is paused by local (deploying); resume it with `octostore queue set queue --resume`\n"
    )
    assert octostore.run("work", "queue", "--until-empty", "--", "true") == (10, "", message)
    work = octostore.start("work", "queue", "--until-done", "--", "true")
    until(lambda: work.err == message)
    store.set_queue("queue", paused=False)
    assert work.wait().code == 0
    assert store.get_job("job").status == "done"


def test_in_a_store_that_does_not_exist_yet_the_queue_has_no_jobs(octostore: Octostore, tmp_path: Path) -> None:
    done = octostore.run("work", "queue", "--until-empty", "--", "true", OCTOSTORE_URL=f"sqlite:///{tmp_path}/new.db")
    assert (done.code, done.err) == (10, "octostore: queue queue has no jobs, not even finished ones\n")


def test_the_exit_code_says_that_the_queue_was_empty(octostore: Octostore, store: library.OctoStore) -> None:
    assert octostore.run("work", "queue", "--until-empty", "--", "touch", "ran").code == 10
    enqueue(store, "job")
    deferring = ["--deferred-exit", "9", "--retry-after", FOREVER]
    assert octostore.run("work", "queue", "--until-empty", *deferring, "--", "bash", "-c", "exit 9").code == 0
    assert octostore.run("work", "queue", "--until-empty", "--", "touch", "ran").code == 10
    assert [event.type for event in store.events(job_id="job")] == ["enqueued", "claimed", "deferred"]


def test_a_worker_ends_after_max_jobs_or_when_every_job_is_settled(
    octostore: Octostore, store: library.OctoStore
) -> None:
    enqueue(store, "one", "two", "three")
    first = octostore.run("work", "queue", "--until-done", "--max-jobs", "1", "--json", "--", "true")
    assert (first.code, first.out) == (0, '{"queue":"queue","handled":1}\n')
    assert statuses(store, "one", "two", "three") == ["done", "queued", "queued"]
    rest = octostore.run("work", "queue", "--until-done", "--json", "--", "true")
    assert (rest.code, rest.out) == (0, '{"queue":"queue","handled":2}\n')
    assert octostore.run("work", "queue", "--until-done", "--", "touch", "ran").code == 0
    both = octostore.run("work", "queue", "--until-done", "--until-empty", "--", "true")
    assert (both.code, "not allowed with argument" in both.err) == (64, True)


# Concurrency


def test_concurrency_is_used_and_never_exceeded(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    jobs = [f"job-{number}" for number in range(7)]
    enqueue(store, *jobs)
    # The lines enclose the whole time in which the command does anything.
    script = f"echo 1 >> log; {UNTIL_GO}; sleep 0.05; echo -1 >> log"
    work = octostore.start("work", "queue", "--until-empty", "--concurrency", "3", "--", "bash", "-c", script)
    log = tmp_path / "log"
    until(lambda: log.exists() and log.read_text().count("\n") == 3)
    time.sleep(0.3)  # time for a fourth to start
    assert log.read_text() == "1\n" * 3
    assert sorted(statuses(store, *jobs)) == ["claimed"] * 3 + ["queued"] * 4
    (tmp_path / "go").touch()
    assert work.wait().code == 0
    assert set(statuses(store, *jobs)) == {"done"}
    steps = list(map(int, log.read_text().split()))
    assert len(steps) == 2 * len(jobs)
    assert max(accumulate(steps)) == 3


# How a worker ends


def test_the_first_signal_lets_commands_finish_and_starts_no_new_ones(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    enqueue(store, "running")
    script = f"touch started-$OCTOSTORE_JOB; {UNTIL_GO}; echo finished"
    work = octostore.start("work", "queue", "--concurrency", "2", "--", "bash", "-c", script)
    until((tmp_path / "started-running").exists)
    work.send(signal.SIGTERM)
    until(lambda: "SIGTERM: no new jobs" in work.err)
    enqueue(store, "late")  # for the other slot, which may still wait for a job
    time.sleep(1.2)  # as long as it may wait
    assert not (tmp_path / "started-late").exists()
    assert statuses(store, "running") == ["claimed"]
    (tmp_path / "go").touch()
    assert work.wait().code == 0
    assert store.get_job("running").result == "finished"
    late = store.get_job("late")
    assert (late.status, late.attempts) == ("queued", 0)
    assert store.claim_next("queue").job_id == "late"


def test_the_second_signal_stops_commands_and_releases_their_jobs(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    survivors = {job_id: Survivor(tmp_path / job_id, how) for job_id, how in (("one", "noting"), ("two", "daemon"))}
    command = by_job(tmp_path, **{job_id: f"exec {' '.join(one.command)}" for job_id, one in survivors.items()})
    enqueue(store, "one", "two")
    work = octostore.start("work", "queue", "--concurrency", "2", "--stop-grace", "0.3", "--", *command)
    for survivor in survivors.values():
        survivor.started()
    work.send(signal.SIGINT)
    until(lambda: "SIGINT: no new jobs" in work.err)
    assert all(survivor.is_alive() for survivor in survivors.values())
    work.send(signal.SIGTERM)
    assert work.wait().code == 0
    assert not any(survivor.is_alive() for survivor in survivors.values())
    assert survivors["one"].signals == ["SIGTERM"]
    for job_id in survivors:
        job = store.get_job(job_id)
        assert (job.status, job.attempts) == ("queued", 0)
        assert [event.type for event in store.events(job_id=job_id)] == ["enqueued", "claimed", "deferred"]
    assert {store.claim_next("queue").job_id for _ in survivors} == {"one", "two"}  # at once


def test_a_waiting_worker_ends_on_a_signal(octostore: Octostore, store: library.OctoStore) -> None:
    enqueue(store, "job")
    work = octostore.start("work", "queue", "--quiet", "--", "echo", "done")
    until(lambda: statuses(store, "job") == ["done"])
    work.send(signal.SIGTERM)
    assert work.wait() == (0, "", "")


# When something goes wrong


def test_killing_a_worker_kills_its_commands(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    survivors = {how: Survivor(tmp_path / how, how) for how in ("forking", "daemon")}
    command = by_job(tmp_path, **{how: f"exec {' '.join(one.command)}" for how, one in survivors.items()})
    enqueue(store, *survivors)
    work = octostore.start("work", "queue", "--concurrency", "2", "--", *command)
    for survivor in survivors.values():
        survivor.started()
    work.process.kill()
    for survivor in survivors.values():
        survivor.died()
    assert statuses(store, *survivors) == ["claimed"] * len(survivors), "long before their leases expire"


def test_a_lease_that_is_lost_ends_its_command_and_no_other(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    survivor = Survivor(tmp_path / "survivor", "daemon")
    lost = f"mkdir first && exec {' '.join(survivor.command)}; echo again"
    command = by_job(tmp_path, lost=lost, kept=f"echo $$ > pid; {UNTIL_GO}; echo kept")
    enqueue(store, "lost", "kept")
    options = ["--until-empty", "--concurrency", "2", "--ttl", "3"]
    work = octostore.start("work", "queue", *options, "--", *command)
    survivor.started()
    until((tmp_path / "pid").exists)
    store.force_release("lost", reason="wrong machine")
    survivor.died()
    assert is_alive(int((tmp_path / "pid").read_text()))
    assert statuses(store, "kept") == ["claimed"]
    until(lambda: statuses(store, "lost") == ["done"])
    (tmp_path / "go").touch()
    done = work.wait()
    assert done.code == 0
    assert "lost: stopped the command because the lease on 'lost' is lost" in done.err
    assert ": 'wrong machine')" in done.err
    assert [store.get_job(job_id).result for job_id in ("lost", "kept")] == ["again", "kept"]


def test_a_guardian_that_is_killed_costs_no_job_an_attempt(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    survivor = Survivor(tmp_path / "survivor", "daemon")
    enqueue(store, "working")
    at_work = octostore.start("work", "queue", "--", *survivor.command)
    survivor.started()
    os.kill(at_work.guardian, signal.SIGKILL)
    assert at_work.wait().code == 0
    assert not survivor.is_alive()
    idle = octostore.start("work", "other", "--", "touch", "ran")
    os.kill(idle.guardian, signal.SIGKILL)
    until(lambda: not any(is_alive(pid) for pid in children_of(idle.pid)))
    store.enqueue("kind", job_id="coming", queue="other")
    assert idle.wait().code == 0
    for job_id in ("working", "coming"):
        job = store.get_job(job_id)
        assert (job.status, job.attempts) == ("queued", 0)
    assert not (tmp_path / "ran").exists()
