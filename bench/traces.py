"""What spans cost: the CPU of a claim and its release, with and without tracing.

`python -m bench.traces off` only claims and releases, for counting instructions.
"""

import sys
import time
from collections.abc import Sequence
from functools import partial
from statistics import median

import octostore
from bench.rounds import interleaved, ratio
from octostore.client.tracing import Tracing

CLAIMS = 2_000
JOBS = 50
ROUNDS = 9


def claim_and_release(tracing: Tracing) -> float:
    """CPU seconds of one claim and its release, on the store in memory, where the share of the spans is largest."""
    with octostore.connect("memory:", tracing=tracing) as store:
        started_at = time.process_time()
        for number in range(CLAIMS):
            reply = store.claim_job(f"job-{number % JOBS}", "ann")
            store.release_job(f"job-{number % JOBS}", reply.lease_id or "")
        return (time.process_time() - started_at) / CLAIMS


def _show(name: str, results: Sequence[float], without: Sequence[float]) -> None:
    print(f"{name:<10} {median(results) * 1e6:6.0f} µs   {ratio(results, without):.2f}")


def main() -> None:
    if sys.argv[1:] == ["off"]:
        claim_and_release(tracing=False)
        return
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # not imported for `off`
    from opentelemetry.trace import NoOpTracerProvider  # noqa: PLC0415

    kinds: dict[str, Tracing] = {"without": False, "no SDK": NoOpTracerProvider(), "with SDK": TracerProvider()}
    turns = [partial(claim_and_release, tracing) for tracing in kinds.values()]
    results = interleaved(turns, ROUNDS)
    for name, those in zip(kinds, results, strict=True):
        _show(name, those, results[0])


if __name__ == "__main__":
    main()
