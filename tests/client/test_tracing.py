"""The spans of a store: what they contain, which trace they belong to, and what they never contain."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import octostore
from octostore.client.spans import ATTEMPTS_KEPT
from octostore.core.commands import HeartbeatJob
from tests.support.spans import Spans, assert_contains_none_of, links_of, place_in, place_of, trace_of

GIVEN = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def store(url: str, spans: Spans) -> Iterator[octostore.OctoStore]:
    with octostore.connect(url, tracing=spans.provider) as store:
        yield store


def claim_lease(store: octostore.OctoStore, job_id: str, **terms: Any) -> str:
    reply = store.claim_job(job_id, "ann", **terms)
    assert reply.status == "claimed"
    return reply.lease_id or ""


# Contents


def test_the_spans_of_a_job_follow_the_messaging_conventions(store: octostore.OctoStore, spans: Spans) -> None:
    store.enqueue("build", job_id="job", queue="q")
    store.work("q", lambda claim: claim.progress("half"), owner="ann", max_jobs=1)
    exported = [(span["name"], span["kind"], span["attributes"]) for span in spans]
    system = {"messaging.system": "octostore", "messaging.destination.name": "q", "messaging.message.id": "job"}
    attempt = {"messaging.client.id": "ann", "octostore.attempt": 1, "octostore.fencing_token": 2}

    def operation(name: str) -> dict[str, str]:
        return {"messaging.operation.type": name, "messaging.operation.name": name}

    assert exported == [
        ("send q", "SpanKind.PRODUCER", {**system, **operation("send")}),
        ("receive q", "SpanKind.CLIENT", {**system, **operation("receive"), **attempt}),
        ("settle q", "SpanKind.CLIENT", {**system, **operation("settle"), **attempt, "octostore.outcome": "done"}),
        ("process q", "SpanKind.CONSUMER", {**system, **operation("process"), **attempt, "octostore.outcome": "done"}),
    ]
    send, receive, settle, process = spans
    assert spans.traces == [["send q"], ["receive q", "process q", "settle q"]]
    assert [span["parent_id"] for span in spans] == [
        None,
        None,
        process["context"]["span_id"],
        receive["context"]["span_id"],
    ]
    assert [links_of(span) for span in spans] == [{}, {"enqueue": place_of(send)}, {}, {"enqueue": place_of(send)}]
    assert all(span["events"] == [] for span in spans)
    assert settle["status"] == {"status_code": "UNSET"}
    assert place_in(store.get_job("job").traceparent) == place_of(send)


def test_a_lock_has_no_destination(store: octostore.OctoStore, spans: Spans) -> None:
    with store.hold("lock"):
        pass
    assert spans.names == ["receive", "settle", "process"]
    assert spans.traces == [["receive", "process", "settle"]]
    assert {span["attributes"].get("messaging.destination.name") for span in spans} == {None}


def test_the_next_owner_links_to_the_last(store: octostore.OctoStore, spans: Spans) -> None:
    with store.hold("job"):
        pass
    claim_lease(store, "job")
    store.force_release("job", reason="the operator's reason")
    claim_lease(store, "job")
    first, second, third = [span for span in spans if span["name"] == "receive"]
    assert [links_of(span) for span in (first, second, third)] == [
        {},
        {"previous_attempt": place_of(first)},
        {"previous_attempt": place_of(second)},
    ]
    reasons = [span["attributes"].get("octostore.takeover.reason") for span in (first, second, third)]
    assert reasons == [None, None, "force_released"]
    assert_contains_none_of(["operator's"], spans)


def test_refused_claims_and_heartbeats_leave_no_span(store: octostore.OctoStore, spans: Spans) -> None:
    lease = claim_lease(store, "job")
    spans.clear()
    assert store.claim_job("job").status == "held"
    assert store.claim_next("q").status == "empty"
    store.heartbeat_job("job", lease, progress="half", percent=50)
    store.checkpoint_job("job", lease, {"step": 3})
    with store.open_session("ann") as session:
        session.keepalive()
        session.save({"turn": 4})
    assert store.batch([{"command": "heartbeat_job", "job_id": "job", "lease_id": lease}])[0].remaining_ms
    assert spans == []


def test_no_span_contains_a_secret(store: octostore.OctoStore, spans: Spans) -> None:
    store.enqueue("build", "payload-secret", job_id="job")
    claim = store.claim_next(metadata="metadata-secret", request_id="request-secret")
    store.checkpoint_job("job", claim.lease_id or "", "checkpoint-secret")
    store.release_job("job", claim.lease_id or "", "failed", error="error-secret", note="note-secret", retry_after=0)
    leases = [claim.lease_id or ""]

    def fail(claim: octostore.HeldClaim) -> None:
        leases.append(claim.lease_id)
        raise ValueError("exception-secret")

    store.work("default", fail, max_jobs=1)
    store.requeue("job")
    with store.hold("job") as held:
        leases.append(held.lease_id)
        held.end_as("done", result="result-secret")
    with pytest.raises(octostore.LeaseLost):
        store.release_job("job", "lease-secret")
    words = ("payload", "metadata", "request", "checkpoint", "error", "note", "exception", "result", "lease")
    assert_contains_none_of([*leases, *(f"{word}-secret" for word in words)], spans)


# Traces


def test_a_job_is_enqueued_in_the_callers_trace_and_worked_on_in_its_own(
    store: octostore.OctoStore, spans: Spans
) -> None:
    with spans.tracer.start_as_current_span("request"):
        store.enqueue("build", job_id="job")
        store.claim_next()
    send, receive, request = spans
    assert send["parent_id"] == request["context"]["span_id"]
    assert trace_of(receive) != trace_of(request)
    assert links_of(receive) == {"caller": place_of(request), "enqueue": place_of(send)}


def test_a_handlers_spans_are_children_of_its_process_span(store: octostore.OctoStore, spans: Spans) -> None:
    def handle(claim: octostore.HeldClaim) -> None:
        with spans.tracer.start_as_current_span("inside"):
            store.enqueue("test", queue="tests")
        assert claim.traceparent == traceparent_in(trace.get_current_span())

    store.enqueue("build")
    store.work("default", handle, max_jobs=1)
    process, inside, nested = map(spans.named, ("process default", "inside", "send tests"))
    assert inside["parent_id"] == process["context"]["span_id"]
    assert nested["parent_id"] == inside["context"]["span_id"]


def traceparent_in(span: trace.Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def test_the_span_of_a_block_is_current_until_the_block_ends(store: octostore.OctoStore, spans: Spans) -> None:
    with spans.tracer.start_as_current_span("request") as request:
        with store.hold("job") as claim:
            assert traceparent_in(trace.get_current_span()) == claim.traceparent
        assert trace.get_current_span() is request
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_block_that_ends_in_another_task_leaves_that_task_alone(
    url: str, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    async def use() -> None:
        async with await octostore.connect_async(url, tracing=spans.provider) as store:
            block = store.hold("job")
            claim = await asyncio.create_task(block.__aenter__())
            assert claim.traceparent is not None
            with spans.tracer.start_as_current_span("other") as other:
                await asyncio.create_task(block.__aexit__(None, None, None))
                assert trace.get_current_span() is other

    asyncio.run(use())
    assert spans.names == ["receive", "settle", "process", "other"]
    assert caplog.records == []


def test_async_blocks_and_handlers(url: str, spans: Spans) -> None:
    async def handle(_claim: octostore.AsyncHeldClaim) -> None:
        with spans.tracer.start_as_current_span("inside"):
            await asyncio.sleep(0)

    async def use() -> None:
        async with await octostore.connect_async(url, tracing=spans.provider) as store:
            await store.enqueue("build", queue="q")
            await store.work("q", handle, max_jobs=1)
            async with store.hold("job"):
                pass
        assert not trace.get_current_span().get_span_context().is_valid

    asyncio.run(use())
    assert spans.traces == [
        ["send q"],
        ["receive q", "process q", "inside", "settle q"],
        ["receive", "process", "settle"],
    ]


def test_a_job_that_another_client_settles_is_linked_to_its_attempt(
    store: octostore.OctoStore, url: str, spans: Spans
) -> None:
    lease = claim_lease(store, "job")
    with octostore.connect(url, tracing=spans.provider) as other:
        other.release_job("job", lease)
    receive, settle = spans
    assert settle["parent_id"] is None
    assert links_of(settle) == {"attempt": place_of(receive)}
    assert settle["attributes"]["octostore.attempt"] == 1


def test_a_repeated_claim_is_received_once(store: octostore.OctoStore, url: str, spans: Spans) -> None:
    claim_lease(store, "job", request_id="r")
    with octostore.connect(url, tracing=spans.provider) as other:
        lease = claim_lease(other, "job", request_id="r")
        other.release_job("job", lease)
    assert spans.names == ["receive", "settle"]
    assert len(spans.traces) == 1


def test_an_explicit_context_is_kept(store: octostore.OctoStore, spans: Spans) -> None:
    store.enqueue("build", job_id="job", traceparent=GIVEN)
    reply = store.claim_next(traceparent=GIVEN)
    assert (reply.traceparent, reply.attempt_traceparent) == (GIVEN, GIVEN)
    with spans.tracer.start_as_current_span("request"):
        store.enqueue("build", job_id="other", traceparent=GIVEN)
    send, receive, elsewhere, request = spans
    assert {trace_of(send), trace_of(receive)} == {f"0x{'a' * 32}"}
    assert trace_of(elsewhere) == trace_of(request)
    assert links_of(elsewhere) == {"caller": (f"0x{'a' * 32}", f"0x{'b' * 16}")}
    assert store.get_job("other").traceparent == GIVEN


# Several at once


def test_jobs_that_are_enqueued_together_share_a_span(store: octostore.OctoStore, spans: Spans) -> None:
    store.enqueue_many([{"kind": "build", "job_id": f"job-{number}"} for number in range(3)], queue="q")
    (send,) = spans
    assert send["name"] == "send q"
    assert send["attributes"]["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in send["attributes"]
    assert {place_in(store.get_job(f"job-{number}").traceparent) for number in range(3)} == {place_of(send)}


def test_jobs_that_are_claimed_together_have_a_trace_each(store: octostore.OctoStore, spans: Spans) -> None:
    claim_lease(store, "held")
    spans.clear()
    replies = store.claim_many(["a", "held", "b"])
    store.release_many([reply for reply in replies if reply.status == "claimed"], "done")
    assert spans.traces == [["receive", "settle"], ["receive", "settle"]]
    assert [span["attributes"]["messaging.message.id"] for span in spans] == ["a", "b", "a", "b"]


def test_a_worker_that_settles_and_claims_in_one_call(store: octostore.OctoStore, spans: Spans) -> None:
    store.enqueue_many([{"kind": "build"}] * 3, queue="q")
    assert store.work("q", lambda _claim: None, until_empty=True) == 3
    assert spans.traces == [["send q"], *[["receive q", "process q", "settle q"]] * 3]


# Failures


def test_a_failing_handler(store: octostore.OctoStore, spans: Spans) -> None:
    def fail(_claim: octostore.HeldClaim) -> None:
        raise ValueError("no disk")

    store.enqueue("build")
    store.work("default", fail, max_jobs=1)
    process, settle = map(spans.named, ("process default", "settle default"))
    assert process["status"] == {"status_code": "ERROR"}
    assert process["attributes"]["error.type"] == "ValueError"
    assert (settle["status"], settle["attributes"]["octostore.outcome"]) == ({"status_code": "UNSET"}, "failed")


@pytest.mark.parametrize(
    ("raised", "status", "outcome"),
    [
        (octostore.Deferred(5), "UNSET", "deferred"),
        (octostore.Failed("no disk"), "ERROR", "failed"),
    ],
)
def test_the_outcomes_of_handlers(
    store: octostore.OctoStore, spans: Spans, raised: Exception, status: str, outcome: str
) -> None:
    def end(_claim: octostore.HeldClaim) -> None:
        raise raised

    store.enqueue("build")
    store.work("default", end, max_jobs=1)
    process = spans.named("process default")
    assert (process["status"]["status_code"], process["attributes"]["octostore.outcome"]) == (status, outcome)


def test_a_block_that_ends_as_failed(store: octostore.OctoStore, spans: Spans) -> None:
    with store.hold("job") as claim:
        claim.end_as("failed", error="no disk")
    assert spans.named("process")["attributes"]["error.type"] == "failed"


def test_an_interrupted_block_has_not_failed(store: octostore.OctoStore, spans: Spans) -> None:
    with pytest.raises(KeyboardInterrupt), store.hold("job"):
        raise KeyboardInterrupt
    process = spans.named("process")
    assert (process["status"]["status_code"], process["attributes"]["octostore.outcome"]) == ("UNSET", "released")


def test_a_lost_lease(store: octostore.OctoStore, spans: Spans) -> None:
    with pytest.raises(octostore.LeaseLost), store.hold("job"):
        store.force_release("job")
    process, settle = map(spans.named, ("process", "settle"))
    assert [span["status"]["status_code"] for span in (process, settle)] == ["ERROR", "ERROR"]
    assert [span["attributes"]["error.type"] for span in (process, settle)] == ["LeaseLost", "LeaseLost"]


def test_an_unreachable_store(store: octostore.OctoStore, spans: Spans) -> None:
    lease = claim_lease(store, "job")
    spans.clear()
    store.close()
    with pytest.raises(octostore.Unreachable):
        store.enqueue("build")
    with pytest.raises(octostore.Unreachable):
        store.claim_job("job")
    with pytest.raises(octostore.Unreachable):
        store.release_job("job", lease)
    assert spans.names == ["send default", "receive", "settle"]
    assert {span["attributes"]["error.type"] for span in spans} == {"Unreachable"}
    assert {span["status"]["status_code"] for span in spans} == {"ERROR"}


def test_one_refused_command_of_a_batch(store: octostore.OctoStore, spans: Spans) -> None:
    store.batch([{"command": "enqueue", "kind": "build"}, {"command": "release_job", "job_id": "a", "lease_id": "no"}])
    assert [span["attributes"].get("error.type") for span in spans] == [None, "LeaseLost"]


def test_a_fork_does_not_end_its_parents_work(store: octostore.OctoStore, spans: Spans) -> None:
    with store.hold("job"):
        pid = os.fork()
        if pid == 0:
            spans.clear()
    if pid == 0:
        os._exit(len(spans))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert spans.names == ["receive", "settle", "process"]


def test_settled_attempts_are_forgotten_and_the_number_of_known_ones_is_limited(store: octostore.OctoStore) -> None:
    known = store._port.spans._attempts  # type: ignore[union-attr]
    store.release_job("job", claim_lease(store, "job"))
    assert len(known) == 0
    claim_lease(store, "job")
    (attempt,) = known.values()
    for number in range(ATTEMPTS_KEPT + 5):
        store._port.spans.remember(str(number), attempt)  # type: ignore[union-attr]
    assert len(known) == ATTEMPTS_KEPT


# Whether there are spans


def test_an_unsampled_context_is_passed_on(url: str) -> None:
    with octostore.connect(url, tracing=TracerProvider(ALWAYS_OFF, shutdown_on_exit=False)) as store:
        store.enqueue("build", job_id="job")
        with store.hold("job") as claim:
            assert not is_sampled(claim.traceparent)
        assert not is_sampled(store.get_job("job").traceparent)


def is_sampled(traceparent: str | None) -> bool:
    assert traceparent is not None
    return bool(int(traceparent[-2:], 16) & 1)


def test_without_an_sdk_nothing_is_stored(url: str) -> None:
    with octostore.connect(url, tracing=trace.NoOpTracerProvider()) as store:
        store.enqueue("build", job_id="job")
        store.work("default", lambda claim: claim.traceparent, max_jobs=1)
        job = store.get_job("job")
        assert (job.status, job.result, job.traceparent, job.previous[0].traceparent) == ("done", None, None, None)


USE_SETTINGS = """
import os, sys
import octostore
from opentelemetry import trace
from tests.support.spans import Spans
spans = Spans()
trace.set_tracer_provider(spans.provider)
for setting in ("1", "0", ""):
    os.environ["OCTOSTORE_TRACING"] = setting
    for tracing in (None, True, False):
        with octostore.connect(sys.argv[1], tracing=tracing) as store:
            store.enqueue("build")
        print(len(spans))
        spans.clear()
"""


def test_the_environment_decides_unless_the_program_does(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", USE_SETTINGS, url], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1", "0", *["0", "1", "0"] * 2]


def test_an_invalid_setting_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOSTORE_TRACING", "yes")
    wrong: Any = "yes"
    with pytest.raises(octostore.InvalidInput, match="tracing must be True, False or a tracer provider, not str"):
        octostore.connect("memory:", tracing=wrong)
    with pytest.raises(octostore.InvalidInput, match="OCTOSTORE_TRACING is 'yes'; it must be 1 or 0"):
        octostore.connect(url)


@pytest.mark.parametrize("client", ["sync", "async"])
def test_the_error_without_the_extra_says_what_to_install(
    url: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("opentelemetry", "octostore.client.spans"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    connect: dict[str, Any] = {
        "sync": lambda: octostore.connect(url, tracing=True),
        "async": lambda: asyncio.run(octostore.connect_async(url, tracing=True)),
    }
    with pytest.raises(octostore.InvalidInput, match=r"tracing needs the OpenTelemetry API; to install it: .*\[otel\]"):
        connect[client]()


def test_everything_else_works_the_same_with_tracing(store: octostore.OctoStore, spans: Spans, tmp_path: Path) -> None:
    claim_lease(store, "job")
    assert store.backup(tmp_path / "copy.db") == 1
    assert store.verify().problems == []
    assert [event.type for event in store.events()] == ["claimed"]
    assert store._port.submit(HeartbeatJob(job_id="job", lease_id="no")).exception() is not None
    assert spans.names == ["receive"]
