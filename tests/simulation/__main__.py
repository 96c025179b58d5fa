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
            if not given.go_on:
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
    # In each process only so many: what the interpreter keeps for ever is little, but thousands of runs are many.
    # (Not by concurrent.futures, whose pool stands still in Python 3.11 once its first processes have had theirs.)
    with SPAWNING.Pool(processes, maxtasksperchild=RUNS_PER_PROCESS) as pool:
        for result in pool.imap(run_without_story, plans):
            # Exactly as it was, with its story; most runs have nothing to tell.
            yield run(result.plan) if result.broken is not None else result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="what decides everything")
    parser.add_argument("--seeds", metavar="A..B", help="all of these, one run for each")
    parser.add_argument("--hours", type=float, default=1.0, help="simulated hours of each run (1)")
    parser.add_argument("--clients", type=int, default=20, help="how many clients (20)")
    parser.add_argument("--pace", type=float, default=1.0, help="how much faster clients follow on each other (1)")
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many runs at once")
    parser.add_argument("--without", action="append", default=[], metavar="PROMISE", help="do not check this promise")
    parser.add_argument("--go-on", action="store_true", help="run all seeds, also after one has failed")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false", help="do not shrink the first failure")
    parser.add_argument("--digests", action="store_true", help="print the digest of each run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
