"""Where the CPU of a claim over HTTP goes: a profile of the server, by stage.

A profiler makes calls dearer. What it adds to each is measured and taken off, and what is left is scaled to what the
same requests take without it. So these are shares, good to a few microseconds.
"""

import signal
from collections import defaultdict
from functools import partial
from pathlib import Path

import msgspec

from bench.rounds import interleaved
from bench.served import peers, words
from bench.served.claims import series
from bench.served.generator import Measured, measure
from bench.served.peers import Peer
from bench.served.processes import python
from bench.served.profiled import Edge, Profiled
from bench.tables import show

CONNECTIONS = 64
OTHER = "loop and sockets"
STAGES = {
    "uvicorn/": "protocol",
    "httptools/": "protocol",
    "octostore/server/protocol": "protocol",
    "octostore/server/app": "pipeline",
    "octostore/server/attention": "pipeline",
    "octostore/server/guard": "guard, auth, rate",
    "octostore/server/auth": "guard, auth, rate",
    "octostore/server/principals": "guard, auth, rate",
    "octostore/server/rate": "guard, auth, rate",
    "octostore/server/router": "route",
    "octostore/server/routes/": "route",
    "octostore/core/encoding": "JSON",
    "octostore/wire/": "JSON",
    "json/": "JSON",
    "octostore/core/commands": "command",
    "octostore/core/limits": "command",
    "octostore/core/names": "command",
    "octostore/server/store": "hand-over",
    "octostore/stores/writer": "hand-over",
    "octostore/stores/engine": "hand-over",
    "octostore/stores/store": "hand-over",
    "octostore/stores/wakeups": "hand-over",
    "octostore/server/feed": "hand-over",
    "octostore/server/waiting": "hand-over",
    "octostore/stores/batch": "decide",
    "octostore/core/": "decide",
    "octostore/stores/ids": "decide",
    "octostore/core/needs": "load",
    "octostore/stores/sqlite/transaction": "load",
    "octostore/stores/sqlite/transaction.py:Transaction.save": "save",
    "octostore/stores/rows.py:job_from_row": "load",
    "octostore/stores/rows": "save",
    "octostore/stores/sqlite/backend": "COMMIT",
    "octostore/server/metrics": "metrics",
    "prometheus_client/": "metrics",
    "octostore/server/http": "answer",
    "octostore/core/views": "answer",
    "octostore/core/moments": "answer",
}
"""By the beginning of a name; the longest counts. What has no stage, such as built-in functions, is its caller's."""


def report(scratch: Path, rounds: int, seconds: float) -> None:
    profile = scratch / "profile.json"
    program = [*python("bench.served.profiled"), str(profile)]
    with (
        peers.ours(scratch / "stages-ours") as ours,
        peers.octostore("profiled", scratch / "stages-profiled", program) as profiled,
    ):
        profiled.process.send_signal(signal.SIGUSR1)
        plain, _ = interleaved([partial(_measure, peer, seconds) for peer in (ours, profiled)], rounds)
    stages = _by_stage(msgspec.json.decode(profile.read_bytes(), type=Profiled))
    cpu = sum(m.cpu for m in plain) / len(plain) * 1e6
    scale = cpu / sum(stages.values())
    rows = [[stage, f"{stages[stage] * scale:,.1f}", f"{stages[stage] * scale / cpu:.0%}"] for stage in _order(stages)]
    title = (
        f"Stages: CPU of a claim or release of a job over HTTP, {CONNECTIONS} connections: {cpu:,.0f} µs of the server"
    )
    show(title, ["stage", "µs", "share"], rows)


def _measure(peer: Peer, seconds: float) -> Measured:
    return measure(peer, words.jobs(peer.token), CONNECTIONS, seconds, next(series))


def _by_stage(profiled: Profiled) -> dict[str, float]:
    """The seconds of each."""
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
    """To which stages a function belongs: to its own, or in parts to those of the functions that call it."""

    def __init__(self, callers: dict[str, list[Edge]]) -> None:
        self._callers = callers
        self._known: dict[str, dict[str, float]] = {"": {OTHER: 1.0}}

    def of(self, function: str) -> dict[str, float]:
        if function not in self._known:
            self._known[function] = {}  # when it comes back to itself, that adds nothing
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


def _order(stages: dict[str, float]) -> list[str]:
    known = list(dict.fromkeys([OTHER, *STAGES.values()]))
    return [stage for stage in known if stage in stages]
