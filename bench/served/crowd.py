"""Many owners, readers and waiting claims on one server, and what another client notices."""

import json
import resource
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from bench.served import peers
from bench.served.crowd_readers import Read, Readers
from bench.served.crowd_workers import Worked, Workers
from bench.served.peers import Peer
from bench.served.processes import LOOPBACK
from bench.served.talk import child
from bench.tables import show
from bench.timing import percentile

BEAT_SECONDS = 3.0
LINES = 10
PROBE_PAUSE_SECONDS = 0.1
"""The extra client claims, releases and pauses: it measures the load, and should not add to it."""
FILES_PER_MEMBER = 4
"""Each of the three has a connection, and some files must remain."""


class Phase(NamedTuple):
    title: str
    seconds: float
    claims: list[float]
    """The seconds of each."""
    cpu: float
    """Of one core."""
    memory_mib: float


def report(scratch: Path, size: int, seconds: float) -> None:
    size = min(size, _allowed_files() // FILES_PER_MEMBER)
    with peers.ours(scratch / "crowd") as server:
        _report(server, size, seconds)
    if peers.BEFORE:
        with peers.before(scratch / "crowd-before", peers.BEFORE) as server:
            _report(server, size, seconds)


def _report(server: Peer, size: int, seconds: float) -> None:
    at_rest = server.usage().memory_mib()
    with ExitStack() as stack:
        probe = Probe(server)
        with probe.during("no crowd yet"):
            time.sleep(seconds / 3)
        with probe.during("owners and waiting claims arrive"):
            work = Workers(server.port, server.token, size, BEAT_SECONDS, LINES, size // LINES, seconds)
            workers = stack.enter_context(child("bench.served.crowd_workers", work))
            seq = workers.hear(int)
        with probe.during("readers arrive"):
            reading = Readers(server.port, server.token, size, seq)
            readers = stack.enter_context(child("bench.served.crowd_readers", reading))
            readers.hear(str)
        with probe.during("all present"):
            time.sleep(seconds)
        with probe.during("waiting claims are served"):
            workers.tell("go on")
            worked = workers.hear(Worked)
        readers.tell(worked.last_seq)
        read = readers.hear(Read)
    _show_phases(f"{server.title}, {at_rest:.0f} MiB at rest", size, probe.phases)
    _show_crowd(size, worked, read, worked.last_seq - seq)


class Probe:
    """An extra client that claims and releases while something else happens."""

    def __init__(self, server: Peer, pause_seconds: float = PROBE_PAUSE_SECONDS) -> None:
        self._server = server
        self._pause_seconds = pause_seconds
        self._usage = server.usage()
        self._count = 0
        self.phases: list[Phase] = []

    @contextmanager
    def during(self, title: str) -> Iterator[None]:
        ended = threading.Event()
        with ThreadPoolExecutor(1) as thread:
            cpu, started = self._usage.cpu_seconds(), time.perf_counter()
            claims = thread.submit(self._claim_until, ended)
            try:
                yield
            finally:
                ended.set()
            claims.result()
        seconds = time.perf_counter() - started
        cpu = (self._usage.cpu_seconds() - cpu) / seconds
        self.phases.append(Phase(title, seconds, claims.result(), cpu, self._usage.memory_mib()))

    def _claim_until(self, ended: threading.Event) -> list[float]:
        latencies = []
        connection = HTTPConnection(LOOPBACK, self._server.port, timeout=60)
        while not ended.wait(self._pause_seconds):
            self._count += 1
            path = f"/jobs/probe-{self._count}"
            started = time.perf_counter()
            claim = self._post(connection, f"{path}/claim", {"owner": "probe"})
            latencies.append(time.perf_counter() - started)
            self._post(connection, f"{path}/release", {"lease_id": claim["lease_id"]})
        connection.close()
        return latencies

    def _post(self, connection: HTTPConnection, path: str, body: object) -> dict[str, str]:
        connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {self._server.token}"})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"the extra client got {content!r}")
        reply: dict[str, str] = json.loads(content)
        return reply


def _allowed_files() -> int:
    """Raise the limit on open files, for this process and its children, and return it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _show_phases(who: str, size: int, phases: list[Phase]) -> None:
    title = (
        f"A crowd ({who}): {size:,} owners with a heartbeat every {BEAT_SECONDS:g} seconds,\n"
        f"   {size:,} waiting claims in {LINES} lines, {size:,} streams of all events,\n"
        f"   and an extra client that claims and releases, {PROBE_PAUSE_SECONDS * 1_000:g} ms apart"
    )
    rows = [
        [
            phase.title,
            f"{phase.seconds:.1f}",
            f"{len(phase.claims)}",
            *_millis(phase.claims),
            f"{phase.cpu:.0%}",
            f"{phase.memory_mib:,.0f}",
        ]
        for phase in phases
    ]
    show(title, ["while", "seconds", "its claims", "p50 ms", "p99 ms", "server CPU", "server MiB after"], rows)


def _show_crowd(size: int, worked: Worked, read: Read, events: int) -> None:
    timed = {
        "heartbeat, until its response": worked.heartbeats,
        "event, until a stream delivers it": read.delays,
        "release, until the next in line has the job": worked.handovers,
        f"a line of {size // LINES}, until all have had the job": worked.lines,
    }
    rows = [[what, f"{len(samples):,}", *_millis(samples)] for what, samples in timed.items()]
    show("   What the crowd saw", ["what", "count", "p50 ms", "p99 ms"], rows)
    print(
        f"  {read.complete:,} of {size:,} streams delivered all {events:,} events; "
        f"{worked.in_vain:,} claims waited in vain",
        end="\n\n",
    )


def _millis(samples: list[float]) -> list[str]:
    if not samples:
        return ["none", "none"]
    # Doubled, so that a single sample works, too.
    return [f"{percentile(samples * 2, percent) * 1_000:,.1f}" for percent in (50, 99)]
