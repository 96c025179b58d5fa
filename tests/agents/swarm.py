"""Agents with a shell and agents with MCP share a queue, and one of them is killed or stalls every few seconds.

`python -m tests.agents.swarm`. Every job is done once, no job is under two live leases, every successor gets the
checkpoint, and nobody heartbeats. A table shows the results.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

import octostore
from octostore.core.events import Event
from tests.agents.diary import QUEUE, Entry, entries_in
from tests.support.processes import ROOT
from tests.support.soundness import assert_sound

KINDS = ("shell", "mcp")
OWN_WORDS = {"next", "checkpoint", "release", "claim_next_job", "release_job"}
"""All that agents type or call."""
LOOK_SECONDS = 0.1


class Plan(NamedTuple):
    jobs: int
    agents: int
    """Of each kind."""
    blow_seconds: float
    """How often an agent that holds a job is killed or stalls."""
    blows: int
    """The maximum number of kills and stalls."""
    ttl: int
    max_silence: int
    patience: float
    """Seconds after which all jobs should have been done long ago."""


class Result(NamedTuple):
    seconds: float
    fates: Counter[str]
    """How agents were stopped."""
    endings: Counter[str]
    """How claims ended: the event, and its error or note if it has one."""
    claims: int
    resumed: int
    """Claims that started from another agent's checkpoint."""
    refused: int
    """Writes that came too late and were refused."""


class Seat:
    """An agent, and the next one after it is killed."""

    def __init__(self, kind: str, number: int, home: Path, plan: Plan) -> None:
        self.kind = kind
        self._seat = f"{kind}-{number}"
        self._home = home
        self._plan = plan
        self._lives = 0
        self._continues_at: float | None = None
        self.start()

    def start(self) -> None:
        self._lives += 1
        self.name = f"{self._seat}.{self._lives}"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"OCTOSTORE_HOME": str(self._home), "OCTOSTORE_OWNER": self.name, "PATH": path}
        others = {name: value for name, value in os.environ.items() if not name.startswith("OCTOSTORE_")}
        module = f"tests.agents.{self.kind}_agent"
        arguments = [self.name, str(diaries_of(self._home)), str(self._plan.ttl), str(self._plan.max_silence)]
        self._errors = self._home / f"{self.name}.stderr"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], cwd=ROOT, env={**others, **own}, stderr=errors
            )

    def kill_everything(self) -> None:
        """Kill the agent and everything it started, as if its machine were gone."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._replace()

    def kill_agent(self) -> None:
        """Kill the agent alone; what it started only notices later."""
        self._process.kill()
        self._replace()

    def stall(self) -> None:
        """Suspend the agent; when it continues, its job may have another owner."""
        self._process.send_signal(signal.SIGSTOP)
        self._continues_at = time.monotonic() + 2 * self._plan.max_silence

    def resume_if_due(self) -> None:
        if self._continues_at is not None and time.monotonic() > self._continues_at:
            self._continues_at = None
            self._process.send_signal(signal.SIGCONT)

    @property
    def is_at_work(self) -> bool:
        return self._continues_at is None and self._process.poll() is None

    def end(self, patience: float) -> None:
        """Wait until the agent has seen that all jobs are done."""
        if self._continues_at is not None:
            self._process.send_signal(signal.SIGCONT)
        assert self._process.wait(patience) == 0, f"{self.name} failed: {self._errors.read_text()}"

    def processes(self) -> Iterator[int]:
        """Everything it started, however detached; but nothing of another swarm, whose agents have the same names."""
        marks = {f"OCTOSTORE_OWNER={self.name}".encode(), f"OCTOSTORE_HOME={self._home}".encode()}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if marks <= set((folder / "environ").read_bytes().split(b"\0")):
                    yield int(folder.name)

    def _replace(self) -> None:
        self._process.wait()
        self.start()


FATES: dict[str, Callable[[Seat], None]] = {
    "killed with all that it started": Seat.kill_everything,
    "killed alone": Seat.kill_agent,
    "stalled": Seat.stall,
}


def diaries_of(home: Path) -> Path:
    return home / "diaries"


def run(home: Path, plan: Plan, seed: int) -> Result:
    """Run a swarm; raise `AssertionError` if a promise is broken."""
    chance = random.Random(seed)
    diaries_of(home).mkdir()
    with octostore.connect(f"sqlite:///{home}/octostore.db") as store:
        for number in range(plan.jobs):
            store.enqueue("step-by-step", queue=QUEUE, job_id=f"job-{number}", max_attempts=1_000)
        began_at = time.monotonic()
        seats = [Seat(kind, number, home, plan) for kind in KINDS for number in range(1, plan.agents + 1)]
        fates = _disturb(store, seats, plan, chance)
        for seat in seats:
            seat.end(plan.patience)
        seconds = time.monotonic() - began_at
        log = list(store.events())
    _check_nothing_is_left(seats, plan.patience)
    assert_sound(home / "octostore.db")  # among others, no claim of a job starts before the previous one has ended
    return Result(seconds, fates, *_check_and_count(log, entries_in(diaries_of(home)), plan))


def _disturb(store: octostore.OctoStore, seats: list[Seat], plan: Plan, chance: random.Random) -> Counter[str]:
    """Kill and stall agents until every job is done."""
    dealt: Counter[str] = Counter()
    blows = islice(_blows(chance), plan.blows)
    blow = next(blows, None)
    now = time.monotonic()
    deadline, next_at = now + plan.patience, now + plan.blow_seconds
    while not store.queue_status(QUEUE).all_done:
        assert time.monotonic() < deadline, "the jobs should be done by now"
        for seat in seats:
            seat.resume_if_due()
        if blow is not None and time.monotonic() > next_at:
            kind, fate = blow
            owners = {claim.owner for claim in store.list_claimed_jobs()}
            candidates = [seat for seat in seats if seat.kind == kind and seat.is_at_work and seat.name in owners]
            if candidates:
                FATES[fate](chance.choice(candidates))
                dealt[f"{kind}: {fate}"] += 1
                blow, next_at = next(blows, None), time.monotonic() + plan.blow_seconds
        time.sleep(LOOK_SECONDS)
    return dealt


def _blows(chance: random.Random) -> Iterator[tuple[str, str]]:
    """Every fate for every kind of agent, shuffled again for each round."""
    while True:
        blows = list(product(KINDS, FATES))
        chance.shuffle(blows)
        yield from blows


def _check_and_count(log: list[Event], diary: list[Entry], plan: Plan) -> tuple[Counter[str], int, int, int]:
    done = Counter(event.job_id for event in log if event.type == "done")
    assert done == Counter({f"job-{number}": 1 for number in range(plan.jobs)}), "every job is done once"
    assert {entry.command.removeprefix("octostore ").split()[0] for entry in diary if entry.command} <= OWN_WORDS
    claims = sorted((entry for entry in diary if entry.what == "claimed"), key=lambda entry: entry.fencing_token)
    for claim in claims:
        saved = [
            e.step
            for e in diary
            if e.what == "saved" and e.job_id == claim.job_id and e.fencing_token < claim.fencing_token
        ]
        assert claim.step >= max(saved, default=0), f"{claim} did not get the checkpoint of its predecessor"
    endings = Counter(
        _ending(event) for event in log if "fencing_token" in event.data and event.type not in {"claimed", "stuck"}
    )
    resumed = sum(claim.step > 0 for claim in claims)
    refused = sum(entry.what == "lost" for entry in diary)
    return endings, sum(event.type == "claimed" for event in log), resumed, refused


def _ending(event: Event) -> str:
    """The event's type, with its error or note if it has one."""
    why = event.data.get("error") or event.data.get("note") or ""
    return re.sub(rf"({'|'.join(KINDS)})-[\d.]+", "an agent", f"{event.type}: {why}".removesuffix(": "))


def _check_nothing_is_left(seats: list[Seat], patience: float) -> None:
    """Keepers end with their claims."""
    deadline = time.monotonic() + patience
    for seat in seats:
        while left := list(seat.processes()):
            assert time.monotonic() < deadline, f"{seat.name} left {left}"
            time.sleep(LOOK_SECONDS)


# Command line


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.agents.swarm", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--agents", type=int, default=5, help="of each kind (5)")
    parser.add_argument("--every", type=float, default=5, metavar="S", help="seconds between kills or stalls (5)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    plan = Plan(options.jobs, options.agents, options.every, blows=options.jobs, ttl=15, max_silence=10, patience=1_800)
    with tempfile.TemporaryDirectory(prefix="octostore-swarm-") as folder:
        _show(plan, run(Path(folder), plan, options.seed))


def _show(plan: Plan, result: Result) -> None:
    print(f"{plan.jobs} jobs, {plan.agents} agents with a shell and {plan.agents} with MCP: {result.seconds:.0f} s")
    for title, counts in (("agents", result.fates), ("claims", result.endings)):
        for what, count in counts.most_common():
            print(f"  {count:>6,} {title} {what}")
    print(f"  {result.claims:>6,} claims, {result.resumed:,} of them from another agent's checkpoint")
    print(f"  {result.refused:>6,} late writes, all refused")
    print("every job was done once, and nobody called heartbeat")


if __name__ == "__main__":
    main()
