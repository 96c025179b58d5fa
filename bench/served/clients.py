"""Section 5: claim and release through our client, next to redis-py's lock on a Redis that is as durable."""

from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from bench.served import peers
from bench.served.pairs import MeasuredPairs, Pairs
from bench.served.peers import Peer
from bench.served.processes import in_own_process
from bench.tables import show

THREADS = (1, 8)


def report(scratch: Path, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        asked = [stack.enter_context(peers.ours(scratch / "clients-octostore"))]
        if peers.is_installed("redis-server") and find_spec("redis") is not None:
            asked.append(stack.enter_context(peers.redis(scratch / "clients-redis")))
        rows = []
        for threads in THREADS:
            measured = [[_measure(target, threads, seconds) for target in asked] for _ in range(rounds)]
            rows += [_row(threads, number, target, measured) for number, target in enumerate(asked)]
    title = (
        f"5. Claim and release through a client, sync (medians of {rounds} rounds of {seconds:g} seconds, in turn)\n"
        "   OctoStore: claim_job and release_job over HTTP; redis-py: Lock.acquire and Lock.release; both durable"
    )
    show(title, ["threads", "client", "pairs/s", "p50 ms", "p99 ms", "OctoStore:it"], rows)
    if len(asked) == 1:
        print("  redis-py: not measured; it needs redis-server, and redis of the extra `bench`", end="\n\n")


def _measure(target: Peer, threads: int, seconds: float) -> MeasuredPairs:
    pairs = Pairs(target.port, target.token, threads, seconds)
    return in_own_process("bench.served.pairs", pairs, MeasuredPairs)


def _row(threads: int, number: int, target: Peer, measured: list[list[MeasuredPairs]]) -> list[str]:
    own = [of_round[number] for of_round in measured]
    ratio = median(of_round[0].per_second / of_round[number].per_second for of_round in measured)
    return [
        str(threads),
        target.title if number == 0 else "redis-py",
        f"{median(m.per_second for m in own):,.0f}",
        f"{median(m.p50 for m in own) * 1e3:.2f}",
        f"{median(m.p99 for m in own) * 1e3:.2f}",
        f"{ratio:.2f}" if number else "",
    ]
