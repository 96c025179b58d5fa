"""Section 8: what a command line pays before it does anything, next to Python that does nothing."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median

import octostore
from bench.tables import show
from bench.timing import seconds

JOB = "job-1"
TTL_SECONDS = 86_400
COMMAND = Path(sys.executable).with_name("octostore")

NOTHING = "python -c pass"
LIBRARY = "import octostore"
FIRST_CALL = f"import octostore; octostore.connect().get_job({JOB!r})"


def report(scratch: Path, starts: int) -> None:
    environment = _environment(scratch)
    with octostore.connect(environment["OCTOSTORE_URL"]) as store:
        store.claim_job(JOB, "holder", ttl=TTL_SECONDS)
    measured = _measure(_commands(), environment, starts)
    show(
        f"8. Start of a process until its end (medians of {starts}, in turn; the store is a file with one job)",
        ["process", "ms", "it:nothing"],
        [[what, *_cells(took, measured[NOTHING])] for what, took in measured.items()],
    )
    if not COMMAND.exists():
        print(f"  octostore owner: not measured; there is no {COMMAND}", end="\n\n")


def _commands() -> dict[str, list[str]]:
    commands = {NOTHING: [sys.executable, "-c", "pass"]}
    commands |= {code: [sys.executable, "-c", code] for code in (LIBRARY, FIRST_CALL)}
    if COMMAND.exists():
        commands[f"octostore owner {JOB}"] = [str(COMMAND), "owner", JOB]
    return commands


def _environment(scratch: Path) -> dict[str, str]:
    """Nobody's settings, and a place for bytecode: without one, what was edited last would be compiled every time."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OCTOSTORE_", "PYTHON"))}
    url = f"sqlite:///{scratch / 'startup.db'}"
    return {**clean, "PYTHONPYCACHEPREFIX": str(scratch / "bytecode"), "OCTOSTORE_URL": url}


def _measure(commands: dict[str, list[str]], environment: dict[str, str], starts: int) -> dict[str, list[float]]:
    for command in commands.values():
        _run(command, environment)  # writes the bytecode
    took: dict[str, list[float]] = {what: [] for what in commands}
    for _ in range(starts):
        for what, command in commands.items():
            took[what].append(seconds(partial(_run, command, environment)))
    return took


def _run(command: list[str], environment: dict[str, str]) -> None:
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def _cells(took: list[float], nothing: list[float]) -> list[str]:
    # Of each turn by itself: the machine's pace may change from one to the next.
    ratio = median(own / other for own, other in zip(took, nothing, strict=True))
    return [f"{median(took) * 1e3:.1f}", f"{ratio:.2f}"]
