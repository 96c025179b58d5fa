"""Commands per second through the store, compared with bare apsw."""

from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from bench.bare import Recording, opened_bare, record, replay
from bench.opening import opened
from bench.tables import show
from bench.timing import only_new_garbage
from bench.workload import PHASES, Workload

TARGETS = {1: "0.60", 64: "0.30"}


class Seconds(NamedTuple):
    """The time of the same commands on both sides, in one round."""

    store: float
    bare: float


def report(scratch: Path, commands: dict[int, int], rounds: int) -> None:
    rows = []
    for batch, jobs in commands.items():
        measured = _measure(scratch, jobs, batch, rounds)
        rows += [[str(batch), phase, *_cells(jobs, [took[phase] for took in measured]), ""] for phase in PHASES]
        mix = [_sum(list(took.values())) for took in measured]
        rows.append([str(batch), "mix", *_cells(jobs * len(PHASES), mix), TARGETS.get(batch, "")])
    title = (
        f"SQLite: commands per second, durable (medians of {rounds} rounds, alternating batch by batch)\n"
        "   store: submit(batch).result() through the writer thread; bare: the same statements and rows, without rules"
    )
    show(title, ["batch", "commands", "store/s", "bare/s", "store:bare", "target"], rows)


def _measure(scratch: Path, jobs: int, batch: int, rounds: int) -> list[dict[str, Seconds]]:
    recording = record(scratch / "recorded.db", jobs, batch)
    (scratch / "recorded.db").unlink()
    with only_new_garbage():
        return [_round(scratch, Workload(jobs, batch), recording) for _ in range(rounds)]


def _round(scratch: Path, workload: Workload, recording: Recording) -> dict[str, Seconds]:
    """All phases, on two fresh files. The sides alternate with every batch, so that both see the same load."""
    took = {}
    store_path, bare_path = scratch / "store.db", scratch / "bare.db"
    with opened(store_path) as store, opened_bare(bare_path) as connection:
        for phase, transactions in recording.items():
            in_store = in_bare = 0.0
            for commands, transaction in zip(workload.batches(phase), transactions, strict=True):
                started = perf_counter()
                replies = store.submit(commands).result()
                between = perf_counter()
                replay(connection, transaction)
                in_bare += perf_counter() - between
                in_store += between - started
                workload.check(replies)
            took[phase] = Seconds(in_store, in_bare)
    store_path.unlink()
    bare_path.unlink()
    return took


def _sum(parts: list[Seconds]) -> Seconds:
    return Seconds(sum(part.store for part in parts), sum(part.bare for part in parts))


def _cells(commands: int, rounds: list[Seconds]) -> list[str]:
    store_rate = commands / median(took.store for took in rounds)
    bare_rate = commands / median(took.bare for took in rounds)
    # Per round: the machine's pace may change between rounds.
    ratio = median(took.bare / took.store for took in rounds)
    return [f"{store_rate:,.0f}", f"{bare_rate:,.0f}", f"{ratio:.2f}"]
