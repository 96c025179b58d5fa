"""Claim and release through our client, compared with redis-py on an equally durable Redis."""

import sys
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.rounds import interleaved, ratio
from bench.served import batches, peers
from bench.served.pairs import MeasuredPairs, Pairs
from bench.served.peers import Peer
from bench.served.processes import in_own_process, python_of
from bench.tables import show

THREADS_AND_NAMES = ((1, 1), (8, 1), (1, batches.SIZE))
TARGETS = {1: "0.60", batches.SIZE: batches.TARGETS[batches.REDIS]}

BEFORE = "before"
"""It lacks calls for many names."""
REDIS = "redis-py"


class Client(NamedTuple):
    title: str
    peer: Peer
    executable: str = sys.executable


def report(scratch: Path, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        clients = [Client("ours", stack.enter_context(peers.ours(scratch / "clients-ours")))]
        if peers.BEFORE:
            server = stack.enter_context(peers.before(scratch / "clients-before", peers.BEFORE))
            clients.append(Client(BEFORE, server, python_of(peers.BEFORE)))
        if peers.is_installed("redis-server") and find_spec("redis") is not None:
            clients.append(Client(REDIS, stack.enter_context(peers.redis(scratch / "clients-redis"))))
        rows = []
        for threads, names in THREADS_AND_NAMES:
            able = [client for client in clients if names == 1 or client.title != BEFORE]
            results = interleaved([partial(_measure, client, threads, names, seconds) for client in able], rounds)
            for client, own in zip(able, results, strict=True):
                target = TARGETS[names] if client.title == REDIS else ""
                rows.append([str(threads), str(names), *_cells(client, own, results[0]), target])
    title = (
        f"Client: names claimed and released, sync (medians of {rounds} rounds of {seconds:g} seconds, alternating)\n"
        "   ours: claim_job and release_job over HTTP; redis-py: Lock.acquire and Lock.release; both durable\n"
        f"   {batches.SIZE} names per call: claim_many and release_many; redis-py: SET NX PX and DEL in pipelines"
    )
    header = ["threads", "names", "client", "pairs/s", "p50 ms", "p99 ms", "client CPU µs", "ours:it", "target"]
    show(title, header, rows)
    if clients[-1].title != REDIS:
        print("  redis-py: not measured; it needs redis-server, and redis from the `bench` extra", end="\n\n")


def _measure(client: Client, threads: int, names: int, seconds: float) -> MeasuredPairs:
    pairs = Pairs(client.peer.port, client.peer.token, threads, names, seconds)
    return in_own_process("bench.served.pairs", pairs, MeasuredPairs, client.executable)


def _cells(client: Client, own: list[MeasuredPairs], ours: list[MeasuredPairs]) -> list[str]:
    return [
        client.title,
        f"{median(m.per_second for m in own):,.0f}",
        f"{median(m.p50 for m in own) * 1e3:.2f}",
        f"{median(m.p99 for m in own) * 1e3:.2f}",
        f"{median(m.cpu for m in own) * 1e6:,.1f}",
        "" if own is ours else f"{ratio([m.per_second for m in ours], [m.per_second for m in own]):.2f}",
    ]
