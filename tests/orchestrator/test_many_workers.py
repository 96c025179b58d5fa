"""Workers that are killed all the time: every task ends, none is done twice, and the log verifies."""

import random
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from octostore.core.events import Event
from octostore.orchestrator import Orchestrator
from tests.support.processes import Worker

WORKERS = 4
PATIENCE_SECONDS = 300


class Size(NamedTuple):
    tasks: int
    work_seconds: float
    kill_seconds: float


def run_with_kills(orchestrator: Orchestrator, url: str, path: Path, size: Size) -> int:
    """Kill workers until all tasks have ended, and return how many were killed."""
    for number in range(size.tasks):
        orchestrator.enqueue_task("task", {"fails": number % 10 == 0}, task_id=f"task-{number}", max_attempts=4)
    chance = random.Random(6)
    kills = 0
    with ExitStack() as stack:

        def start_worker(number: int) -> Worker:
            worker = stack.enter_context(Worker("task_worker", url, f"session-{number}", path, size.work_seconds))
            assert worker.hear() == "ready"
            return worker

        workers = [start_worker(number) for number in range(WORKERS)]
        for worker in workers:
            worker.tell("go")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while has_work(orchestrator):
            assert time.monotonic() < deadline, orchestrator.store.figures()
            time.sleep(size.kill_seconds)
            victim = chance.randrange(WORKERS)
            workers[victim].kill()
            workers[victim] = start_worker(victim)
            workers[victim].tell("go")
            kills += 1
        for worker in workers:
            worker.kill()
    return kills


def has_work(orchestrator: Orchestrator) -> bool:
    figures = orchestrator.store.figures()
    return figures.waiting + figures.claimed > 0


def assert_all_is_well(orchestrator: Orchestrator, path: Path, tasks: int) -> Counter[str]:
    verdict = orchestrator.store.verify()
    assert verdict.problems == []
    log = list(orchestrator.store.events())
    ended = {f"task-{number}": orchestrator.store.get_job(f"task-{number}").status for number in range(tasks)}
    assert set(ended.values()) <= {"done", "dead"}, Counter(ended.values())
    done = [event for event in log if event.type == "done"]
    assert Counter(event.job_id for event in done).most_common(1)[0][1] == 1, "none is done twice"
    assert {event.job_id for event in done} == {task for task, status in ended.items() if status == "done"}
    assert_effects_were_owned(log, path)
    return Counter(event.type for event in log)


def assert_effects_were_owned(log: list[Event], path: Path) -> None:
    """Every external write carries the fencing token of a claim on that task, and none appears twice."""
    effects = [tuple(line.split()) for line in path.read_text().splitlines()]
    assert max(Counter(effects).values()) == 1
    claims = {(event.job_id, str(event.seq)) for event in log if event.type == "claimed"}
    assert set(effects) <= claims
    finished = {(event.job_id, str(event.data["fencing_token"])) for event in log if event.type in {"done", "failed"}}
    assert finished <= set(effects)


def report(tasks: int, kills: int, seconds: float, counted: Counter[str]) -> str:
    return (
        f"\n{tasks:,} tasks, {WORKERS} workers, {kills} kills in {seconds:.1f} s: {counted['done']:,} done, "
        f"{counted['failed']:,} failures, {counted['expired']:,} expired, {counted['claimed']:,} claims, log sound\n"
    )


@pytest.mark.parametrize(
    "size",
    [
        Size(tasks=120, work_seconds=0.03, kill_seconds=0.3),
        pytest.param(
            Size(tasks=2_000, work_seconds=0.008, kill_seconds=1.0),
            marks=[pytest.mark.slow, pytest.mark.timeout(600)],
        ),
    ],
    ids=["short", "long"],
)
def test_every_task_ends(
    orchestrator: Orchestrator,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    size: Size,
) -> None:
    path = tmp_path / "effects"
    started_at = time.monotonic()
    kills = run_with_kills(orchestrator, url, path, size)
    counted = assert_all_is_well(orchestrator, path, size.tasks)
    assert kills > 0
    with capsys.disabled():  # `make faults` prints these numbers
        sys.stdout.write(report(size.tasks, kills, time.monotonic() - started_at, counted))
