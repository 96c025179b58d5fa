"""Test the wheel on every supported Python that is installed, and with the oldest dependencies it allows.

`make test` runs everything, on one Python and with new dependencies. This runs the part that depends most on both, in
about a minute for each: the rules, one behavioural suite on every store and client, and every command in a new process.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".compat"
MINORS = range(11, 15)
SUITE = ("tests/unit", "tests/conformance", "tests/cli/test_starts.py", "tests/cli/test_completion.py")
UV = (sys.executable, "-m", "uv")
NO_WHEEL = re.compile(r"no wheels?\b|no usable wheels|has no (compatible )?wheel", re.IGNORECASE)


class Run(NamedTuple):
    version: str
    python: str
    resolution: str

    def __str__(self) -> str:
        oldest = "oldest" if self.resolution == "lowest-direct" else "newest"
        return f"Python {self.version} with the {oldest} dependencies"


def main() -> int:
    found = {minor: python for minor in MINORS if (python := find_python(minor))}
    for minor in MINORS:
        if minor not in found:
            print(f"skipped  Python 3.{minor}: not installed")
    wheel = build_wheel()
    failed = [str(run) for run in plan(found) if not test(run, wheel)]
    print(f"FAILED   {'; '.join(failed)}" if failed else "ok       all of the above")
    return 1 if failed else 0


def plan(found: dict[int, str]) -> Iterator[Run]:
    """Yield the oldest dependencies on the oldest Python, and the newest on all but the Python of `make test`."""
    oldest = min(found)
    yield Run(f"3.{oldest}", found[oldest], "lowest-direct")
    for minor, python in found.items():
        if minor != sys.version_info.minor:
            yield Run(f"3.{minor}", python, "highest")


def find_python(minor: int) -> str | None:
    """Return a Python that runs: a shim of pyenv may be there for a version that is switched off."""
    name = f"python3.{minor}"
    on_path = [str(Path(folder) / name) for folder in os.get_exec_path()]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    of_pyenv = [str(path) for path in sorted(versions.glob(f"3.{minor}.*/bin/{name}"), reverse=True)]
    for candidate in [*of_pyenv, *on_path]:
        if shutil.which(candidate) and succeeds(candidate, "-c", "import venv, ssl, sqlite3"):
            return candidate
    return None


def succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def build_wheel() -> Path:
    folder = FOLDER / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test(run: Run, wheel: Path) -> bool:
    """Return whether it works, or cannot be tried because a tool of the tests has no wheel for that Python yet."""
    started = time.monotonic()
    print(f"testing  {run}", flush=True)
    environment = FOLDER / f"{run.version}-{run.resolution}"
    python = str(environment / "bin" / "python")
    problem = install(run, environment, python, wheel)
    if problem and NO_WHEEL.search(problem):
        print(f"skipped  {run}: {problem.strip()}")
        return True
    if problem:
        print(f"FAILED   {run}: cannot be installed\n{problem}")
        return False
    # The environment's own commands come first, as after `source bin/activate`.
    path = os.pathsep.join([str(environment / "bin"), os.environ["PATH"]])
    tests = [
        python,
        "-m",
        "pytest",
        "-q",
        "-n",
        "auto",
        "--dist",
        "loadgroup",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
    ]
    done = _run([*tests, *SUITE], env=os.environ | {"PATH": path})
    summary = done.stdout.rstrip().rpartition("\n")[2]
    if done.returncode != 0:
        print(done.stdout, done.stderr)
    print(
        f"{'ok' if done.returncode == 0 else 'FAILED':8} {run}: {summary} ({time.monotonic() - started:.0f} s in all)"
    )
    return done.returncode == 0


def install(run: Run, environment: Path, python: str, wheel: Path) -> str:
    """Return what went wrong."""
    shutil.rmtree(environment, ignore_errors=True)
    made = _run([*UV, "venv", "--quiet", "--python", run.python, str(environment)])
    if made.returncode != 0:
        return made.stderr
    options = ["--quiet", "--python", python, "--resolution", run.resolution, "--only-binary", ":all:"]
    done = _run([*UV, "pip", "install", *options, f"{wheel}[dev]"])
    return done.stderr if done.returncode != 0 else ""


def _run(command: Sequence[str], env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
