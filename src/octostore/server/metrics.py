"""What can be measured of a server, for Prometheus. No label is the name of a job, an owner or a principal."""

import time
from typing import Literal, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from octostore.core.events import Claimed, LogEntry, decode_details
from octostore.core.replies import Figures

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, which says little

CONTENT_TYPE = CONTENT_TYPE_LATEST.encode()


Counted: TypeAlias = Literal["claims", "heartbeats", "releases", "events"]


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.started_at = time.monotonic()
        r = self.registry
        self._outcomes = {
            "claims": Counter("octostore_claims", "Claims by what was answered.", ["outcome"], registry=r),
            "heartbeats": Counter(
                "octostore_heartbeats", "Heartbeats, by whether the lease was live.", ["outcome"], registry=r
            ),
            "releases": Counter(
                "octostore_releases", "Claims that were ended by their owner.", ["outcome"], registry=r
            ),
            "events": Counter("octostore_events", "Events of the log, by type.", ["type"], registry=r),
        }
        self.expiries = Counter("octostore_expiries", "Claims that ran out.", registry=r)
        self.takeovers = Counter("octostore_takeovers", "Claims of a job whose last owner had lost it.", registry=r)
        self.requests = Histogram(
            "octostore_request_seconds",
            "Requests by route and status; the time includes waiting.",
            ["route", "status"],
            buckets=SECONDS,
            registry=r,
        )
        self.commits = Histogram("octostore_commit_seconds", "Transactions.", buckets=SECONDS, registry=r)
        self.batches = Histogram("octostore_batch_size", "Commands in a transaction.", buckets=BATCHES, registry=r)
        self.claimed = Gauge("octostore_claimed_jobs", "Jobs that are claimed now.", registry=r)
        self.dead = Gauge("octostore_dead_jobs", "Jobs that wait for a person.", registry=r)
        self.sessions = Gauge("octostore_open_sessions", "Sessions that are alive.", registry=r)
        self.queued = Gauge("octostore_queue_depth", "Jobs that wait in a queue; the longest.", ["queue"], registry=r)
        self.queued_total = Gauge(
            "octostore_queued_jobs", "Jobs that wait, in the queues in which most do.", registry=r
        )
        self.waiting = Gauge("octostore_waiting_claims", "Claims that wait for a job.", registry=r)
        self.streams = Gauge("octostore_open_streams", "Event streams that are open.", registry=r)
        # Looking a label up costs more than counting.
        self._counters: dict[tuple[str, str], Counter] = {}
        self._histograms: dict[tuple[str, int], Histogram] = {}

    def count(self, what: Counted, outcome: str) -> None:
        counter = self._counters.get((what, outcome))
        if counter is None:
            counter = self._counters[what, outcome] = self._outcomes[what].labels(outcome)
        counter.inc()

    def on_batch(self, size: int, seconds: float) -> None:
        self.batches.observe(size)
        self.commits.observe(seconds)

    def on_entry(self, entry: LogEntry) -> None:
        self.count("events", entry.type)
        if entry.type == "expired":
            self.expiries.inc()
        # Details leave out what is not so, which spares us from reading those of every claim.
        elif entry.type == "claimed" and b'"took_over_from":' in entry.details and _is_takeover(entry):
            self.takeovers.inc()

    def on_request(self, route: str, status: int, seconds: float) -> None:
        child = self._histograms.get((route, status))
        if child is None:
            child = self._histograms[route, status] = self.requests.labels(route, str(status))
        child.observe(seconds)

    def render(self, figures: Figures, *, with_queues: bool) -> bytes:
        self.claimed.set(figures.claimed)
        self.dead.set(figures.dead)
        self.sessions.set(figures.open_sessions)
        self.queued_total.set(sum(figures.queued.values()))
        self.queued.clear()
        if with_queues:
            for queue, depth in figures.queued.items():
                self.queued.labels(queue).set(depth)
        return generate_latest(self.registry)

    def total(self, what: Counted, *outcomes: str) -> int:
        """How often, since the server started."""
        samples = [sample for metric in self._outcomes[what].collect() for sample in metric.samples]
        return int(sum(s.value for s in samples if not outcomes or s.labels["outcome"] in outcomes))


def _is_takeover(entry: LogEntry) -> bool:
    details = decode_details(entry)
    return isinstance(details, Claimed) and details.took_over_from is not None
