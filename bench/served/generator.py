"""As many requests as a server can take, from a Go program that is built on first use.

Without Go they come from `bench.served.slow_load`, in Python, which may be the bottleneck.
"""

import hashlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.served.peers import Peer
from bench.served.processes import ROOT, python
from bench.served.words import Step, Talk

SOURCES = ROOT / "bench" / "load"
WARM_UP_SECONDS = 0.3
"""Connecting and the first requests, which all come at once, are not timed."""
PATIENCE_SECONDS = 10.0


class Plan(msgspec.Struct, kw_only=True):
    port: int
    is_http: bool
    in_base64: bool
    steps: tuple[Step, ...]
    connections: int
    warm_up_seconds: float
    seconds: float
    series: int
    """Different series have different names."""
    patience_seconds: float


class Report(msgspec.Struct):
    """What the generator measured, for correct responses only."""

    per_second: float
    p50: float
    p99: float
    requests: int
    """Including the warm-up."""
    wrong: int
    first_wrong: str
    cpu: float
    """The share of a core that the generator used."""


class Measured(NamedTuple):
    """Per name acquired or released; a request may have many names."""

    per_second: float
    cpu: float
    """CPU seconds that the server used for each, on all cores."""
    p50: float
    p99: float
    wrong: int
    generator: float


def measure(peer: Peer, talk: Talk, connections: int, seconds: float, series: int) -> Measured:
    plan = Plan(
        port=peer.port,
        is_http=talk.is_http,
        in_base64=talk.in_base64,
        steps=talk.steps,
        connections=connections,
        warm_up_seconds=WARM_UP_SECONDS,
        seconds=seconds,
        series=series,
        patience_seconds=PATIENCE_SECONDS,
    )
    usage = peer.usage()
    cpu = usage.cpu_seconds()
    done = subprocess.run(command(), cwd=ROOT, input=msgspec.json.encode(plan), capture_output=True, check=False)
    cpu = usage.cpu_seconds() - cpu
    if done.returncode:
        raise RuntimeError(f"the load on {peer.title} failed: {done.stderr.decode()}")
    report = msgspec.json.decode(done.stdout, type=Report)
    if not report.requests:
        raise RuntimeError(f"no response from {peer.title} was correct; the first: {report.first_wrong}")
    return Measured(
        per_second=report.per_second * talk.size,
        cpu=cpu / (report.requests * talk.size),
        p50=report.p50,
        p99=report.p99,
        wrong=report.wrong,
        generator=report.cpu,
    )


@cache
def command() -> list[str]:
    try:
        return [str(_built())]
    except (OSError, subprocess.CalledProcessError) as why:
        print(f"Using the slow load generator in Python, because the one in Go was not built ({why})", end="\n\n")
        return python("bench.served.slow_load")


def _built() -> Path:
    """Cached in the virtual environment until its sources change."""
    sources = sorted(SOURCES.glob("*.go"))
    fingerprint = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    program = Path(sys.prefix) / f"octostore-load-{fingerprint}"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            raise FileNotFoundError("Go is not installed")
        subprocess.run([go, "build", "-o", str(program), "."], cwd=SOURCES, check=True, capture_output=True)
    return program
