"""Where the CPU of a claim over HTTP goes: a profile of the server, by stage.

A profiler makes calls more expensive. Its cost per call is measured and subtracted, and the rest is scaled to the CPU
that the same requests take without it. So these are shares, accurate to a few microseconds.
"""

import signal
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from bench.rounds import interleaved
from bench.served import peers, words
from bench.served.claims import series
from bench.served.generator import Measured, measure
from bench.served.peers import Peer
from bench.served.processes import python
from bench.served.profiled import Edge, Profiled
from bench.served.words import Talk
from bench.tables import show

CONNECTIONS = 64
SIZE = 100
OTHER = "loop and sockets"
STAGES = {
    "uvicorn/": "protocol",
    "httptools/": "protocol",
    "octostore/server/protocol": "protocol",
    "octostore/server/connections": "protocol",
    "octostore/server/known_heads": "protocol",
    "octostore/server/app": "pipeline",
    "octostore/server/standstill": "pipeline",
    "octostore/server/guard": "guard, auth, rate",
    "octostore/server/auth": "guard, auth, rate",
    "octostore/server/principals": "guard, auth, rate",
    "octostore/server/rate": "guard, auth, rate",
    "octostore/server/router": "route",
    "octostore/server/routes/": "route",
    "octostore/server/calls": "route",
    "octostore/core/encoding": "JSON",
    "octostore/wire/": "JSON",
    "json/": "JSON",
    "octostore/core/commands": "command",
    "octostore/core/limits": "command",
    "octostore/core/names": "command",
    "octostore/server/store": "hand-over",
    "octostore/server/feed": "hand-over",
    "octostore/server/waiting": "hand-over",
    "octostore/stores/loop_store": "hand-over",
    "octostore/stores/writer": "hand-over",
    "octostore/stores/engine": "hand-over",
    "octostore/stores/store": "hand-over",
    "octostore/stores/wakeups": "hand-over",
    "octostore/core/needs": "load",
    "octostore/core/line": "load",
    "octostore/stores/finding": "load",
    "octostore/stores/completing": "load",
    "octostore/stores/taking": "load",
    "octostore/stores/transaction": "load",
    "octostore/stores/sqlite/database": "load",
    "octostore/stores/batch": "decide",
    "octostore/core/": "decide",
    "octostore/stores/ids": "decide",
    "octostore/stores/transaction.py:Transaction.save": "save",
    "octostore/stores/transaction.py:_save": "save",
    "octostore/stores/sqlite/database.py:SqliteDatabase.write": "save",
    "octostore/stores/rows.py:job_to_row": "save",
    "octostore/stores/sqlite/backend": "COMMIT",
    "octostore/server/metrics": "metrics",
    "octostore/server/http": "response",
    "octostore/core/views": "response",
    "octostore/core/moments": "response",
}
"""By name prefix; the longest wins. A function without a stage, like a built-in, belongs to its caller's."""


def report(scratch: Path, rounds: int, seconds: float) -> None:
    ways: dict[str, Callable[[str], Talk]] = {
        f"one per request, {CONNECTIONS} connections": words.jobs,
        f"{SIZE} per request, 1 connection": partial(words.batch, size=SIZE),
    }
    measured = [
        _profile(scratch / f"stages-{number}", talk, rounds, seconds) for number, talk in enumerate(ways.values())
    ]
    stages = [stage for stage in dict.fromkeys([OTHER, *STAGES.values()]) if any(stage in spent for spent in measured)]
    rows = [[stage, *(f"{spent.get(stage, 0.0) * 1e6:,.1f}" for spent in measured)] for stage in stages]
    rows.append(["total", *(f"{sum(spent.values()) * 1e6:,.1f}" for spent in measured)])
    show("Stages: the server's CPU for a claim or release over HTTP, in µs", ["stage", *ways], rows)


def _profile(scratch: Path, talk: Callable[[str], Talk], rounds: int, seconds: float) -> dict[str, float]:
    """CPU seconds per name, by stage."""
    scratch.mkdir()
    profile = scratch / "profile.json"
    program = [*python("bench.served.profiled"), str(profile)]
    with (
        peers.ours(scratch / "ours") as ours,
        peers.octostore("profiled", scratch / "profiled", program) as profiled,
    ):
        profiled.process.send_signal(signal.SIGUSR1)
        turns = [partial(_measure, peer, talk(peer.token), seconds) for peer in (ours, profiled)]
        plain, _ = interleaved(turns, rounds)
    spent = _by_stage(msgspec.json.decode(profile.read_bytes(), type=Profiled))
    scale = median(m.cpu for m in plain) / sum(spent.values())
    return {stage: seconds * scale for stage, seconds in spent.items()}


def _measure(peer: Peer, talk: Talk, seconds: float) -> Measured:
    return measure(peer, talk, CONNECTIONS if talk.size == 1 else 1, seconds, next(series))


def _by_stage(profiled: Profiled) -> dict[str, float]:
    """CPU seconds of each stage."""
    callers: dict[str, list[Edge]] = defaultdict(list)
    calls_by: dict[str, int] = defaultdict(int)
    for edge in profiled.edges:
        callers[edge.callee].append(edge)
        calls_by[edge.caller] += edge.calls
    shares = _Shares(callers)
    spent: dict[str, float] = defaultdict(float)
    for function, edges in callers.items():
        bias = profiled.callee_bias + profiled.caller_bias * calls_by[function] / max(1, sum(e.calls for e in edges))
        for edge in edges:
            seconds = max(0.0, edge.seconds - edge.calls * bias)
            for stage, share in shares.of(function if _stage_of(function) else edge.caller).items():
                spent[stage] += seconds * share
    return spent


class _Shares:
    """The stages a function belongs to: its own, or in parts those of its callers."""

    def __init__(self, callers: dict[str, list[Edge]]) -> None:
        self._callers = callers
        self._known: dict[str, dict[str, float]] = {"": {OTHER: 1.0}}

    def of(self, function: str) -> dict[str, float]:
        if function not in self._known:
            self._known[function] = {}  # recursion adds nothing
            stage = _stage_of(function)
            self._known[function] = {stage: 1.0} if stage else self._inherited(function)
        return self._known[function]

    def _inherited(self, function: str) -> dict[str, float]:
        found: dict[str, float] = defaultdict(float)
        for edge in self._callers[function]:
            for stage, share in self.of(edge.caller).items():
                found[stage] += share * edge.calls
        total = sum(found.values())
        return {stage: share / total for stage, share in found.items()} if total else {OTHER: 1.0}


def _stage_of(function: str) -> str | None:
    fitting = [part for part in STAGES if f"/{part}" in function]
    return STAGES[max(fitting, key=len)] if fitting else None
