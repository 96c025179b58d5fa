"""The live page on a large store: its first paint, and what open pages cost the server and other clients."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from bench.rounds import interleaved, ratio
from bench.sample_file import build
from bench.sample_rows import SampleRows
from bench.served import browser, peers
from bench.served.crowd import Phase, Probe
from bench.served.crowd_workers import Workers
from bench.served.pages import Got, Pages
from bench.served.peers import Peer
from bench.served.processes import LOOPBACK
from bench.served.talk import Child, child
from bench.tables import show
from bench.timing import percentile, seconds
from octostore.core.model import Status

EVENTS_PER_JOB = 5
SPACING_MS = 500
"""Between events: five million make a month's log."""
SHARES: Mapping[Status, int] = {"queued": 4, "done": 95, "dead": 1}
"""Per hundred jobs. None is claimed: claims are made by owners in this run."""

HOLDERS, BEAT_SECONDS = 500, 10.0
PAGES = 50
PAINTS_PER_ROUND = 3
PROBE_PAUSE_SECONDS = 0.05
SETTLE_SECONDS = 3.0
"""After opening or closing pages, until the load is steady."""

JOBS = "jobs?limit=200"
PAINT_TARGET, CPU_TARGET, LATENCY_TARGET = "3.00", "10.0%", "1.20"


def report(scratch: Path, jobs: int, rounds: int, turn_seconds: float) -> None:
    folder, events = scratch / "page", jobs * EVENTS_PER_JOB
    folder.mkdir()
    rows = SampleRows(jobs, events, round(time.time() * 1_000), SPACING_MS, SHARES)
    build(folder / "octostore.db", jobs, events, rows)
    what = f"{jobs:,} jobs, {events:,} events, {HOLDERS} live claims with a heartbeat every {BEAT_SECONDS:g} s"
    print(f"The live page: {what}", end="\n\n", flush=True)
    with peers.ours(folder) as server, _held_jobs(server):
        if browser.IS_THERE:
            _report_paint(server, rounds * PAINTS_PER_ROUND)
        else:
            print("First paint: not measured; it needs Chromium, and playwright from the `bench` extra", end="\n\n")
        _report_open_pages(server, rounds, turn_seconds)


@contextmanager
def _held_jobs(server: Peer) -> Iterator[None]:
    work = Workers(server.port, server.token, HOLDERS, BEAT_SECONDS, lines=0, line_length=0, serve_seconds=0)
    with child("bench.served.crowd_workers", work) as holders:
        holders.hear(int)
        yield


# First paint


def _report_paint(server: Peer, samples: int) -> None:
    """The page and the JSON, both in the browser, which is slow with any address; and the JSON in a plain client."""
    url = browser.url_of(server)
    with browser.chromium() as chromium, browser.logged_in(chromium, server) as context:
        fresh = partial(browser.on_first_visit, chromium, server)
        turns: list[Callable[[], float]] = [
            partial(_request_seconds, server, f"/{JOBS}"),
            partial(browser.document_painted, context, f"{url}/ui/api/{JOBS}"),
            partial(browser.page_painted, context, url),
            partial(fresh, browser.document_painted, f"{url}/ui/api/{JOBS}"),
            partial(fresh, browser.page_painted, url),
        ]
        for turn in turns:
            turn()
        client, *opened = interleaved(turns, samples)
        calls = browser.calls_of_a_tab(context, url, SETTLE_SECONDS)
    title = (
        f"First paint in Chromium: the page with its rows, and the JSON of GET /{JOBS} (medians of {samples}, "
        f"alternating)\n   A plain HTTP client has that JSON after {median(client) * 1e3:.0f} ms"
    )
    rows = [_painted("first", *opened[2:]), _painted("later", *opened[:2])]
    show(title, ["visit", "JSON, ms", "page, ms", "page:JSON", "target"], rows)
    counts = ", ".join(f"{what} {number}" for what, number in sorted(calls.items()))
    print(f"  A tab's requests in its first {SETTLE_SECONDS:g} seconds: {counts}", end="\n\n", flush=True)


def _painted(visit: str, json: list[float], page: list[float]) -> list[str]:
    times = (f"{median(taken) * 1e3:,.0f}" for taken in (json, page))
    return [visit, *times, f"{ratio(page, json):.2f}", PAINT_TARGET]


def _request_seconds(server: Peer, path: str) -> float:
    connection = HTTPConnection(LOOPBACK, server.port, timeout=60)
    connection.connect()

    def ask() -> None:
        connection.request("GET", path, headers={"Authorization": f"Bearer {server.token}"})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path} returned {content!r}")

    try:
        return seconds(ask)
    finally:
        connection.close()


# Open pages


def _report_open_pages(server: Peer, rounds: int, turn_seconds: float) -> None:
    probe = Probe(server, PROBE_PAUSE_SECONDS)
    with child("bench.served.pages", Pages(server.port, server.token, PAGES)) as pages:
        pages.hear(int)
        _measured(probe, turn_seconds / 3)  # until the WAL has reached its full size, every commit extends it
        closed = partial(_measured, probe, turn_seconds)
        opened = partial(_measured_with, pages, probe, turn_seconds)
        without, with_pages = interleaved([closed, opened], rounds)
        got = _send(pages, "close")
    _show_costs(without, with_pages, turn_seconds)
    _show_got(got, turn_seconds)


def _measured(probe: Probe, turn_seconds: float) -> Phase:
    time.sleep(SETTLE_SECONDS)
    with probe.during(""):
        time.sleep(turn_seconds)
    return probe.phases[-1]


def _measured_with(pages: Child, probe: Probe, turn_seconds: float) -> Phase:
    _send(pages, "open")
    try:
        return _measured(probe, turn_seconds)
    finally:
        _send(pages, "close")


def _send(pages: Child, what: str) -> Got:
    pages.tell(what)
    return pages.hear(Got)


def _show_costs(without: list[Phase], with_pages: list[Phase], turn_seconds: float) -> None:
    before, after = (_times(phases) for phases in (without, with_pages))
    cpu = [median(phase.cpu for phase in phases) for phases in (without, with_pages)]
    more = median(two.cpu - one.cpu for one, two in zip(without, with_pages, strict=True))
    ratios = [f"{two / one:.2f}" for one, two in zip(before, after, strict=True)]
    title = (
        f"{PAGES} open pages (medians of {len(without)} rounds of {turn_seconds:g} seconds, alternating)\n"
        f"   claims: by an extra client that claims and releases, {PROBE_PAUSE_SECONDS * 1_000:g} ms apart"
    )
    rows = [
        ["no open pages", f"{cpu[0]:.1%}", *(f"{taken * 1e3:.2f}" for taken in before)],
        [f"{PAGES} open pages", f"{cpu[1]:.1%}", *(f"{taken * 1e3:.2f}" for taken in after)],
        ["difference, or ratio", f"{more:.1%}", *ratios],
        ["target, at most", CPU_TARGET, "", LATENCY_TARGET],
    ]
    show(title, ["load", "server CPU", "claims, p50 ms", "p99 ms"], rows)


def _times(phases: list[Phase]) -> tuple[float, float]:
    """p50 and p99 of all claims together: one round has too few for a p99."""
    claims = [taken for phase in phases for taken in phase.claims]
    return percentile(claims, 50), percentile(claims, 99)


def _show_got(got: Got, turn_seconds: float) -> None:
    """For the last round."""
    heartbeats, events, kilobytes = (
        f"{number / (turn_seconds + SETTLE_SECONDS):,.0f}" for number in (got.heartbeats, got.events, got.kilobytes)
    )
    print(
        f"  Each page shows {got.rows / got.loads:.0f} rows and follows {got.followed / PAGES:.0f} heartbeats. "
        f"All pages together get {heartbeats}\n  heartbeats, {events} events and {kilobytes} KiB a second, and have "
        f"reloaded {got.loads - PAGES} times",
        end="\n\n",
        flush=True,
    )
