"""Metrics, as Prometheus reads them."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from octostore._version import __version__
from octostore.core.replies import Figures
from octostore.server.metrics import CONTENT_TYPE, SECONDS, Metrics
from tests.support.server import ServerProcess

NOW = datetime.now(UTC)
FIGURES = Figures(
    claimed=3,
    late=1,
    stuck=2,
    dead=1,
    open_sessions=0,
    waiting=9,
    oldest_due_at=NOW - timedelta(minutes=5),
    taken_back=0,
    queued={'a"b\\c\n': 4, "d": 5},
    seq=3,
    at=NOW,
)


def values(page: bytes) -> dict[str, float]:
    """By name and labels."""
    return {
        f"{sample.name}{sample.labels or ''}": sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_counts_add_up() -> None:
    metrics = Metrics()
    for outcome in ("claimed", "held", "claimed"):
        metrics.count("claims", outcome)
    shown = values(metrics.render(FIGURES, waiting=7, streams=1, with_queues=False))
    assert shown["octostore_claims_total{'outcome': 'claimed'}"] == 2
    assert shown["octostore_claims_total{'outcome': 'held'}"] == 1
    assert (metrics.total("claims"), metrics.total("claims", "claimed"), metrics.total("releases")) == (3, 2, 0)
    gauges = [shown[f"octostore_{name}"] for name in ("waiting_claims", "open_streams", "claimed_jobs", "queued_jobs")]
    assert gauges == [7, 1, 3, 9]
    assert not [name for name in shown if "queue_depth" in name]


def test_late_and_stuck_claims_and_the_age_of_the_oldest_job_are_shown() -> None:
    shown = values(Metrics().render(FIGURES, waiting=0, streams=0, with_queues=False))
    assert [shown[f"octostore_{name}"] for name in ("late_claims", "stuck_claims", "oldest_due_seconds")] == [1, 2, 300]
    idle = msgspec.structs.replace(FIGURES, oldest_due_at=None)
    assert values(Metrics().render(idle, waiting=0, streams=0, with_queues=False))["octostore_oldest_due_seconds"] == 0
    assert shown[f"octostore_build_info{{'version': '{__version__}'}}"] == 1


def test_a_histogram_is_cumulative_and_a_bound_belongs_to_its_bucket() -> None:
    metrics = Metrics()
    for seconds in (SECONDS[0], 0.002, 0.002, 3_600):
        metrics.on_request("GET /x", 200, seconds)
    shown = values(metrics.render(FIGURES, waiting=0, streams=0, with_queues=False))

    def count(bound: object) -> float:
        return shown[f"octostore_request_seconds_bucket{{'le': '{bound}', 'route': 'GET /x', 'status': '200'}}"]

    assert [count(bound) for bound in (0.0005, 0.001, 0.0025, 60.0, "+Inf")] == [1, 1, 3, 3, 4]
    assert shown["octostore_request_seconds_count{'route': 'GET /x', 'status': '200'}"] == 4
    assert shown["octostore_request_seconds_sum{'route': 'GET /x', 'status': '200'}"] == pytest.approx(3_600.0045)


def test_queue_names_are_escaped() -> None:
    page = Metrics().render(FIGURES, waiting=0, streams=0, with_queues=True)
    (depth,) = [family for family in text_string_to_metric_families(page.decode()) if family.name.endswith("depth")]
    assert {sample.labels["queue"]: sample.value for sample in depth.samples} == FIGURES.queued


def test_a_server_serves_metrics(server: ServerProcess) -> None:
    server.post("/jobs/measured/claim")
    response = server.get("/metrics")
    assert response.headers["content-type"] == CONTENT_TYPE.decode()
    shown = values(response.body)
    assert shown["octostore_claims_total{'outcome': 'claimed'}"] == 1
    assert shown["octostore_events_total{'type': 'claimed'}"] == 1
    assert shown["octostore_commit_seconds_count"] == shown["octostore_batch_size_count"] > 0


def test_figures_are_recounted_only_if_older_than_max_age(server: ServerProcess) -> None:
    shared = [server.get("/figures?max_age=60").json["at"] for _ in range(2)]
    assert shared[0] == shared[1] < server.get("/figures").json["at"]
    assert server.get("/figures?max_age=60.5").status == 400
