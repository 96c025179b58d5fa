"""One round of jobs with one of the libraries, in a separate process."""

import asyncio
import signal
import sys
from importlib import import_module
from inspect import iscoroutinefunction

import msgspec
import uvloop

from bench.postgres.laps import Jobs, Laps

PATIENCE_SECONDS = 60


def measure(jobs: Jobs) -> Laps:
    module, _, name = jobs.who.partition(":")
    run = getattr(import_module(f"bench.postgres.{module}"), name)
    laps: Laps
    if iscoroutinefunction(run):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            laps = runner.run(run(jobs))
    else:
        laps = run(jobs)
    return laps


def main() -> None:
    signal.alarm(PATIENCE_SECONDS)  # in case anything hangs
    jobs = msgspec.json.decode(sys.stdin.buffer.read(), type=Jobs)
    sys.stdout.buffer.write(msgspec.json.encode(measure(jobs)))


if __name__ == "__main__":
    main()
