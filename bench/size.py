"""How large a store becomes: bytes per job and per event of an SQLite file.

.venv/bin/python -m bench.size
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import octostore
from octostore.core.model import Outcome

JOBS = 20_000
STEP = 500
PAYLOADS = {"none": None, "100 bytes": {"text": "x" * 87}, "1 KB": {"text": "x" * 987}}


def main() -> None:
    print("| what | events | bytes per job |")
    print("|---|---|---|")
    for name, payload in PAYLOADS.items():
        events, size = measure(partial(queue, payload=payload))
        print(f"| enqueued, claimed and done; payload {name} | {events:.0f} | {size:,.0f} |")
    events, size = measure(lock)
    print(f"| the same name claimed and released again | {events:.0f} | {size:,.0f} |")
    events, size = measure(lock_once)
    print(f"| a new name claimed and released | {events:.0f} | {size:,.0f} |")


def measure(fill: Callable[[octostore.OctoStore], None]) -> tuple[float, float]:
    """Events and bytes per job. The write-ahead log is folded into the file when the store is closed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "octostore.db"
        with octostore.connect(f"sqlite:///{path}") as store:
            store.enqueue("first")  # the first write creates the file
        empty = path.stat().st_size
        with octostore.connect(f"sqlite:///{path}") as store:
            fill(store)
            events = store.figures().seq - 1
        return events / JOBS, (path.stat().st_size - empty) / JOBS


def queue(store: octostore.OctoStore, payload: object) -> None:
    for first in range(0, JOBS, STEP):
        store.enqueue_many(
            [{"job_id": f"job-{n:09}", "payload": payload} for n in range(first, first + STEP)], kind="resize"
        )
        work_off(store, [f"job-{n:09}" for n in range(first, first + STEP)], "done")


def lock(store: octostore.OctoStore) -> None:
    for _ in range(0, JOBS, STEP):
        for _ in range(STEP // 10):
            work_off(store, [f"lock-{n}" for n in range(10)], "released")


def lock_once(store: octostore.OctoStore) -> None:
    for first in range(0, JOBS, STEP):
        work_off(store, [f"lock-{n:09}" for n in range(first, first + STEP)], "released")


def work_off(store: octostore.OctoStore, names: list[str], outcome: Outcome) -> None:
    claims = store.claim_many(names, owner="worker-1")
    store.release_many(claims, outcome)


if __name__ == "__main__":
    main()
