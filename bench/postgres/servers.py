"""Claims over HTTP, through one server and through two on the same PostgreSQL."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.postgres.database import Database
from bench.rounds import interleaved, ratio
from bench.served import peers, words
from bench.served.generator import measure
from bench.served.peers import Peer
from bench.tables import show

CONNECTIONS = 64
GENERATORS = 2
"""The same number in both cases, each with its share of the connections, so that only the servers differ."""

series = count(1)


class Together(NamedTuple):
    """What all generators measured at the same time; latencies are the worst generator's."""

    per_second: float
    p50: float
    p99: float


def report(scratch: Path, database: Database, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        # In separate schemas, so that the one server is not woken by the two servers' commits.
        fleets = [
            [stack.enter_context(peers.ours(scratch / f"servers-{size}-{number}", url)) for number in range(size)]
            for size in (1, 2)
            for url in [database.store_url(stack.enter_context(database.schema()))]
        ]
        one, two = interleaved([partial(_measure, fleet, seconds) for fleet in fleets], rounds)
    title = (
        f"PostgreSQL: jobs claimed and released over HTTP, {CONNECTIONS} connections "
        f"(medians of {rounds} rounds of {seconds:g} seconds, alternating)\n"
        f"   two: two `octostore serve` on one database, half the connections each; always {GENERATORS} generators"
    )
    gain = ratio([m.per_second for m in two], [m.per_second for m in one])
    show(title, ["servers", "requests/s", "p50 ms", "p99 ms", "two:one"], [_row("one", one), _row("two", two, gain)])


def _measure(fleet: Sequence[Peer], seconds: float) -> Together:
    asked = list(islice(cycle(fleet), GENERATORS))
    with ThreadPoolExecutor(GENERATORS) as threads:
        parts = list(
            threads.map(
                lambda peer: measure(peer, words.jobs(peer.token), CONNECTIONS // GENERATORS, seconds, next(series)),
                asked,
            )
        )
    return Together(sum(p.per_second for p in parts), max(p.p50 for p in parts), max(p.p99 for p in parts))


def _row(who: str, own: Sequence[Together], gain: float | None = None) -> list[str]:
    return [
        who,
        f"{median(m.per_second for m in own):,.0f}",
        f"{median(m.p50 for m in own) * 1e3:.1f}",
        f"{median(m.p99 for m in own) * 1e3:.1f}",
        f"{gain:.2f}" if gain else "",
    ]
