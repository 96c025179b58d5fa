"""Many names in one request, compared with single requests and with Redis pipelines."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.rounds import interleaved, ratio
from bench.served import peers, words
from bench.served.claims import TIRED, series, warm_up
from bench.served.generator import Measured, measure
from bench.served.peers import Peer
from bench.served.words import Talk
from bench.tables import show

SIZE = 100
SINGLE_CONNECTIONS = 64
BATCH_CONNECTIONS = (1, 8)
REDIS = "Redis, a pipeline"
TARGETS = {"single requests": "4.00", REDIS: "0.20"}


class Way(NamedTuple):
    title: str
    peer: Peer
    talk: Talk
    connections: int


def report(scratch: Path, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        ours = stack.enter_context(peers.ours(scratch / "batch-ours"))
        redis = (
            stack.enter_context(peers.redis(scratch / "batch-redis")) if peers.is_installed("redis-server") else None
        )
        rows = []
        for connections in BATCH_CONNECTIONS:
            ways = _ways(ours, redis, connections)
            warm_up([(way.peer, way.talk) for way in ways], seconds)
            results = interleaved([partial(_measure, way, seconds) for way in ways], rounds)
            rows += [_row(way, own, results[0]) for way, own in zip(ways, results, strict=True)]
    title = (
        f"Batches: jobs claimed and released, {SIZE} per call (medians of {rounds} rounds of {seconds:g} seconds, "
        "alternating)\n   Redis: SET NX PX and DEL, appendfsync always; CPU µs: the server's, per name"
    )
    header = ["method", "connections", "names/s", "p50 ms", "p99 ms", "CPU µs", "batch:it", "target", "CPU batch:it"]
    show(title, header, rows)


def _ways(ours: Peer, redis: Peer | None, connections: int) -> list[Way]:
    ways = [
        Way("POST /batch", ours, words.batch(ours.token, SIZE), connections),
        Way("single requests", ours, words.jobs(ours.token), SINGLE_CONNECTIONS),
    ]
    if redis is not None:
        ways.append(Way(REDIS, redis, words.redis(SIZE), connections))
    return ways


def _measure(way: Way, seconds: float) -> Measured:
    return measure(way.peer, way.talk, way.connections, seconds, next(series))


def _row(way: Way, own: list[Measured], batch: list[Measured]) -> list[str]:
    is_batch = own is batch
    held_back = median(m.generator for m in own) > TIRED
    return [
        way.title,
        str(way.connections),
        f"{median(m.per_second for m in own):,.0f}" + ("+" if held_back else ""),
        f"{median(m.p50 for m in own) * 1e3:.2f}",
        f"{median(m.p99 for m in own) * 1e3:.2f}",
        f"{median(m.cpu for m in own) * 1e6:,.1f}",
        "" if is_batch else f"{ratio([m.per_second for m in batch], [m.per_second for m in own]):.2f}",
        TARGETS.get(way.title, ""),
        "" if is_batch else f"{ratio([m.cpu for m in batch], [m.cpu for m in own]):.2f}",
    ]
