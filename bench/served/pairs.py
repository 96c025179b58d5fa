"""Locking and unlocking through a client library, in threads or many at once; a separate process for each round."""

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
"""Lock and unlock once, or as many names as one call takes; raises if that fails."""


class Pairs(msgspec.Struct):
    port: int
    token: str
    """For OctoStore's server; empty for Redis."""
    threads: int
    names: int
    """How many each call locks or unlocks."""
    seconds: float


class MeasuredPairs(msgspec.Struct):
    per_second: float
    p50: float
    p99: float
    cpu: float
    """CPU seconds that the client used for each pair, on all cores."""


def measure(pairs: Pairs) -> MeasuredPairs:
    new_pair = (_through_octostore if pairs.token else _through_redis)(pairs)
    latencies: list[float] = []
    begin, cpu = perf_counter() + WARM_UP_SECONDS, process_time()
    calls = [new_pair(f"lock-{number}") for number in range(pairs.threads)]
    ended = [threading.Thread(target=_repeat, args=(call, begin, pairs.seconds, latencies)) for call in calls]
    for thread in ended:
        thread.start()
    for thread in ended:
        thread.join()
    done = len(latencies) * pairs.names
    # The CPU time includes the warm-up, so the count does, too (approximately).
    cpu = (process_time() - cpu) / (done * (1 + WARM_UP_SECONDS / pairs.seconds))
    return MeasuredPairs(done / pairs.seconds, percentile(latencies, 50), percentile(latencies, 99), cpu)


def _repeat(pair: Pair, begin: float, seconds: float, latencies: list[float]) -> None:
    while (started := perf_counter()) < begin + seconds:
        pair()
        ended = perf_counter()
        if begin <= ended < begin + seconds:
            latencies.append(ended - started)


def _through_octostore(pairs: Pairs) -> Callable[[str], Pair]:
    store = octostore.connect(f"http://{LOOPBACK}:{pairs.port}", token=pairs.token)

    def new_pair(name: str) -> Pair:
        names = _names(name, pairs)

        def one() -> None:
            claim = store.claim_job(name, owner="agent-3", ttl=TTL_SECONDS)
            if claim.lease_id is None:
                raise RuntimeError(f"a claim got {claim!r}")
            store.release_job(name, claim.lease_id)

        def many() -> None:
            replies = store.release_many(store.claim_many(names, owner="agent-3", ttl=TTL_SECONDS))
            if len(replies) != len(names):
                raise RuntimeError(f"{len(names)} releases got {len(replies)} replies")
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply

        return one if pairs.names == 1 else many

    return new_pair


def _through_redis(pairs: Pairs) -> Callable[[str], Pair]:
    # Imported here because it is optional.
    import redis  # noqa: PLC0415

    client = redis.Redis(LOOPBACK, pairs.port)

    def new_pair(name: str) -> Pair:
        names = _names(name, pairs)
        lock = client.lock(name, timeout=TTL_SECONDS, blocking=False, thread_local=False)

        def one() -> None:
            if not lock.acquire():
                raise RuntimeError("a lock was not acquired")
            lock.release()

        def many() -> None:
            pipeline = client.pipeline(transaction=False)
            for each in names:
                pipeline.set(each, "agent-3", nx=True, px=TTL_SECONDS * 1_000)
            if not all(pipeline.execute()):
                raise RuntimeError("a name was not set")
            for each in names:
                pipeline.delete(each)
            if not all(pipeline.execute()):
                raise RuntimeError("a name was not deleted")

        return one if pairs.names == 1 else many

    return new_pair


def _names(name: str, pairs: Pairs) -> list[str]:
    return [f"{name}-{number}" for number in range(pairs.names)]


def main() -> None:
    pairs = msgspec.json.decode(sys.stdin.buffer.read(), type=Pairs)
    sys.stdout.buffer.write(msgspec.json.encode(measure(pairs)))


if __name__ == "__main__":
    main()
