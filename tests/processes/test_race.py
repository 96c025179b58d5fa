"""Many processes, or many threads, want the same jobs at once: each job gets one owner."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import octostore
from octostore.core.events import LogEntry
from tests.support.processes import Worker
from tests.support.soundness import assert_sound

RACERS = 8
JOBS = 500
THREADS = 16


def claimed(log: list[LogEntry]) -> dict[str | None, int]:
    events = [entry for entry in log if entry.type == "claimed"]
    assert max(Counter(entry.job_id for entry in events).values()) == 1
    return {entry.job_id: entry.seq for entry in events}


def test_eight_processes_race_for_500_jobs_and_each_has_one_winner(path: Path) -> None:
    octostore.connect(f"sqlite:///{path}").close()
    with ExitStack() as stack:
        racers = [stack.enter_context(Worker("racer", path, f"racer-{n}", JOBS)) for n in range(RACERS)]
        for racer in racers:
            assert racer.hear() == "ready"
        for racer in racers:
            racer.tell("go")
        reports = [racer.hear(90) for racer in racers]
    wins = [win for report in reports for win in report["won"].items()]
    assert len(wins) == JOBS
    log = assert_sound(path)
    assert len(log) == JOBS
    assert dict(wins) == claimed(log)
    assert {status for report in reports for status in report["statuses"]} == {"claimed", "held"}


def test_sixteen_threads_race_on_one_store(path: Path) -> None:
    start = threading.Barrier(THREADS)

    def race(store: octostore.OctoStore, owner: str) -> dict[str | None, int | None]:
        start.wait(30)
        replies = [store.claim_job(f"job-{number}", owner) for number in range(100)]
        return {reply.job_id: reply.fencing_token for reply in replies if reply.status == "claimed"}

    with octostore.connect(f"sqlite:///{path}") as store, ThreadPoolExecutor(THREADS) as pool:
        reports = list(pool.map(lambda number: race(store, f"thread-{number}"), range(THREADS)))
    wins = [win for report in reports for win in report.items()]
    assert len(wins) == 100
    assert dict(wins) == claimed(assert_sound(path))


def test_threads_that_take_turns_at_a_few_jobs_never_own_one_together(path: Path) -> None:
    start = threading.Barrier(THREADS)
    owners: Counter[str] = Counter()
    rounds = 30

    def take_turns(store: octostore.OctoStore, number: int) -> list[int]:
        tokens = []
        start.wait(30)
        for turn in range(rounds):
            job_id = f"shared-{turn % 2}" if turn % 3 else f"own-{number}"
            reply = store.claim_job(job_id, wait=30)
            assert reply.status == "claimed"
            owners[job_id] += 1
            # No other thread gets in between these two lines while the job is ours.
            assert owners[job_id] == 1
            owners[job_id] -= 1
            assert reply.lease_id is not None
            assert reply.fencing_token is not None
            tokens.append(reply.fencing_token)
            store.release_job(job_id, reply.lease_id)
        return tokens

    with octostore.connect(f"sqlite:///{path}") as store, ThreadPoolExecutor(THREADS) as pool:
        tokens = list(pool.map(lambda number: take_turns(store, number), range(THREADS)))
    assert all(mine == sorted(mine) for mine in tokens)
    assert len({token for mine in tokens for token in mine}) == THREADS * rounds
    log = assert_sound(path)
    assert [entry.type for entry in log].count("claimed") == THREADS * rounds
    assert [entry.type for entry in log].count("released") == THREADS * rounds
    assert len(log) == 2 * THREADS * rounds
