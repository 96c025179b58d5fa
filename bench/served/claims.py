"""Locks acquired and released over HTTP, durably: our server compared with others."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

from bench.rounds import interleaved, ratio
from bench.served import peers
from bench.served.generator import Measured, measure
from bench.served.peers import Peer
from bench.served.processes import readable
from bench.served.words import Talk
from bench.tables import show

CONNECTIONS = (64, 1)
WARM_UP_CONNECTIONS = 16
TIRED = 0.8
"""Above this share of a core, the generator may be the bottleneck, and the rate is a lower bound."""

HEADER = ["connections", "system", "requests/s", "p50 ms", "p99 ms", "CPU µs", "ours:it", "CPU ours:it", "generator"]

series = count(1)


def report(scratch: Path, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        asked = [stack.enter_context(peer) for peer in peers.with_locks(scratch / "claims")]
        talks = [(peer, peer.locks()) for peer in asked]
        warm_up(talks, seconds)
        rows = []
        for connections in CONNECTIONS:
            rows += measured_rows(talks, connections, rounds, seconds)
    title = (
        f"HTTP: new locks acquired and released (medians of {rounds} rounds of {seconds:g} seconds, alternating)\n"
        "   requests/s, p50 and p99: of correct responses; CPU µs: the server's, per request, on all cores\n"
        "   generator: its share of a core; a + marks rates that it may have held back"
    )
    show(title, HEADER, rows)
    for peer in asked:
        print(f"  {peer.title}: {readable(peer.command, scratch)}")
    print(*(f"  {line}" for line in peers.versions() + peers.missing()), sep="\n", end="\n\n", flush=True)


def warm_up(talks: Sequence[tuple[Peer, Talk]], seconds: float) -> None:
    """Until a file has reached its full size, every commit extends it."""
    for peer, talk in talks:
        measure(peer, talk, WARM_UP_CONNECTIONS, seconds / 2, next(series))


def measured_rows(talks: Sequence[tuple[Peer, Talk]], connections: int, rounds: int, seconds: float) -> list[list[str]]:
    """Ours comes first, and is compared with the others."""
    turns = [partial(_measure, peer, talk, connections, seconds) for peer, talk in talks]
    results = interleaved(turns, rounds)
    return [
        [str(connections), peer.title, *cells(result, results[0] if result is not results[0] else None)]
        for (peer, _), result in zip(talks, results, strict=True)
    ]


def cells(own: Sequence[Measured], ours: Sequence[Measured] | None) -> list[str]:
    generator = median(m.generator for m in own)
    wrong = sum(m.wrong for m in own)
    return [
        f"{median(m.per_second for m in own):,.0f}" + ("+" if generator > TIRED else ""),
        f"{median(m.p50 for m in own) * 1e3:.2f}",
        f"{median(m.p99 for m in own) * 1e3:.2f}",
        f"{median(m.cpu for m in own) * 1e6:,.0f}",
        f"{ratio([m.per_second for m in ours], [m.per_second for m in own]):.2f}" if ours else "",
        f"{ratio([m.cpu for m in ours], [m.cpu for m in own]):.2f}" if ours else "",
        f"{generator:.0%}" + (f", {wrong} WRONG" if wrong else ""),
    ]


def _measure(peer: Peer, talk: Talk, connections: int, seconds: float) -> Measured:
    return measure(peer, talk, connections, seconds, next(series))
