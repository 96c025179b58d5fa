"""Misbehaving clients: they are cut off, they claim nothing, and other clients are not affected."""

import re
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from octostore.server.addresses import Proxies
from octostore.server.connection_limits import (
    BACKLOG,
    DEFAULT_PER_ADDRESS,
    RESERVED_FILES,
    ConnectionLimits,
    capacity_within,
)
from tests.server.test_events_stream import make_events, open_streams
from tests.server.test_waiting import claim, owners, release, waiting
from tests.support.connections import Connection
from tests.support.processes import until
from tests.support.server import ServerProcess
from tests.support.starting import SCRIPT

CONNECTIONS, STREAMS, READERS = 60, 3, 40
MIB = 1_024
TWO_ADDRESSES = ["127.0.0.2", "127.0.0.3"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    arguments = ("--write-seconds", "1", "--max-connections", str(CONNECTIONS), "--max-streams", str(STREAMS))
    with ServerProcess(tmp_path_factory.mktemp("home"), *arguments) as process:
        yield process
        process.check_has_not_failed()


# Clients that do not read


def follow(server: ServerProcess, token: str, after: int) -> Connection:
    """Open a stream and read nothing from it."""
    connection = Connection(server.port, receive_buffer=4_096)
    headers = "Accept: text/event-stream\r\n"
    connection.request("GET", f"/events?after={after}", token=token, headers=headers)
    return connection


def resident_kib(server: ServerProcess) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def test_readers_that_never_read_cost_little_and_are_cut_off(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--write-seconds", "1", "--max-streams", str(READERS)) as server:
        token, start = server.new_token("reader", "read"), server.seq
        before = resident_kib(server)
        for after, events in ((start, 6_000), (0, 0)):  # at the end of the log, and far behind
            with ExitStack() as stack:
                for _ in range(READERS):
                    stack.enter_context(follow(server, token, after))
                until(lambda: open_streams(server) > 0)
                make_events(server, events)
                until(lambda: open_streams(server) == 0)
        assert resident_kib(server) - before < 64 * MIB
        assert server.log.count("cut_off") == 1, "at most one line a minute"
        server.check_has_not_failed()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_behind", [True, False], ids=["far behind", "at the end of the log"])
def test_200_readers_that_never_read_do_not_slow_others_down(tmp_path: Path, is_behind: bool) -> None:
    """With the default limits. A machine that is slow without the readers may be slow with them."""
    with ServerProcess(tmp_path) as server, server.connect() as connection, ExitStack() as stack:
        tokens = [server.new_token(f"reader-{number}", "read") for number in range(2)]
        make_events(server, 10_000 if is_behind else 0)
        before, alone = resident_kib(server), p99_of([_call(server, connection) for _ in range(1_000)])
        began_at, after = time.monotonic(), 0 if is_behind else server.seq
        for number in range(200):
            stack.enter_context(follow(server, tokens[number % 2], after))
        assert open_streams(server) > 100
        writing = threading.Thread(target=make_events, args=(server, 0 if is_behind else 5_000))
        writing.start()
        beside, largest = list[float](), 0
        while open_streams(server) > 0:
            beside += [_call(server, connection) for _ in range(50)]
            largest = max(largest, resident_kib(server))
        took = time.monotonic() - began_at
        writing.join()
        assert took < 30
        assert largest - before < 64 * MIB
        assert p99_of(beside) < max(0.1, 3 * alone)
        server.check_has_not_failed()


def _call(server: ServerProcess, connection: Connection) -> float:
    """The duration of a call that waits for the disk."""
    began_at = time.perf_counter()
    connection.request("POST", "/jobs/other/claim", {"owner": "good"}, token=server.token)
    assert connection.response().status == 200
    return time.perf_counter() - began_at


def p99_of(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) * 99 // 100]


def test_the_number_of_streams_is_limited(server: ServerProcess) -> None:
    ann, bob = server.new_token("ann", "read"), server.new_token("bob", "read")
    with ExitStack() as stack:
        paths = ["/events", "/events?prefix=x", "/locks/x/watch"]
        streams = [stack.enter_context(server.stream(path, token=ann)) for path in paths]
        assert [stream.status for stream in streams] == [200] * STREAMS
        for path in paths:
            refused = server.get(path, token=ann, headers={"Accept": "text/event-stream"})
            assert (refused.status, refused.json["code"], refused.json["limit"]) == (409, "limit_exceeded", STREAMS)
            assert "event streams" in refused.json["error"]
            assert "Close one" in refused.json["details"]
        assert server.get("/events", token=ann).status == 200, "a page is not a stream"
        assert stack.enter_context(server.stream("/events", token=bob)).status == 200, "the limit is per principal"
        streams[0].close()
        until(lambda: _is_let_in(server, ann))


def _is_let_in(server: ServerProcess, token: str) -> bool:
    with server.stream("/events", token=token) as stream:
        return stream.status == 200


def test_clients_that_pipeline_requests_and_read_nothing_do_not_keep_others_out(server: ServerProcess) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:

        def is_crowded_out() -> bool:
            # The first may be cut off before the last arrives.
            for _ in range(CONNECTIONS):
                connection = stack.enter_context(Connection(server.port, receive_buffer=4_096))
                with suppress(OSError):
                    connection.send(request * 50)
            return _status_or_none(server) == 503

        until(is_crowded_out)
        until(lambda: _status_or_none(server) == 200)
    assert server.log.count("connection_refused") == 1
    assert server.log.count("cut_off") == 1


def _status_or_none(server: ServerProcess) -> int | None:
    try:
        return server.get("/livez").status
    except ConnectionError:
        return None


# Clients that leave


def leave_by_reset(connection: Connection) -> None:
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    connection.close()


def stop_sending(connection: Connection) -> None:
    with suppress(OSError):  # the server may have closed it already
        connection.socket.shutdown(socket.SHUT_WR)


LEAVING: dict[str, Callable[[Connection], None]] = {
    "closes": Connection.close,
    "resets": leave_by_reset,
    "stops sending": stop_sending,
}


@pytest.mark.parametrize("ahead", [1, 20_000], ids=["one request", "more than the server reads"])
@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING.keys())
def test_a_client_that_sent_more_requests_and_left_claims_nothing(
    server: ServerProcess, leave: Callable[[Connection], None], ahead: int, request: pytest.FixtureRequest
) -> None:
    job_id = f"left-{abs(hash(request.node.name))}"
    held = claim(server, job_id, owner="holder")
    with Connection(server.port) as connection:
        body: dict[str, Any] = {"owner": "gone", "wait_seconds": 60}
        connection.request("POST", f"/jobs/{job_id}/claim", body, token=server.token)
        until(lambda: waiting(server) == 1)
        connection.socket.setblocking(False)  # send what fits
        connection.socket.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * ahead)
        leave(connection)
        until(lambda: waiting(server) == 0)
        release(server, held)
        assert claim(server, job_id, owner="next")["status"] == "claimed"
    assert owners(server, job_id) == ["holder", "next"]


def test_pipelined_requests_of_a_client_that_left_are_not_executed(server: ServerProcess) -> None:
    held = claim(server, "ahead", owner="holder")
    with Connection(server.port) as connection:
        for path in ("/jobs/ahead/claim", "/jobs/ahead-2/claim"):
            connection.request("POST", path, {"owner": "gone", "wait_seconds": 60}, token=server.token)
        until(lambda: waiting(server) == 1)
    until(lambda: waiting(server) == 0)
    release(server, held)
    assert owners(server, "ahead") == ["holder"]
    assert owners(server, "ahead-2") == []


def test_clients_that_leave_are_not_logged(server: ServerProcess) -> None:
    before = server.log
    heads = [
        b"",
        b"GET /liv",
        b"POST /jobs/x/claim HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
        b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer "
        + server.token.encode()
        + b"\r\n\r\n",
    ]
    for leave in LEAVING.values():
        for head in heads:
            with Connection(server.port) as connection:
                connection.send(head)
                leave(connection)
    assert server.get("/livez").status == 200
    until(lambda: open_streams(server) == 0)
    assert server.log == before


# Limits


def test_the_number_of_connections_from_one_address_is_limited(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--max-connections-per-address", "3") as server, ExitStack() as stack:
        for _ in range(3):
            connection = stack.enter_context(server.connect())
            connection.request("GET", "/livez", token="")
            assert connection.response().status == 200
        for _ in range(2):
            with server.connect() as connection:
                refused = connection.response()
                assert (refused.status, refused.json["code"], refused.json["limit"]) == (503, "too_many_connections", 3)
                assert "your address" in refused.json["error"]
                assert connection.is_ended()
        other = stack.enter_context(Connection(server.port, address="127.0.0.2"))
        other.request("GET", "/livez", token="")
        assert other.response().status == 200, "other addresses are not affected"
        assert server.log.count("address_refused") == 1


def test_an_address_at_its_limit_does_not_hide_another_from_the_log(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--max-connections-per-address", "1") as server, ExitStack() as stack:
        for address in TWO_ADDRESSES:
            stack.enter_context(Connection(server.port, address=address))
            for _ in range(2):
                refused = stack.enter_context(Connection(server.port, address=address))
                assert refused.response().status == 503
        assert addresses_logged(server, "address_refused") == TWO_ADDRESSES


def test_a_client_that_does_not_read_does_not_hide_another_from_the_log(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--write-seconds", "1") as server, ExitStack() as stack:
        for address in TWO_ADDRESSES:
            connection = stack.enter_context(Connection(server.port, receive_buffer=4_096, address=address))
            with suppress(OSError):
                connection.send(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        until(lambda: sorted(addresses_logged(server, "cut_off")) == TWO_ADDRESSES)


def test_a_full_server_is_logged_once_for_all_the_addresses_it_refuses(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--max-connections", "1") as server, server.connect():
        for address in TWO_ADDRESSES:
            with Connection(server.port, address=address) as refused:
                assert refused.response().status == 503
        assert addresses_logged(server, "connection_refused") == TWO_ADDRESSES[:1]


def addresses_logged(server: ServerProcess, event: str) -> list[str]:
    return re.findall(rf"WARNING {event}: .* address=(\S+)", server.log)


def test_this_machine_and_trusted_proxies_may_use_all_connections_by_default() -> None:
    limits = ConnectionLimits(10 * DEFAULT_PER_ADDRESS, None, Proxies(["10.1.0.0/16"]))
    for address in ("127.0.0.1", "::1", "unix", "10.1.2.3"):
        assert not any(limits.enter(address)[1] for _ in range(DEFAULT_PER_ADDRESS + 1))
    for one, same in (("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::2")):
        origins = [limits.enter(one) for _ in range(DEFAULT_PER_ADDRESS)]
        assert not any(refusal for _, refusal in origins)
        origin, refusal = limits.enter(same)
        assert refusal is not None
        limits.leave(origin)
        limits.leave(origins[0][0])
        assert limits.enter(same)[1] is None


def test_connections_are_limited_by_the_number_of_files() -> None:
    assert capacity_within(20_000, 10_000) == (10_000, BACKLOG)
    for files in (10, 200, 256, 1_024, 4_096, 12_000):
        connections, backlog = capacity_within(files, 10_000)
        assert connections >= 1
        assert connections + backlog + RESERVED_FILES <= files or connections == 1


def test_a_server_raises_its_file_limit_and_logs_if_it_is_too_low(tmp_path: Path) -> None:
    limited = ("sh", "-c", 'ulimit -Sn 100; ulimit -Hn 600; exec "$@"', "sh", *SCRIPT)
    with ServerProcess(tmp_path, program=limited) as server:
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (600, 600)
        room = capacity_within(600, 10_000)
        assert f"{room.connections} connections at a time instead of 10000 (--max-connections)" in server.log
        with ExitStack() as stack:
            for _ in range(room.connections):
                stack.enter_context(server.connect())
            with server.connect() as connection:
                assert connection.response().status == 503
            assert len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) < 600 - room.backlog
