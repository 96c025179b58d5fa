"""What the same call costs on a small and on a large store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from bench.opening import clock_from, opened
from bench.sample_file import SampleFile
from bench.sample_rows import BUILT_AT, KINDS, job_name
from bench.tables import show
from bench.timing import only_new_garbage, percentile, seconds
from octostore.core.commands import ClaimJob, ClaimNext
from octostore.core.questions import ListEvents, ListJobs
from octostore.core.replies import ClaimReply, EventPage, JobPage
from octostore.stores.store import LocalStore

WARM_UP = 20
"""Calls on each side that are not counted: the first ones open connections and compile statements."""

FIRST_CLAIMS = 200
"""Claims before anything is timed. Until the WAL has reached its full size, every commit extends it, and on many
filesystems that is slower than overwriting."""

CLAIM_TARGET = "1.20"


class Opened(NamedTuple):
    store: LocalStore
    jobs: int


Call = Callable[[Opened, Random], Callable[[], object]]
"""Prepare a call and return the function to time, which raises if the reply is wrong."""


def report(empty: Path, small: SampleFile, large: SampleFile, samples: int) -> None:
    with _at_work(large) as much, only_new_garbage():
        with _at_work(SampleFile(empty, 0, 0)) as nothing:
            report_claims("SQLite", nothing, much, samples)
        with _at_work(small) as little:
            _report_calls(little, much, small, large, samples // 10)


@contextmanager
def _at_work(file: SampleFile) -> Iterator[Opened]:
    with opened(file.path, clock_from(BUILT_AT)) as store:
        at_work = Opened(store, file.jobs)
        first_claims(at_work)
        yield at_work


def first_claims(at_work: Opened) -> None:
    random = Random(at_work.jobs)
    for _ in range(FIRST_CLAIMS):
        _claim(at_work, random)()


def report_claims(where: str, nothing: Opened, much: Opened, samples: int) -> None:
    before, after = _in_turn(_claim, nothing, much, samples)
    rows = []
    for percent in (50, 99):
        one, other = percentile(before, percent), percentile(after, percent)
        target = CLAIM_TARGET if percent == 50 else ""
        rows.append([f"p{percent}", *_micros(one, other), f"{other / one:.2f}", target])
    title = (
        f"{where}: latency of a claim of a new name, one per commit, in microseconds ({samples:,} on each side, "
        f"alternating)\n   empty: except for {FIRST_CLAIMS} claims before; large: {much.jobs:,} jobs"
    )
    show(title, ["claim", "empty store", "large store", "large:empty", "target"], rows)


def _report_calls(little: Opened, much: Opened, small: SampleFile, large: SampleFile, samples: int) -> None:
    rows = []
    for name, call in CALLS.items():
        one, other = (percentile(times, 50) for times in _in_turn(call, little, much, samples))
        rows.append([name, *_micros(one, other), f"{other / one:.2f}"])
    title = (
        f"SQLite: cost of other calls, in microseconds (p50 of {samples:,} on each side, alternating)\n"
        f"   small: {small.jobs:,} jobs and {small.events:,} events; large: {large.jobs:,} and {large.events:,}"
    )
    show(title, ["call", "small file", "large file", "large:small"], rows)


def _in_turn(call: Call, one: Opened, other: Opened, samples: int) -> tuple[list[float], list[float]]:
    randoms = Random(1), Random(1)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(WARM_UP + samples):
        for side, file in enumerate((one, other)):
            times[side].append(seconds(call(file, randoms[side])))
    return times[0][WARM_UP:], times[1][WARM_UP:]


def _micros(*values: float) -> list[str]:
    return [f"{value * 1e6:,.0f}" for value in values]


# The calls


def _claim(file: Opened, random: Random) -> Callable[[], object]:
    name = f"{job_name(random.randrange(1_000_000))}-{random.getrandbits(32):08x}"
    commands = [ClaimJob(job_id=name, owner="agent-3", metadata=b'{"branch":"main"}')]
    return lambda: _check_claimed(file.store.submit(commands).result()[0])


def _claim_next(kinds: tuple[str, ...] | None) -> Call:
    commands = [ClaimNext(owner="agent-3", kinds=kinds)]
    return lambda file, _random: lambda: _check_claimed(file.store.submit(commands).result()[0])


def _list_page(file: Opened, random: Random) -> Callable[[], object]:
    area = _some_name(file, random).rstrip("0123456789")
    return lambda: _check_page(file.store.ask(ListJobs(prefix=area, limit=100)), 100)


def _list_dead(file: Opened, random: Random) -> Callable[[], object]:
    area = _some_name(file, random).rstrip("0123456789")
    return lambda: _check_page(file.store.ask(ListJobs(prefix=area, status="dead", limit=10)), 10)


def _list_claimed(file: Opened, random: Random) -> Callable[[], object]:
    prefix = _some_name(file, random)[:-2]
    return lambda: _check_page(file.store.ask(ListJobs(prefix=prefix, status="claimed", limit=100)), 0)


def _list_events(file: Opened, random: Random) -> Callable[[], object]:
    name = _some_name(file, random)
    return lambda: _check_events(file.store.ask(ListEvents(job_id=name)))


CALLS: dict[str, Call] = {
    "list_jobs, a page of 100 by prefix": _list_page,
    "list_jobs, 10 dead ones by prefix": _list_dead,
    "list_claimed_jobs, some of 100 by prefix": _list_claimed,
    "events of one job": _list_events,
    "claim_next": _claim_next(None),
    "claim_next of two kinds": _claim_next(KINDS[:2]),
}


def _some_name(file: Opened, random: Random) -> str:
    return job_name(random.randrange(file.jobs))


def _check_claimed(reply: object) -> None:
    if not isinstance(reply, ClaimReply) or reply.status != "claimed":
        raise TypeError(f"a claim returned {reply!r}")


def _check_page(page: JobPage, least: int) -> None:
    if len(page.jobs) < least:
        raise ValueError(f"{len(page.jobs)} jobs were listed instead of {least}")


def _check_events(page: EventPage) -> None:
    if not page.events:
        raise ValueError("a job has no events")
