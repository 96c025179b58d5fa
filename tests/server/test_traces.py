"""Traces over plain HTTP: the `traceparent` header of any instrumented client is enough."""

import pytest

import octostore
from tests.support.proxy import Exchange, Proxy, pass_on
from tests.support.server import ServerProcess
from tests.support.spans import Spans, place_of, trace_of

ENQUEUED, ATTEMPT, IN_BODY = (f"00-{digit * 32}-{digit * 16}-01" for digit in "123")


def test_the_header_is_stored_with_the_job_and_the_attempt(server: ServerProcess) -> None:
    body = {"kind": "build", "job_id": "traced", "queue": "traced"}
    assert server.post("/jobs", body, headers={"traceparent": ENQUEUED}).status == 201
    claim = server.post("/queues/traced/claim", {}, headers={"Traceparent": ATTEMPT}).json
    assert (claim["traceparent"], claim["attempt_traceparent"]) == (ENQUEUED, ATTEMPT)
    assert server.get("/jobs/traced").json["claim"]["traceparent"] == ATTEMPT
    server.post("/jobs/traced/release", {"lease_id": claim["lease_id"]}, headers={"traceparent": IN_BODY})
    again = server.post("/jobs/traced/claim", {}).json
    assert (again["traceparent"], again["attempt_traceparent"]) == (ENQUEUED, None)
    assert again["previous"][0]["traceparent"] == ATTEMPT


def test_the_header_is_stored_with_a_lock(server: ServerProcess) -> None:
    assert server.post("/locks/traced-lock/acquire", {}, headers={"traceparent": ATTEMPT}).status == 200
    assert server.get("/jobs/traced-lock").json["claim"]["traceparent"] == ATTEMPT


def test_the_body_takes_precedence(server: ServerProcess) -> None:
    body = {"kind": "build", "job_id": "traced-body", "traceparent": IN_BODY}
    server.post("/jobs", body, headers={"traceparent": ENQUEUED})
    assert server.get("/jobs/traced-body").json["traceparent"] == IN_BODY


def test_in_a_batch_the_header_applies_to_commands_without_a_traceparent(server: ServerProcess) -> None:
    commands = [
        {"command": "enqueue", "kind": "build", "job_id": "traced-1", "traceparent": IN_BODY},
        {"command": "enqueue", "kind": "build", "job_id": "traced-2"},
    ]
    server.post("/batch", {"commands": commands}, headers={"traceparent": ENQUEUED})
    assert server.get("/jobs/traced-1").json["traceparent"] == IN_BODY
    assert server.get("/jobs/traced-2").json["traceparent"] == ENQUEUED


@pytest.mark.parametrize("malformed", ["", "nonsense", ENQUEUED.upper() + "-x", "00-0-0-00"])
def test_a_malformed_traceparent_is_ignored_in_the_header_and_refused_in_the_body(
    server: ServerProcess, malformed: str
) -> None:
    name = f"malformed-{len(malformed)}"
    created = server.post("/jobs", {"kind": "build", "job_id": name}, headers={"traceparent": malformed})
    assert created.status == 201
    assert server.get(f"/jobs/{name}").json["traceparent"] is None
    refused = server.post("/jobs", {"kind": "build", "traceparent": malformed})
    assert (refused.status, refused.json["field"]) == (400, "traceparent")


def add_own_span(exchange: Exchange) -> None:
    """Like a tracing proxy: the request continues in the same trace, below the proxy's own span."""
    headers = exchange.seen.headers
    if "traceparent" in headers:
        version, trace_id, _span_id, flags = headers["traceparent"].split("-")
        headers["traceparent"] = f"{version}-{trace_id}-{'5' * 16}-{flags}"
    pass_on(exchange)


def test_an_attempt_through_a_tracing_proxy_is_received_once(server: ServerProcess) -> None:
    spans = Spans()
    with (
        Proxy(server.port).always(add_own_span) as proxy,
        octostore.connect(proxy.url, token=server.token, tracing=spans.provider) as store,
        store.hold("traced-by-proxy") as claim,
    ):
        assert (claim.reply.attempt_traceparent or "").split("-")[2] == "5" * 16
    receive, settle, process = spans
    assert spans.names == ["receive", "settle", "process"]
    assert len({trace_of(span) for span in spans}) == 1
    assert process["parent_id"] == place_of(receive)[1]
    assert settle["parent_id"] == place_of(process)[1]
