"""Run the simulator: `python -m tests.simulation --seed 7`, or `--seeds 1..100 --processes 2` for many."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context

from tests.simulation.report import command_for, story_of, summary_of
from tests.simulation.shrink import shrink
from tests.simulation.world import Plan, Result, run, run_without_story

RUNS_PER_PROCESS = 200
SPAWNING = get_context("spawn")


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    first, _, last = (given.seeds or str(given.seed)).partition("..")
    plans = [
        Plan(seed, given.hours, given.clients, given.store, given.pace, frozenset(given.without))
        for seed in range(int(first), int(last or first) + 1)
    ]
    started = time.perf_counter()
    results, failed = [], []
    for result in _run_all(plans, given.processes):
        results.append(result._replace(steps=[]))
        if given.digests:
            print(result.plan.seed, result.digest, flush=True)
        if result.broken is not None:
            failed.append(result)
            print(f"seed {result.plan.seed} after {result.at:.0f} s: {result.broken}", flush=True)
            print(f"  replay it with: {command_for(result.plan)}", flush=True)
            if not given.keep_going:
                break
    print("\n".join(summary_of(results, time.perf_counter() - started)))
    if failed and given.shrink:
        print(f"\nseed {failed[0].plan.seed}, shrunk:")
        print("\n".join(story_of(shrink(failed[0]))))
    return bool(failed)


def _run_all(plans: list[Plan], processes: int) -> Iterator[Result]:
    if processes == 1 or len(plans) == 1:
        yield from map(run, plans)
        return
    # A new process after RUNS_PER_PROCESS runs, because each run leaves a little memory behind. Not concurrent.futures:
    # its pool hangs in Python 3.11 once its first processes have used up their runs.
    with SPAWNING.Pool(processes, maxtasksperchild=RUNS_PER_PROCESS) as pool:
        for result in pool.imap(run_without_story, plans):
            # Repeat failed runs exactly, to get their stories.
            yield run(result.plan) if result.broken is not None else result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the seed of the run (1)")
    parser.add_argument("--seeds", metavar="A..B", help="one run for each of these seeds")
    parser.add_argument("--hours", type=float, default=1.0, help="simulated hours of each run (1)")
    parser.add_argument("--clients", type=int, default=20, help="number of clients (20)")
    parser.add_argument("--pace", type=float, default=1.0, help="how much busier clients are (1)")
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="number of runs at once")
    parser.add_argument("--without", action="append", default=[], metavar="PROMISE", help="do not check this promise")
    parser.add_argument("--keep-going", action="store_true", help="run all seeds even if one fails")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false", help="do not shrink the first failure")
    parser.add_argument("--digests", action="store_true", help="print the digest of each run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
