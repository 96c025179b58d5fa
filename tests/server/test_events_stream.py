"""The log over HTTP: pages, and streams that stay open, resume without a gap, and end with their token."""

import asyncio
import select
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing, nullcontext
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import pytest

from octostore.core.commands import ClaimJob, HeartbeatJob
from octostore.core.errors import Unreachable
from octostore.server.http import Request, RequestHeaders
from octostore.server.streams import EventStream
from octostore.stores.store import open_store
from tests.support.connections import Connection, Frame, Stream
from tests.support.processes import until
from tests.support.server import ServerProcess

SILENCE_SECONDS = 0.2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    home = tmp_path_factory.mktemp("home")
    arguments = ("--write-seconds", "1", "--keepalive-seconds", str(SILENCE_SECONDS))
    with ServerProcess(home, *arguments) as process:
        yield process
        process.check_has_not_failed()


def seqs(frames: list[Frame]) -> list[int]:
    return [int(frame.id or 0) for frame in frames]


def open_streams(server: ServerProcess) -> int:
    lines = server.get("/metrics").body.decode().splitlines()
    return int(float(next(line for line in lines if line.startswith("octostore_open_streams ")).split()[1]))


# Pages


def test_a_page_of_the_log(server: ServerProcess) -> None:
    after = server.seq
    claim = server.post("/jobs/page/claim", {"owner": "ann", "metadata": {"x": 1}}).json
    server.post("/jobs/page/release", {"lease_id": claim["lease_id"], "outcome": "done"})
    page = server.get(f"/events?after={after}").json
    assert [(event["seq"], event["type"]) for event in page["events"]] == [(after + 1, "claimed"), (after + 2, "done")]
    assert page["after"] == after + 2
    first = page["events"][0]
    assert (first["job_id"], first["actor"], first["data"]["owner"]) == ("page", "admin", "ann")
    assert first["seq"] == claim["fencing_token"]


def test_pages_follow_each_other(server: ServerProcess) -> None:
    for number in range(5):
        server.post(f"/jobs/pages-{number}/claim")
    seen, after = [], 0
    while (page := server.get(f"/events?prefix=pages-&limit=2&after={after}").json)["events"]:
        assert len(page["events"]) <= 2
        seen += [event["job_id"] for event in page["events"]]
        after = page["after"]
    assert seen == [f"pages-{number}" for number in range(5)]
    assert [event["job_id"] for event in server.events("pages-3")] == ["pages-3"]


def test_the_log_since_a_time_and_by_type(server: ServerProcess) -> None:
    claims = [server.post(f"/jobs/since-{number}/claim").json for number in range(3)]
    server.post("/jobs/since-2/release", {"lease_id": claims[2]["lease_id"]})
    since = claims[1]["claimed_at"]
    page = server.get(f"/events?prefix=since-&since={since}&types=released,done").json
    assert [(event["job_id"], event["type"]) for event in page["events"]] == [("since-2", "released")]
    assert server.get("/events?since=2999-01-01T00:00:00Z").json["events"] == []
    for query, problem in (
        ("since=yesterday", "since"),
        ("since=2026-07-01T10:00:00", "since has no time zone; append Z for UTC, as in 2026-07-01T10:00:00Z"),
        ("job=a%20b", "job must not "),
        ("session=%20", "session must not "),
        ("types=claimed,stolen", "'stolen', which is not an event type; use: enqueued, "),
        ("types=", "types"),
    ):
        refused = server.get(f"/events?{query}")
        assert (refused.status, refused.json["code"]) == (400, "invalid_input")
        assert problem in refused.json["error"]
    with server.stream(f"/events?since={since}&types=released&prefix=since-") as stream:
        server.post("/jobs/since-0/release", {"lease_id": claims[0]["lease_id"]})
        assert [frame.event for frame in stream.take(2)] == ["released"] * 2


# Streams


def test_a_stream_has_the_log_and_goes_on(server: ServerProcess) -> None:
    after = server.seq
    server.post("/jobs/stream/claim")
    with server.stream(f"/events?after={after}") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        frames = stream.take(1)
        server.post("/jobs/stream/force-release")
        frames += stream.take(1)
    events = server.get(f"/events?after={after}").json["events"]
    assert [frame.data for frame in frames] == events
    assert [frame.id for frame in frames] == [str(event["seq"]) for event in events]
    assert [frame.event for frame in frames] == ["claimed", "force_released"]


def test_a_stream_resumes_after_the_readers_last_event(server: ServerProcess) -> None:
    after = server.seq
    for number in range(3):
        server.post(f"/jobs/resume-{number}/claim")
    with server.stream("/events?after=0", headers={"Last-Event-ID": str(after + 1)}) as stream:
        assert seqs(stream.take(2)) == [after + 2, after + 3], "the header takes precedence over the query"


def test_a_stream_from_beyond_the_end_waits(server: ServerProcess) -> None:
    end = server.seq
    with server.stream("/events", headers={"Last-Event-ID": str(end + 1)}) as stream:
        server.post("/jobs/beyond-1/claim")
        server.post("/jobs/beyond-2/claim")
        assert seqs(stream.take(1)) == [end + 2]


@pytest.mark.parametrize("query", ["job=filter-a", "prefix=filter-a", "job=filter-a&prefix=filter-"])
def test_a_filtered_stream_has_only_matching_events(server: ServerProcess, query: str) -> None:
    server.post("/jobs/filter-a/force-release")
    after = server.seq
    server.post("/jobs/filter-a/claim")
    server.post("/jobs/filter-b/claim")
    with server.stream(f"/events?after={after}&{query}") as stream:
        first = stream.next()
        server.post("/jobs/filter-b/force-release")
        server.post("/sessions", {"agent": "someone"})
        server.post("/jobs/filter-a/force-release")
        frames = [first, stream.next()]
    assert [frame.data for frame in frames] == server.get(f"/events?after={after}&{query}").json["events"]
    assert [(frame.event, frame.data["job_id"]) for frame in frames] == [
        ("claimed", "filter-a"),
        ("force_released", "filter-a"),
    ]


def test_a_stream_includes_events_from_before_the_server_started(own_server: ServerProcess) -> None:
    for number in range(3):
        own_server.post(f"/jobs/before-{number}/claim")
    end = own_server.seq
    own_server.stop()
    with ServerProcess(own_server.home) as server:
        with server.stream("/events?prefix=before-2") as stream:
            assert seqs(stream.take(1)) == [end]
            server.post("/jobs/before-2/force-release")
            assert seqs(stream.take(1)) == [end + 1]
        with server.stream("/events?prefix=none-") as stream:
            server.post("/jobs/none-1/claim")
            assert stream.next().data["job_id"] == "none-1"


def test_an_idle_stream_gets_comments(server: ServerProcess) -> None:
    with server.stream(f"/events?after={server.seq}") as stream, server.stream("/locks/silent/watch") as watch:
        until(lambda: _sees_comments(stream.connection.sock, b": alive"), seconds=SILENCE_SECONDS * 10)
        until(lambda: _sees_comments(watch.connection.sock, b": alive"), seconds=SILENCE_SECONDS * 10)


def _sees_comments(connection: socket.socket, comment: bytes) -> bool:
    return comment in connection.recv(65_536)


@pytest.mark.parametrize("path", ["/locks/silent/watch", "/events?job=silent", "/events?prefix=silent"])
def test_a_stream_gets_comments_while_other_jobs_keep_the_log_busy(server: ServerProcess, path: str) -> None:
    with server.stream(path) as stream:
        until_seen_on_a_busy_log(server, stream, b": alive")


def test_a_watch_finds_heartbeats_sent_elsewhere_while_other_jobs_keep_the_log_busy(server: ServerProcess) -> None:
    lease_id = server.claim("renewed-elsewhere")
    with (
        closing(open_store(f"sqlite:///{server.home / 'octostore.db'}")) as elsewhere,
        server.stream("/locks/renewed-elsewhere/watch") as watch,
    ):
        assert watch.next().data["event"] == "acquired"
        elsewhere.submit([HeartbeatJob(job_id="renewed-elsewhere", lease_id=lease_id, ttl=900)]).result()
        until_seen_on_a_busy_log(server, watch, b'"renewed"')


def until_seen_on_a_busy_log(server: ServerProcess, stream: Stream, wanted: bytes) -> None:
    """Claim other jobs, far more often than a silent stream gets comments, until the stream sends `wanted`."""
    numbers, connection = count(), stream.connection.sock

    def is_seen_after_another_claim() -> bool:
        server.post(f"/jobs/elsewhere-{next(numbers)}/claim")
        is_readable, _, _ = select.select([connection], [], [], 0)
        return bool(is_readable) and wanted in connection.recv(65_536)

    until(is_seen_after_another_claim)


def test_a_stream_gets_comments_while_it_searches_a_long_log(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--keepalive-seconds", "0.001") as server:
        start = server.seq
        make_events(server, 3_000)
        server.claim("wanted")
        with server.stream(f"/events?after={server.seq - 1}") as end:
            assert end.next().data["job_id"] == "wanted", "the server has the whole log in memory"
        with server.connect() as reader:
            path = f"/events?after={start}&prefix=wanted"
            reader.request("GET", path, token=server.token, headers="Accept: text/event-stream\r\n")
            received = b""
            while b"event: claimed" not in received:
                received += reader.socket.recv(65_536)
        assert b": alive" in received.partition(b"event: claimed")[0]


# Permissions


def test_a_token_sees_the_events_of_its_names_only(server: ServerProcess) -> None:
    token = server.new_token("team", "read", "claim", prefix="team/")
    after = server.seq
    with (
        server.stream(f"/events?after={after}", token=token) as everything,
        server.stream(f"/events?after={after}&prefix=t", token=token) as wider,
        server.stream(f"/events?after={after}&job=team%2Fa", token=token) as one,
    ):
        server.post("/jobs/other/claim")
        server.post("/jobs/team/claim")
        server.post("/sessions", {"agent": "team/a"})
        server.post("/tokens", {"name": "team/"})
        server.post("/jobs", {"kind": "k", "job_id": "team/a"})
        for stream in (everything, wider, one):
            assert [stream.next().data["job_id"]] == ["team/a"]
    page = server.get(f"/events?after={after}", token=token).json
    assert [event["job_id"] for event in page["events"]] == ["team/a"]
    for query in ("job=other", "prefix=other", "job=team", "prefix=tear"):
        assert server.get(f"/events?{query}", token=token).status == 403
        with server.stream(f"/events?{query}", token=token) as stream:
            assert stream.status == 403


def test_a_stream_ends_when_its_token_is_revoked(server: ServerProcess) -> None:
    created = server.post("/tokens", {"name": "revoked", "scopes": ["read"]}).json
    with server.stream(f"/events?after={server.seq}", token=created["token"]) as stream:
        server.request("DELETE", f"/tokens/{created['token_id']}")
        assert stream.rest() == [], "not even the event of its own revocation"


def test_a_stream_ends_when_its_token_is_rotated(server: ServerProcess) -> None:
    token = server.new_token("rotated", "read")
    with server.stream(f"/events?after={server.seq}", token=token) as stream:
        server.post("/auth/token/rotate", token=token)
        assert stream.rest() == []


def test_a_stream_ends_when_its_token_expires(server: ServerProcess) -> None:
    token = server.new_token("expiring", "read", expires_in_seconds=1)
    with server.stream(f"/events?after={server.seq}", token=token) as stream:
        assert stream.rest() == []


def test_streams_of_other_tokens_stay_open(server: ServerProcess) -> None:
    doomed = server.post("/tokens", {"name": "doomed", "scopes": ["read"]}).json
    with server.stream(f"/events?after={server.seq}") as stream:
        server.request("DELETE", f"/tokens/{doomed['token_id']}")
        server.post("/jobs/going-on/claim")
        assert [frame.event for frame in stream.take(2)] == ["token_revoked", "claimed"]


def test_a_stream_whose_reader_left_is_closed(server: ServerProcess) -> None:
    before = open_streams(server)
    with server.stream("/events"):
        until(lambda: open_streams(server) == before + 1)
    until(lambda: open_streams(server) == before)


def test_a_head_request_opens_no_stream(server: ServerProcess) -> None:
    headers = {"Accept": "text/event-stream"}
    before = open_streams(server)
    for path in ("/events", "/locks/x/watch"):
        response = server.request("HEAD", path, headers=headers)
        assert (response.status, response.body) == (200, b"")
        assert response.headers["content-type"].startswith("text/event-stream")
    with server.connect() as connection:
        for _ in range(2):  # on one connection, where an open stream would block the second request
            connection.request("HEAD", "/locks/x/watch", token=server.token)
            assert connection.response("HEAD").status == 200
    assert open_streams(server) == before


# Slow readers


def test_a_reader_that_does_not_read_is_cut_off_and_resumes_without_a_gap(server: ServerProcess) -> None:
    start, before = server.seq, open_streams(server)
    with Connection(server.port, receive_buffer=4_096) as slow:
        slow.request(
            "GET", "/events", token=server.token, headers=f"Accept: text/event-stream\r\nLast-Event-ID: {start}\r\n"
        )
        until(lambda: open_streams(server) == before + 1)
        make_events(server, 5_000)
        until(lambda: open_streams(server) == before)
        received = slow.everything()
    got = [int(line[4:]) for line in received.split(b"\n")[:-1] if line.startswith(b"id: ")]
    assert got, "it received some events"
    assert got == list(range(start + 1, start + 1 + len(got)))
    assert len(got) < 5_000
    with server.stream("/events", headers={"Last-Event-ID": str(got[-1] - 1)}) as stream:
        rest = seqs(stream.take(start + 5_000 - got[-1] + 1))
    assert rest == list(range(got[-1], start + 5_001))


def make_events(server: ServerProcess, count: int) -> None:
    """Write to the store directly, which is the fastest way."""
    store = open_store(f"sqlite:///{server.home / 'octostore.db'}")
    try:
        metadata = b'"' + b"x" * 1_000 + b'"'
        batches = [
            store.submit([ClaimJob(job_id=f"flood-{number}", owner="flood", metadata=metadata)])
            for number in range(count)
        ]
        for batch in batches:
            batch.result()
    finally:
        store.close()


def test_a_stream_whose_store_fails_ends_so_that_its_reader_reconnects() -> None:
    sent: list[bytes] = []

    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        raise Unreachable("the disk is gone", reason="io")

    async def run() -> None:
        line = Mock(connections=Mock(date=b""), is_write_blocked=False, write=sent.append)
        await EventStream(Request(line, "GET", "/events", b"", RequestHeaders()), frames(), nullcontext()).run()

    asyncio.run(run())
    assert sent[2:] == [b"9\r\ndata: 1\n\n\r\n", b"0\r\n\r\n"]
