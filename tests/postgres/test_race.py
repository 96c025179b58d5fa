"""Servers and processes with their own connections race for the same jobs: each job gets one owner."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.postgres_soundness import assert_sound
from tests.support.processes import Worker
from tests.support.server import ServerProcess

JOBS = 500
THREADS = 16
DIRECT = 4


def test_two_servers_and_four_processes_race_for_500_jobs(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        one = stack.enter_context(ServerProcess(tmp_path, "--url", url))
        other = stack.enter_context(ServerProcess(tmp_path, "--url", url))
        monkeypatch.setenv("OCTOSTORE_TOKEN", one.token)
        urls = [url] * DIRECT + [one.url, other.url]
        racers = [
            stack.enter_context(Worker("racer", target, f"racer-{number}", JOBS, THREADS))
            for number, target in enumerate(urls)
        ]
        assert [racer.hear() for racer in racers] == ["ready"] * len(racers)
        for racer in racers:
            racer.tell("go")
        reports = [racer.hear(90) for racer in racers]
    wins = [win for report in reports for win in report["won"].items()]
    log = [entry for entry in assert_sound(url) if entry.type == "claimed"]
    assert Counter(entry.job_id for entry in log) == Counter(f"job-{number}" for number in range(JOBS))
    assert sorted(wins) == sorted((entry.job_id, entry.seq) for entry in log)
    assert {status for report in reports for status in report["statuses"]} == {"claimed", "held"}
