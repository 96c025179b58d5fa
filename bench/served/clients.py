"""Claim and release through our client, compared with redis-py's lock on an equally durable Redis."""

import sys
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.rounds import interleaved, ratio
from bench.served import peers
from bench.served.pairs import MeasuredPairs, Pairs
from bench.served.peers import Peer
from bench.served.processes import in_own_process, python_of
from bench.tables import show

THREADS = (1, 8)
TARGET = "0.60"


class Client(NamedTuple):
    title: str
    peer: Peer
    executable: str = sys.executable
    target: str = ""


def report(scratch: Path, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        clients = [Client("ours", stack.enter_context(peers.ours(scratch / "clients-ours")))]
        if peers.BEFORE:
            server = stack.enter_context(peers.before(scratch / "clients-before", peers.BEFORE))
            clients.append(Client("before", server, python_of(peers.BEFORE)))
        if peers.is_installed("redis-server") and find_spec("redis") is not None:
            server = stack.enter_context(peers.redis(scratch / "clients-redis"))
            clients.append(Client("redis-py", server, target=TARGET))
        rows = []
        for threads in THREADS:
            results = interleaved([partial(_measure, client, threads, seconds) for client in clients], rounds)
            rows += [[str(threads), *_cells(*pair, results[0])] for pair in zip(clients, results, strict=True)]
    title = (
        f"Client: claim and release, sync (medians of {rounds} rounds of {seconds:g} seconds, alternating)\n"
        "   ours: claim_job and release_job over HTTP; redis-py: Lock.acquire and Lock.release; both durable"
    )
    show(title, ["threads", "client", "pairs/s", "p50 ms", "p99 ms", "client CPU µs", "ours:it", "target"], rows)
    if clients[-1].title != "redis-py":
        print("  redis-py: not measured; it needs redis-server, and redis from the `bench` extra", end="\n\n")


def _measure(client: Client, threads: int, seconds: float) -> MeasuredPairs:
    pairs = Pairs(client.peer.port, client.peer.token, threads, seconds)
    return in_own_process("bench.served.pairs", pairs, MeasuredPairs, client.executable)


def _cells(client: Client, own: list[MeasuredPairs], ours: list[MeasuredPairs]) -> list[str]:
    return [
        client.title,
        f"{median(m.per_second for m in own):,.0f}",
        f"{median(m.p50 for m in own) * 1e3:.2f}",
        f"{median(m.p99 for m in own) * 1e3:.2f}",
        f"{median(m.cpu for m in own) * 1e6:,.0f}",
        "" if own is ours else f"{ratio([m.per_second for m in ours], [m.per_second for m in own]):.2f}",
        client.target,
    ]
