"""Locking and unlocking through a client library, in several threads; a separate process for each round."""

import sys
import threading
from collections.abc import Callable
from time import perf_counter, process_time
from typing import TypeAlias

import msgspec

import octostore
from bench.served.processes import LOOPBACK
from bench.served.words import TTL_SECONDS
from bench.timing import percentile

WARM_UP_SECONDS = 0.3

Pair: TypeAlias = Callable[[], None]
"""Lock and unlock once; raises if that fails."""


class Pairs(msgspec.Struct):
    port: int
    token: str
    """For OctoStore's server; empty for Redis."""
    threads: int
    seconds: float


class MeasuredPairs(msgspec.Struct):
    per_second: float
    p50: float
    p99: float
    cpu: float
    """CPU seconds that the client used for each pair, on all cores."""


def measure(pairs: Pairs) -> MeasuredPairs:
    new_pair = _through_octostore(pairs) if pairs.token else _through_redis(pairs)
    latencies: list[float] = []
    begin, cpu = perf_counter() + WARM_UP_SECONDS, process_time()
    calls = [new_pair(f"lock-{number}") for number in range(pairs.threads)]
    ended = [threading.Thread(target=_repeat, args=(call, begin, pairs.seconds, latencies)) for call in calls]
    for thread in ended:
        thread.start()
    for thread in ended:
        thread.join()
    # The CPU time includes the warm-up, so the count does, too (approximately).
    cpu = (process_time() - cpu) / (len(latencies) * (1 + WARM_UP_SECONDS / pairs.seconds))
    return MeasuredPairs(len(latencies) / pairs.seconds, percentile(latencies, 50), percentile(latencies, 99), cpu)


def _repeat(pair: Pair, begin: float, seconds: float, latencies: list[float]) -> None:
    while (started := perf_counter()) < begin + seconds:
        pair()
        ended = perf_counter()
        if begin <= ended < begin + seconds:
            latencies.append(ended - started)


def _through_octostore(pairs: Pairs) -> Callable[[str], Pair]:
    store = octostore.connect(f"http://{LOOPBACK}:{pairs.port}", token=pairs.token)

    def new_pair(name: str) -> Pair:
        def pair() -> None:
            claim = store.claim_job(name, owner="agent-3", ttl=TTL_SECONDS)
            if claim.lease_id is None:
                raise RuntimeError(f"a claim got {claim!r}")
            store.release_job(name, claim.lease_id)

        return pair

    return new_pair


def _through_redis(pairs: Pairs) -> Callable[[str], Pair]:
    # Imported here because it is optional.
    import redis  # noqa: PLC0415

    client = redis.Redis(LOOPBACK, pairs.port)

    def new_pair(name: str) -> Pair:
        lock = client.lock(name, timeout=TTL_SECONDS, blocking=False, thread_local=False)

        def pair() -> None:
            if not lock.acquire():
                raise RuntimeError("a lock was not acquired")
            lock.release()

        return pair

    return new_pair


def main() -> None:
    pairs = msgspec.json.decode(sys.stdin.buffer.read(), type=Pairs)
    sys.stdout.buffer.write(msgspec.json.encode(measure(pairs)))


if __name__ == "__main__":
    main()
