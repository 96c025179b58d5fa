"""Commands that run without reporting progress."""

from pathlib import Path

import pytest

import octostore as library
from tests.support.processes import until
from tests.support.running import Octostore, shell_until

FOREVER = "1000"


def types_of(store: library.OctoStore, job_id: str) -> list[str]:
    return [event.type for event in store.events(job_id=job_id)]


def test_a_command_stopped_for_its_silence_has_failed(octostore: Octostore, store: library.OctoStore) -> None:
    store.enqueue("review", job_id="task", queue="reviews", max_attempts=1)
    options = ["--max-silence", "1", "--on-silence", "stop"]
    run = octostore.start("run", "job", *options, "--", "sleep", FOREVER)
    work = octostore.start("work", "reviews", "--until-empty", *options, "--", "sleep", FOREVER)
    for done, code, job_id in ((run.wait(), 143, "job"), (work.wait(), 0, "task")):
        assert done.code == code, done
        assert "no progress for 1s (--max-silence)" in done.err
        job = store.get_job(job_id)
        assert (job.last_outcome, job.attempts) == ("failed", 1)
        assert "no progress" in (job.error or "")
        assert [type_ for type_ in types_of(store, job_id) if type_ != "enqueued"] == ["claimed", "stuck", "failed"]
    assert store.get_job("task").status == "dead"


@pytest.mark.parametrize("report", ["progress half", "checkpoint 7"])
def test_by_default_silence_is_only_reported_once_for_each_stall(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path, report: str
) -> None:
    script = f"{shell_until('[ -e first ]')}; octostore {report}; {shell_until('[ -e second ]')}"
    run = octostore.start("run", "job", "--max-silence", "1", "--", "bash", "-c", script)
    until(lambda: types_of(store, "job") == ["claimed", "stuck"])
    (tmp_path / "first").touch()
    until(lambda: types_of(store, "job") == ["claimed", "stuck", "stuck"])
    (tmp_path / "second").touch()
    done = run.wait()
    assert done.code == 0, done
    assert "no progress for 1s; job is shown as stuck" in done.err
    assert types_of(store, "job") == ["claimed", "stuck", "stuck", "released"]


def test_on_silence_needs_a_limit(octostore: Octostore) -> None:
    done = octostore.run("run", "job", "--on-silence", "stop", "--", "true")
    assert done.code == 64
    assert "needs --max-silence" in done.err
