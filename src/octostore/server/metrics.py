"""Prometheus metrics. No label is the name of a job, an owner or a principal."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias, get_args

from octostore._version import __version__
from octostore.core.events import Claimed, LogEntry, decode_details
from octostore.core.replies import Figures

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

Counted: TypeAlias = Literal["claims", "heartbeats", "releases", "events"]
_Sample: TypeAlias = tuple[str, dict[str, str], float]
"""The suffix of the name, the labels and the value."""


class Family(NamedTuple):
    """One metric. Generates the help text in `/metrics` and the reference in docs/."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    about: str
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return f"octostore_{self.name}"


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "counter", "claims_total", "Claims by reply: claimed, held, done, delayed, dead or empty.", ("outcome",)
        ),
        Family("counter", "heartbeats_total", "Heartbeats: live, or lost if the lease had ended.", ("outcome",)),
        Family(
            "counter",
            "releases_total",
            "Claims ended by their owner: released, done, failed or deferred.",
            ("outcome",),
        ),
        Family("counter", "events_total", "Events appended to the log.", ("type",)),
        Family("counter", "expiries_total", "Claims that expired."),
        Family("counter", "takeovers_total", "Claims of jobs whose last owners had lost them."),
        Family(
            "histogram", "request_seconds", "Time per request; waiting claims include their wait.", ("route", "status")
        ),
        Family("histogram", "commit_seconds", "Time per transaction."),
        Family("histogram", "batch_size", "Commands per transaction."),
        Family("gauge", "claimed_jobs", "Live claims."),
        Family("gauge", "late_claims", "Live claims whose owners have missed heartbeats."),
        Family(
            "gauge", "stuck_claims", "Live claims whose owners have reported no progress for longer than max_silence."
        ),
        Family("gauge", "dead_jobs", "Dead letters: jobs out of attempts or cancelled."),
        Family("gauge", "open_sessions", "Open sessions."),
        Family("gauge", "queued_jobs", "Queued jobs, in the 100 longest queues."),
        Family("gauge", "oldest_due_seconds", "How long the oldest ready job has waited; 0 if none is ready."),
        Family("gauge", "waiting_claims", "Requests that are waiting for a job."),
        Family("gauge", "open_streams", "Open event streams."),
        Family("gauge", "build_info", "Always 1; the label is the version of the server.", ("version",)),
        Family("gauge", "queue_depth", "Queued jobs per queue, for the 100 longest.", ("queue",)),
    )
}


class Histogram:
    """Counts values up to each of `bounds`, and sums them."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self, labels: dict[str, str]) -> Iterator[_Sample]:
        counts = list(accumulate(self._counts))
        for bound, count in zip((*map(float, self._bounds), "+Inf"), counts, strict=True):
            yield "_bucket", {"le": str(bound), **labels}, count
        yield "_count", labels, counts[-1]
        yield "_sum", labels, self._sum


class Metrics:
    """Plain numbers: every claim counts, and few callers read."""

    def __init__(self) -> None:
        self.started_at = time.monotonic()
        self._counts: dict[Counted, Counter[str]] = {what: Counter() for what in get_args(Counted)}
        self._takeovers = 0
        self._requests: dict[tuple[str, int], Histogram] = {}
        self._commits, self._batches = Histogram(SECONDS), Histogram(BATCHES)

    def count(self, what: Counted, outcome: str) -> None:
        self._counts[what][outcome] += 1

    def on_batch(self, size: int, seconds: float) -> None:
        self._batches.add(size)
        self._commits.add(seconds)

    def on_entries(self, entries: list[LogEntry], types: list[str]) -> None:
        self._counts["events"].update(types)
        # Details omit absent fields, so the search avoids decoding every claim.
        self._takeovers += sum(b'"took_over_from":' in entry.details and _is_takeover(entry) for entry in entries)

    def on_request(self, route: str, status: int, seconds: float) -> None:
        spread = self._requests.get((route, status))
        if spread is None:
            spread = self._requests[route, status] = Histogram(SECONDS)
        spread.add(seconds)

    def total(self, what: Counted, *outcomes: str) -> int:
        """The count since the server started."""
        return sum(n for outcome, n in self._counts[what].items() if not outcomes or outcome in outcomes)

    def render(self, figures: Figures, *, waiting: int, streams: int, with_queues: bool) -> bytes:
        gauges = self._gauges(figures, waiting, streams, with_queues=with_queues)
        lines = [*self._counters(), *self._histograms(), *gauges]
        return "".join(f"{line}\n" for line in lines).encode()

    def _counters(self) -> Iterator[str]:
        def by(label: str, what: Counted) -> list[_Sample]:
            return [("", {label: value}, count) for value, count in sorted(self._counts[what].items())]

        expiries = self._counts["events"]["expired"]
        yield from _render("claims_total", by("outcome", "claims"))
        yield from _render("heartbeats_total", by("outcome", "heartbeats"))
        yield from _render("releases_total", by("outcome", "releases"))
        yield from _render("events_total", by("type", "events"))
        yield from _render("expiries_total", [("", {}, expiries)])
        yield from _render("takeovers_total", [("", {}, self._takeovers)])

    def _histograms(self) -> Iterator[str]:
        requests = [
            sample
            for (route, status), spread in self._requests.items()
            for sample in spread.samples({"route": route, "status": str(status)})
        ]
        yield from _render("request_seconds", requests)
        yield from _render("commit_seconds", self._commits.samples({}))
        yield from _render("batch_size", self._batches.samples({}))

    def _gauges(self, figures: Figures, waiting: int, streams: int, *, with_queues: bool) -> Iterator[str]:
        for name, value in (
            ("claimed_jobs", figures.claimed),
            ("late_claims", figures.late),
            ("stuck_claims", figures.stuck),
            ("dead_jobs", figures.dead),
            ("open_sessions", figures.open_sessions),
            ("queued_jobs", sum(figures.queued.values())),
            ("oldest_due_seconds", _age(figures)),
            ("waiting_claims", waiting),
            ("open_streams", streams),
        ):
            yield from _render(name, [("", {}, value)])
        yield from _render("build_info", [("", {"version": __version__}, 1)])
        depths = figures.queued if with_queues else {}
        samples = [("", {"queue": queue}, depth) for queue, depth in depths.items()]
        yield from _render("queue_depth", samples)


def _age(figures: Figures) -> float:
    return 0 if figures.oldest_due_at is None else max(0, (figures.at - figures.oldest_due_at).total_seconds())


def _render(name: str, samples: Iterable[_Sample]) -> Iterator[str]:
    family = FAMILIES[name]
    yield f"# HELP {family.full_name} {family.about}"
    yield f"# TYPE {family.full_name} {family.kind}"
    for suffix, labels, value in samples:
        pairs = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
        yield f"{family.full_name}{suffix}{f'{{{pairs}}}' if pairs else ''} {float(value)}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _is_takeover(entry: LogEntry) -> bool:
    details = decode_details(entry)
    return isinstance(details, Claimed) and details.took_over_from is not None
