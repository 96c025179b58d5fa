"""Section 4: durable claims of distinct names over HTTP, next to a handler that does nothing, etcd and Redis."""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median

from bench.served import targets
from bench.served.load import Load, Measured
from bench.served.processes import in_own_process, readable
from bench.served.targets import Target
from bench.tables import show

CONNECTIONS = (1, 16, 64, 256)
AIM = "0.50"
TIRED = 0.8
"""From here on it may be the generator that takes the time, and not who is asked: then it is at least so much."""

OTHERS = {"etcd": targets.etcd, "redis-server": targets.redis}


def report(scratch: Path, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        asked = [stack.enter_context(targets.octostore(scratch / "claims-octostore"))]
        asked.append(stack.enter_context(targets.nothing(scratch / "claims-nothing")))
        asked += [
            stack.enter_context(start(scratch / f"claims-{program}"))
            for program, start in OTHERS.items()
            if targets.installed(program)
        ]
        series = count(1)
        for target in asked:  # until a file has once had its full size, every commit makes it longer
            _measure(target, 16, seconds, next(series))
        rows = []
        for connections in CONNECTIONS:
            measured = [
                [_measure(target, connections, seconds, next(series)) for target in asked] for _ in range(rounds)
            ]
            rows += _rows(connections, asked, measured)
    title = (
        f"4. Durable claims of distinct names over HTTP (medians of {rounds} rounds of {seconds:g} seconds, in turn)\n"
        "   nothing: the same server and pipeline, a handler without the store\n"
        "   generator: how much of a core it took to ask; a + marks rates that it may have held back"
    )
    show(title, ["connections", "who", "claims/s", "p50 ms", "p99 ms", "OctoStore:it", "aim", "generator"], rows)
    _tell_commands(asked, scratch)


def _measure(target: Target, connections: int, seconds: float, series: int) -> Measured:
    load = Load(target.port, target.words, connections, seconds, series)
    return in_own_process("bench.served.load", load, Measured)


def _rows(connections: int, asked: Sequence[Target], measured: list[list[Measured]]) -> list[list[str]]:
    rows = []
    for number, target in enumerate(asked):
        own = [of_round[number] for of_round in measured]
        # Of each round by itself: the machine's pace may change from one to the next.
        ratio = median(of_round[0].per_second / of_round[number].per_second for of_round in measured)
        cpu = median(m.cpu for m in own)
        rows.append(
            [
                str(connections),
                target.title,
                f"{median(m.per_second for m in own):,.0f}" + ("+" if cpu > TIRED else ""),
                f"{median(m.p50 for m in own) * 1e3:.2f}",
                f"{median(m.p99 for m in own) * 1e3:.2f}",
                f"{ratio:.2f}" if number else "",
                AIM if target.title == "nothing" else "",
                f"{cpu:.0%}",
            ]
        )
    return rows


def _tell_commands(asked: Sequence[Target], scratch: Path) -> None:
    for target in asked:
        print(f"  {target.title}: {readable(target.command, scratch)}\n    {target.asked}")
    for program in OTHERS:
        print(f"  {targets.version(program) if targets.installed(program) else f'{program} is not installed'}")
    print(flush=True)
