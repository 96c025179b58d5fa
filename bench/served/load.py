"""As many claims as a server takes, over a number of connections: run as a process of its own, one for each round.

Raw sockets and epoll, the same loop for everybody. Each connection has one request under way; the next is sent when its
answer is complete and is what it should be. Requests are finished texts but for the name.
"""

import re
import select
import socket
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import count
from time import perf_counter, process_time

import msgspec

from bench.served.processes import LOOPBACK
from bench.served.targets import NAME, NAME_LENGTH, Words
from bench.timing import percentile

WARM_UP_SECONDS = 0.7
"""Connecting and the first wave of requests, which all come at once, are not counted."""
PATIENCE_SECONDS = 10.0
CONTENT_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)", re.IGNORECASE)


class Load(msgspec.Struct):
    port: int
    words: Words
    connections: int
    seconds: float
    series: int
    """Names of different series are different."""


class Measured(msgspec.Struct):
    per_second: float
    p50: float
    p99: float
    cpu: float
    """How much of a core the generator itself has used."""


class Connection:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((LOOPBACK, port), timeout=PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.sent_at = 0.0


class Generator:
    def __init__(self, load: Load) -> None:
        self._words = load.words
        self._requests = _requests(load.words, load.series)
        self._is_complete: Callable[[bytes], bool] = _is_complete_http if load.words.is_http else _is_line
        self._connections = {c.socket.fileno(): c for c in (Connection(load.port) for _ in range(load.connections))}
        self._epoll = select.epoll()
        for number in self._connections:
            self._epoll.register(number, select.EPOLLIN)
        self._latencies: list[float] = []

    def run(self, seconds: float) -> Measured:
        for connection in self._connections.values():
            self._send(connection)
        self._until(perf_counter() + WARM_UP_SECONDS)
        self._latencies.clear()
        started, cpu = perf_counter(), process_time()
        self._until(started + seconds)
        seconds, cpu = perf_counter() - started, process_time() - cpu
        latencies = list(self._latencies)
        self._drain()
        return Measured(
            per_second=len(latencies) / seconds,
            p50=percentile(latencies, 50),
            p99=percentile(latencies, 99),
            cpu=cpu / seconds,
        )

    def _until(self, end: float) -> None:
        while perf_counter() < end:
            for connection in self._answered():
                self._send(connection)

    def _drain(self) -> None:
        """Leave nothing behind for the next round."""
        waiting = len(self._connections)
        while waiting:
            waiting -= sum(1 for _ in self._answered())

    def _answered(self) -> Iterator[Connection]:
        ready = self._epoll.poll(PATIENCE_SECONDS)
        if not ready:
            raise TimeoutError(f"no answer within {PATIENCE_SECONDS:g} seconds")
        for number, _ in ready:
            connection = self._connections[number]
            connection.received += connection.socket.recv(65_536)
            answer = connection.received
            if not self._is_complete(answer):
                continue
            self._latencies.append(perf_counter() - connection.sent_at)
            if not answer.startswith(self._words.start) or self._words.content not in answer:
                raise ValueError(f"a claim was answered with {answer!r}")
            connection.received = b""
            yield connection

    def _send(self, connection: Connection) -> None:
        request = next(self._requests)
        connection.sent_at = perf_counter()
        connection.socket.sendall(request)


def _requests(words: Words, series: int) -> Iterator[bytes]:
    """For names in no order: neighbours in time are no neighbours in an index."""
    for number in count():
        name = b"issue-%04d-%013d" % (series, number * 7_368_787_123 % 10**13)
        if len(name) != NAME_LENGTH:
            raise ValueError(f"the name {name!r} has not {NAME_LENGTH} bytes")
        yield words.request.replace(NAME.encode(), b64encode(name) if words.in_base64 else name)


def _is_complete_http(received: bytes) -> bool:
    if not received:
        raise ConnectionError("the server has closed the connection")
    head, _, body = received.partition(b"\r\n\r\n")
    length = CONTENT_LENGTH.search(head)
    return length is not None and len(body) == int(length[1])


def _is_line(received: bytes) -> bool:
    if not received:
        raise ConnectionError("the server has closed the connection")
    return received.endswith(b"\r\n")


def main() -> None:
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    measured = Generator(load).run(load.seconds)
    sys.stdout.buffer.write(msgspec.json.encode(measured))


if __name__ == "__main__":
    main()
