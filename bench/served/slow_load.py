"""The Go load generator in Python, for machines without Go: the same plan, the same report.

Raw sockets and epoll. It may be slower than the servers it measures.
"""

import re
import select
import socket
import sys
from base64 import b64encode
from collections.abc import Iterator
from itertools import count, repeat
from time import perf_counter, process_time

import msgspec

from bench.served.generator import Plan, Report
from bench.served.processes import LOOPBACK
from bench.served.words import LEASE, NAME, Step
from bench.timing import percentile

CONTENT_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)", re.IGNORECASE)
LEASES = re.compile(rb'"lease_id":"([^"]+)"')
WORDS = re.compile(f"{NAME}|{LEASE}")


class Caller:
    """A connection that repeats the plan's steps."""

    def __init__(self, plan: Plan, names: Iterator[str]) -> None:
        self.socket = socket.create_connection((LOOPBACK, plan.port), timeout=plan.patience_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._plan = plan
        self._new_names = names
        self._received = b""
        self._number = 0
        self._names: list[str] = []
        self._leases: list[str] = []
        self.sent_at = 0.0

    @property
    def _step(self) -> Step:
        return self._plan.steps[self._number]

    @property
    def is_between_turns(self) -> bool:
        return self._number == 0

    def send(self) -> None:
        if self.is_between_turns:
            self._names = [next(self._new_names) for _ in range(self._step.times)]
        repeats = self._step.request.count(NAME) // self._step.times
        parts = {NAME: (name for name in self._names for _ in range(repeats)), LEASE: iter(self._leases)}
        request = WORDS.sub(lambda word: next(parts[word[0]]), self._step.request)
        self.sent_at = perf_counter()
        self.socket.sendall(request.encode())

    def receive(self) -> bytes | None:
        """The response, once complete."""
        self._received += self.socket.recv(1 << 20)
        if not self._received:
            raise ConnectionError("the server closed the connection")
        if not self._is_complete():
            return None
        response, self._received = self._received, b""
        return response

    def is_right(self, response: bytes) -> bool:
        """Also moves to the next step, or to the first one after a wrong response."""
        right = response.count(self._step.expect.encode()) == self._step.times
        right = right and (not self._plan.is_http or response.startswith(b"HTTP/1.1 200"))
        self._leases = [lease.decode() for lease in LEASES.findall(response)]
        self._number = (self._number + 1) % len(self._plan.steps) if right else 0
        return right

    def _is_complete(self) -> bool:
        if not self._plan.is_http:
            return self._received.count(b"\r\n") == self._step.times
        head, _, body = self._received.partition(b"\r\n\r\n")
        length = CONTENT_LENGTH.search(head)
        return length is not None and len(body) == int(length[1])


class Generator:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        names = _names(plan)
        self._callers = {c.socket.fileno(): c for c in map(Caller, repeat(plan, plan.connections), repeat(names))}
        self._epoll = select.epoll()
        for number in self._callers:
            self._epoll.register(number, select.EPOLLIN)
        self._took: list[float] = []
        self._report = Report(0.0, 0.0, 0.0, 0, 0, "", 0.0)

    def run(self) -> Report:
        begun, cpu = perf_counter(), process_time()
        start = begun + self._plan.warm_up_seconds
        end = start + self._plan.seconds
        for caller in self._callers.values():
            caller.send()
        busy = len(self._callers)
        while busy:
            for caller in self._receive_responses(start, end):
                if perf_counter() >= end and caller.is_between_turns:
                    busy -= 1
                else:
                    caller.send()
        report = self._report
        report.per_second = len(self._took) / self._plan.seconds
        report.p50, report.p99 = percentile(self._took, 50), percentile(self._took, 99)
        report.cpu = (process_time() - cpu) / (perf_counter() - begun)
        return report

    def _receive_responses(self, start: float, end: float) -> Iterator[Caller]:
        ready = self._epoll.poll(self._plan.patience_seconds)
        if not ready:
            raise TimeoutError(f"no response within {self._plan.patience_seconds:g} seconds")
        for number, _ in ready:
            caller = self._callers[number]
            response = caller.receive()
            if response is None:
                continue
            ended = perf_counter()
            if caller.is_right(response):
                self._report.requests += 1
                if start < ended < end:
                    self._took.append(ended - caller.sent_at)
            else:
                self._report.wrong += 1
                self._report.first_wrong = self._report.first_wrong or response.decode()[:500]
            yield caller


def _names(plan: Plan) -> Iterator[str]:
    """Scattered, so that consecutive names are far apart in an index."""
    for number in count():
        name = f"issue-{plan.series:04}-{number * 7_368_787_123 % 10**13:013}"
        yield b64encode(name.encode()).decode() if plan.in_base64 else name


def main() -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(Generator(plan).run()))


if __name__ == "__main__":
    main()
