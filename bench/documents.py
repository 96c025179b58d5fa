"""How long the rules take for a job with a large payload and for one without. Everybody else waits meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import msgspec

from bench.opening import opened
from bench.tables import show
from octostore.core.commands import AnyCommand, ClaimJob, Enqueue
from octostore.stores import batch

PAYLOAD_BYTES = 250_000
TARGET = "1.30"


def report(scratch: Path, samples: int) -> None:
    payload = _payload()
    took: dict[str, list[float]] = {}
    with opened(scratch / "documents.db") as store:
        jobs: dict[str, bytes | None] = {"large": payload, "none": None}
        for number in range(samples):
            for size, document in jobs.items():
                job_id = f"{size}-{number}"
                _run(store, Enqueue(job_id=job_id, kind="work", payload=document))
                with _timed() as seconds:
                    _run(store, ClaimJob(job_id=job_id, owner="agent-3"))
                took.setdefault(size, []).extend(seconds)
    large, none = median(took["large"]) * 1e6, median(took["none"]) * 1e6
    show(
        f"Documents: `decide` of a claim, in microseconds (medians of {samples}, alternating)",
        ["call", f"{len(payload):,} bytes", "no payload", "large:none", "target"],
        [["decide", f"{large:,.0f}", f"{none:,.0f}", f"{large / none:.2f}", TARGET]],
    )


def _payload() -> bytes:
    """Structured data, as programs send it. One long string would decode in no time."""
    entry = {"path": "src/octostore/core/model.py", "line": 118, "labels": ["bug", "later"], "done": False}
    return msgspec.json.encode([entry] * (PAYLOAD_BYTES // len(msgspec.json.encode(entry))))


def _run(store: Any, command: AnyCommand) -> None:
    (reply,) = store.submit([command]).result()
    if isinstance(reply, Exception):
        raise reply


@contextmanager
def _timed() -> Iterator[list[float]]:
    """How long each call of `decide` takes."""
    took: list[float] = []
    decide: Any = batch.decide  # type: ignore[attr-defined]

    def timed(*arguments: Any) -> Any:
        started = perf_counter()
        try:
            return decide(*arguments)
        finally:
            took.append(perf_counter() - started)

    with patch.object(batch, "decide", timed):
        yield took
