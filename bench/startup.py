"""What a command takes from start to exit, compared with a Python that does nothing."""

import re
import resource
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from bench.rounds import interleaved, ratio
from bench.served.peers import BEFORE
from bench.served.processes import clean_environment, python_of
from bench.tables import show

JOB = "job-1"
COLLECTED = re.compile(r"==(\d+)== Collected : (\d+)")
COMMANDS = (
    ("-c", "import octostore"),
    ("-m", "octostore", "owner", JOB),
    ("-m", "octostore", "claim", "job-3", "--request-id", "again", "--ttl", "1d"),
    ("-m", "octostore", "run", "job-2", "--", "true"),
)


class Start(NamedTuple):
    title: str
    command: list[str]
    environment: dict[str, str]


class Took(NamedTuple):
    seconds: float
    cpu: float
    """Of the process and its children."""


def report(scratch: Path, starts: int) -> None:
    commands = _commands(scratch)
    for start in commands:
        _run(start)  # writes the bytecode
    results = interleaved([partial(_run, start) for start in commands], starts)
    show(
        f"Start of a process to its exit (medians of {starts}, alternating; the store is a file with one job)\n"
        "   CPU: with its children; instructions: without them, in millions, by valgrind",
        ["process", "ms", "CPU ms", "CPU it:nothing", "instructions"],
        [
            [start.title, *_cells(own, results[0]), _instructions(start)]
            for start, own in zip(commands, results, strict=True)
        ],
    )


def _commands(scratch: Path) -> list[Start]:
    pythons = {"": sys.executable} | ({"before: ": python_of(BEFORE)} if BEFORE else {})
    environments = {whose: _environment(scratch, python) for whose, python in pythons.items()}
    commands = [Start("nothing: python -c pass", [sys.executable, "-c", "pass"], environments[""])]
    for arguments in COMMANDS:
        for whose, python in pythons.items():
            commands.append(Start(whose + " ".join(arguments[1:]), [python, *arguments], environments[whose]))
    return commands


def _environment(scratch: Path, python: str) -> dict[str, str]:
    """With a store, and a folder for bytecode: without one, recently edited files would be compiled every time."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    places = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "OCTOSTORE_URL": f"sqlite:///{folder / 'startup.db'}"}
    environment = {**clean_environment(), **places}
    _run(Start("a job", [python, "-m", "octostore", "claim", JOB, "--owner", "holder", "--ttl", "1d"], environment))
    return environment


def _run(start: Start) -> Took:
    started, before = perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(start.command, env=start.environment, stdout=subprocess.DEVNULL, check=True)
    ended, after = perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(ended - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _instructions(start: Start) -> str:
    if shutil.which("valgrind") is None:
        return "no valgrind"
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *start.command]
    with subprocess.Popen(command, env=start.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        said = process.communicate()[1].decode()
    # A forked child continues its parent's count.
    counted = {int(pid): int(number) for pid, number in COLLECTED.findall(said)}
    return f"{counted[process.pid] / 1e6:,.0f}"


def _cells(own: list[Took], nothing: list[Took]) -> list[str]:
    return [
        f"{median(took.seconds for took in own) * 1e3:.1f}",
        f"{median(took.cpu for took in own) * 1e3:.1f}",
        f"{ratio([took.cpu for took in own], [took.cpu for took in nothing]):.2f}",
    ]
