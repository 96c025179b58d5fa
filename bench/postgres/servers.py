"""Section 10: durable claims over HTTP through one server and through two on the same PostgreSQL."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.postgres.database import Database
from bench.served.load import Load, Measured
from bench.served.processes import free_port, in_own_process, python, running
from bench.served.targets import CLAIM, Words, http_request
from bench.tables import show

CONNECTIONS = 64
GENERATORS = 2
"""Always as many, each with its share of the connections, so that only what they ask is different."""
TIRED = 0.8
"""From here on it may be a generator that takes the time, and not who is asked: then it is at least so much."""


class Server(NamedTuple):
    port: int
    words: Words


class Together(NamedTuple):
    """What all generators have measured at the same time; the latencies are the worst one's."""

    per_second: float
    p50: float
    p99: float
    cpu: float


def report(scratch: Path, database: Database, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        # Apart from each other: the other ones' commits are no news to them.
        fleets = [
            [stack.enter_context(_server(scratch / f"servers-{size}-{number}", url)) for number in range(size)]
            for size in (1, 2)
            for url in [database.store_url(stack.enter_context(database.schema()))]
        ]
        series = count(1)
        measured: list[list[Together]] = [[] for _ in fleets]
        for turn in range(rounds):
            for number in (0, 1) if turn % 2 == 0 else (1, 0):
                measured[number].append(_measure(fleets[number], seconds, series))
    title = (
        f"10. Durable claims of distinct names over HTTP on PostgreSQL, {CONNECTIONS} connections "
        f"(medians of {rounds} rounds of {seconds:g} seconds, in turn)\n"
        f"   two: two `octostore serve` on one database, half of the connections each; always {GENERATORS} generators\n"
        "   generator: how much of a core each took to ask; a + marks rates that they may have held back"
    )
    rows = [_row(who, measured[0], own) for who, own in zip(("one", "two"), measured, strict=True)]
    show(title, ["servers", "claims/s", "p50 ms", "p99 ms", "it:one", "generator"], rows)


@contextmanager
def _server(folder: Path, url: str) -> Iterator[Server]:
    port = free_port()
    limits = ("--requests-per-second", "1000000", "--max-connections", "20000")
    command = python("octostore", "serve", "--url", url, "--port", str(port), *limits)
    with running(command, folder, port, http_request("GET", "/livez"), b"200 OK"):
        token = (folder / "admin.token").read_text().strip()
        request = http_request("POST", "/jobs/NAME/claim", CLAIM, token=token)
        yield Server(port, Words(request=request, start=b"HTTP/1.1 200", content=b'"status":"claimed"'))


def _measure(fleet: Sequence[Server], seconds: float, series: Iterator[int]) -> Together:
    loads = [
        Load(server.port, server.words, CONNECTIONS // GENERATORS, seconds, next(series))
        for server in islice(cycle(fleet), GENERATORS)
    ]
    with ThreadPoolExecutor(GENERATORS) as threads:
        parts = list(threads.map(lambda load: in_own_process("bench.served.load", load, Measured), loads))
    return Together(
        sum(part.per_second for part in parts),
        max(part.p50 for part in parts),
        max(part.p99 for part in parts),
        max(part.cpu for part in parts),
    )


def _row(who: str, one: Sequence[Together], own: Sequence[Together]) -> list[str]:
    # Of each round by itself: the machine's pace may change from one to the next.
    ratio = median(mine.per_second / other.per_second for mine, other in zip(own, one, strict=True))
    cpu = median(m.cpu for m in own)
    return [
        who,
        f"{median(m.per_second for m in own):,.0f}" + ("+" if cpu > TIRED else ""),
        f"{median(m.p50 for m in own) * 1e3:.1f}",
        f"{median(m.p99 for m in own) * 1e3:.1f}",
        f"{ratio:.2f}" if own is not one else "",
        f"{cpu:.0%}",
    ]
