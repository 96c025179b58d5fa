"""Enqueue, claim, `kill -9`, take over, done: three linked traces without secrets."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import octostore
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore, default_sources
from tests.support.files import make_empty
from tests.support.postgres import empty_store, put_back
from tests.support.processes import Worker
from tests.support.served import ServedStore
from tests.support.spans import Spans, assert_contains_none_of, links_of, place_in, place_of, trace_of

AT_ONCE = octostore.RetryPolicy(base_ms=0)
SECRETS = ["the payload is secret", "the checkpoint is secret", "the note is secret", "the result is secret"]


class Target(NamedTuple):
    url: str
    token: str = ""

    def options(self, spans: Spans) -> dict[str, Any]:
        ours = {"token": self.token} if self.token else {"retry": AT_ONCE}
        return {**ours, "tracing": spans.provider}


@pytest.fixture(params=["sqlite", "postgres", "http"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    path = tmp_path / "store.db"
    if request.param == "postgres":
        url = empty_store()
        yield Target(url)
        put_back(url)
        return
    make_empty(path)
    if request.param == "sqlite":
        yield Target(f"sqlite:///{path}")
        return
    server = ServedStore(LocalStore(lambda: SqliteBackend(path), sources=default_sources(AT_ONCE)), tmp_path)
    yield Target(server.url, server.token)
    server.stop()


def enqueue_and_finish(target: Target, spans: Spans, client: str) -> Iterator[str]:
    """Yields the job's name, continues after its first owner died, then yields the second lease."""
    leases: list[str] = []
    if client == "sync":
        with octostore.connect(target.url, **target.options(spans)) as store:
            yield store.enqueue("build", {"is": SECRETS[0]}, queue="q").job_id
            store.work("q", lambda claim: leases.append(claim.lease_id) or SECRETS[3], max_jobs=1)  # type: ignore[func-returns-value]
        yield leases[0]
        return
    with asyncio.Runner() as runner:
        other = runner.run(octostore.connect_async(target.url, **target.options(spans)))
        enqueued = runner.run(other.enqueue("build", {"is": SECRETS[0]}, queue="q"))
        yield enqueued.job_id

        async def handle(claim: octostore.AsyncHeldClaim) -> str:
            leases.append(claim.lease_id)
            return SECRETS[3]

        runner.run(other.work("q", handle, max_jobs=1))
        runner.run(other.close())
    yield leases[0]


@pytest.mark.parametrize("client", ["sync", "async"])
def test_a_job_that_is_taken_over_is_three_linked_traces(target: Target, client: str) -> None:
    spans = Spans()
    story = enqueue_and_finish(target, spans, client)
    job_id = next(story)
    with Worker("traced", target.url, target.token, client) as worker:
        spans.append(worker.hear()["span"])
        first = worker.hear()
        assert worker.kill() == []
    second_lease = next(story)

    assert spans.traces == [["send q"], ["receive q"], ["receive q", "process q", "settle q"]]
    send, killed, receive, settle, process = spans
    assert killed["attributes"]["octostore.attempt"] == 1
    assert "octostore.takeover.reason" not in killed["attributes"]
    assert links_of(killed) == {"enqueue": place_of(send)}
    assert place_in(first["traceparent"])[0] == trace_of(killed)
    for span in (receive, process):
        assert links_of(span) == {"enqueue": place_of(send), "previous_attempt": place_of(killed)}
        assert span["attributes"]["octostore.attempt"] == 2
        assert span["attributes"]["octostore.takeover.reason"] == "expired"
        assert span["attributes"]["messaging.message.id"] == job_id
    tokens = [span["attributes"]["octostore.fencing_token"] for span in (killed, receive, process, settle)]
    assert tokens[0] < tokens[1] == tokens[2] == tokens[3]
    assert settle["attributes"]["octostore.outcome"] == "done"
    assert {span["status"]["status_code"] for span in spans} == {"UNSET"}
    leases = [first["lease"], second_lease]
    assert_contains_none_of([*SECRETS, *leases, *([target.token] if target.token else [])], spans)
