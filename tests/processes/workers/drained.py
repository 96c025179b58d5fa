"""A program that calls `work()` without handling signals; or (`own`) with its own handler for TERM.

The job handler reports its job, and again when the worker drains. It ends when the test has created a file with the
job's name or, unless it is `deaf`, when it is asked to stop. `breaking`: the second of two concurrent jobs breaks the
worker. `twice`: it works on two queues at once.
"""

import asyncio
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import octostore
from tests.processes.workers.talk import say


class Handling:
    def __init__(self, folder: Path, how: str, stop: Any) -> None:
        self.folder = folder
        self.how = how
        self.stop = stop
        self.has_said = False
        self.is_first_running = threading.Event()

    def is_over(self, claim: Any) -> bool:
        if self.stop.is_set() and not self.has_said:
            self.has_said = True
            say({"draining": claim.job_id})
        if claim.stop_requested.is_set() and self.how != "deaf":
            raise RuntimeError(f"asked to stop by {claim.stop_reason}")
        return (self.folder / str(claim.job_id)).exists()

    def block(self, claim: Any) -> str:
        if self.how == "breaking" and claim.job_id == "second":
            self.is_first_running.wait()
            raise KeyboardInterrupt  # anything else that a handler raises only fails its job
        say({"at": claim.job_id})
        self.is_first_running.set()
        while not self.is_over(claim):
            time.sleep(0.01)
        return "whole"

    async def wait(self, claim: Any) -> str:
        say({"at": claim.job_id})
        while not self.is_over(claim):  # noqa: ASYNC110  # the test decides when, not this loop
            await asyncio.sleep(0.01)
        return "whole"


def main(url: str, folder: str, kind: str, how: str, concurrency: str = "1") -> None:
    if how == "own":
        signal.signal(signal.SIGTERM, lambda *_: say({"own": "TERM"}))
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    handled = asyncio.run(run_async(url, folder, how)) if kind == "async" else run(url, folder, how, int(concurrency))
    after = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    say({"handled": handled, "restored": before == after})


def run(url: str, folder: str, how: str, concurrency: int) -> int:
    stop = threading.Event()
    with octostore.connect(url) as store:
        handler = Handling(Path(folder), how, stop).block
        return store.work("default", handler, stop=stop, ttl=600, concurrency=concurrency)


async def run_async(url: str, folder: str, how: str) -> int:
    async with await octostore.connect_async(url) as store:
        loops = [_work_async(store, queue, folder, how) for queue in ("default", "other")[: 2 if how == "twice" else 1]]
        return sum(await asyncio.gather(*loops))


async def _work_async(store: octostore.AsyncOctoStore, queue: str, folder: str, how: str) -> int:
    stop = asyncio.Event()
    return await store.work(queue, Handling(Path(folder), how, stop).wait, stop=stop, ttl=600)


if __name__ == "__main__":
    main(*sys.argv[1:])
