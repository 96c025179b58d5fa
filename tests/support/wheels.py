"""The built wheel, installed as by users: nothing from this source tree can be imported."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tests.support.processes import PATIENCE_SECONDS, ROOT, free_port, until
from tests.support.starting import run, start

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
LIST_JOBS: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "list_claimed_jobs", "arguments": {}},
}


def build(folder: Path, *targets: str, source: Path = ROOT, **environment: str) -> list[Path]:
    """Build `wheel`, `sdist` or both, as a build front end does."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    for target in targets:
        command += ["-t", target]
    here = {name: value for name, value in os.environ.items() if name != "OCTOSTORE_REPOSITORY_URL"}
    subprocess.run(command, cwd=source, env=here | environment, check=True, capture_output=True)
    return sorted(folder.iterdir())


class Installed:
    """An environment with the wheel, and its own home for data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.python = folder / "bin" / "python"

    def make(self, *requirements: object) -> None:
        """Install `requirements` with the environment's own pip."""
        run_checked(sys.executable, "-m", "venv", self.folder)
        run_checked(self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
        self.home.mkdir()

    def make_alone(self, wheel: Path) -> None:
        """Install `wheel` and nothing else, with uv: three times as quick, and without a network."""
        uv = (sys.executable, "-m", "uv", "--quiet", "--offline", "--no-config")
        run_checked(*uv, "venv", "--python", sys.executable, self.folder)
        options = ("--no-index", "--no-deps", "--compile-bytecode", "--python", self.python)
        run_checked(*uv, "pip", "install", *options, wheel)
        self.home.mkdir()

    def add_copies(self, *extras: str) -> None:
        """Make only what the package and `extras` require importable, from the tests' own environment.

        Fast, and without a network. Undeclared packages are missing, as they would be for a user.
        """
        folder = self.folder / "-".join(["copies", *extras])
        site = next(self.folder.glob("lib/*/site-packages"))
        (site / "copies.pth").write_text(f"{folder}\n", encoding="utf-8")
        if folder.exists():
            return
        folder.mkdir()
        (ours,) = distributions(name="octostore", path=[str(site)])
        for entry in _declared(ours, set(extras)):
            (folder / entry.name).symlink_to(entry)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        usual = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8"}
        keep = ("PIP_", "UV_", "SSL_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy")
        return usual | {name: value for name, value in os.environ.items() if name.startswith(keep)}

    def run(self, *arguments: str, given: str | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self.folder / "bin" / "octostore"), *arguments]
        return run(
            command,
            stdin_data=given,
            env=self.environment | environment,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
        )

    def python_prints(self, code: str, **environment: str) -> str:
        command = [str(self.python), "-c", code]
        done = subprocess.run(
            command, env=self.environment | environment, cwd=self.home, capture_output=True, text=True, check=False
        )
        return (done.stdout + done.stderr).strip()

    @contextmanager
    def serving(self, **environment: str) -> Iterator[str]:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        command = [str(self.folder / "bin" / "octostore"), "serve", "--port", str(port)]
        with start(
            command,
            env=self.environment | environment,
            cwd=self.home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as server:
            try:
                until(lambda: server.poll() is not None or is_alive(url))
                assert server.poll() is None, server.communicate()[1]
                yield url
            finally:
                server.terminate()

    def mcp(self, **environment: str) -> dict[str, Any]:
        """What an agent gets if it lists the claimed jobs."""
        said = "".join(json.dumps(line) + "\n" for line in (INITIALIZE, LIST_JOBS))
        done = self.run("mcp", given=said, **environment)
        replies = {reply["id"]: reply for reply in map(json.loads, done.stdout.splitlines()) if "id" in reply}
        assert 2 in replies, done.stdout + done.stderr
        result: dict[str, Any] = replies[2]["result"]
        return result


def run_checked(*command: object, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _declared(found: Distribution, extras: set[str]) -> set[Path]:
    """Return the files and folders of everything that `found[extras]` requires, but not its own."""
    wanted, names = [(found, extras)], set()
    entries: set[Path] = set()
    while wanted:
        found, extras = wanted.pop()
        for requirement in map(Requirement, found.requires or []):
            key = (requirement.name, *sorted(requirement.extras))
            if key not in names and _applies(requirement, extras):
                names.add(key)
                inner = found if requirement.name == "octostore" else distribution(requirement.name)
                wanted.append((inner, requirement.extras))
                entries |= set() if inner is found else _entries(inner)
    return entries


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _entries(found: Distribution) -> set[Path]:
    tops = {file.parts[0] for file in found.files or [] if file.parts[0] not in {"..", "__pycache__"}}
    return {Path(str(found.locate_file(top))) for top in tops}


def is_alive(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/livez", timeout=PATIENCE_SECONDS) as response:
            return bool(response.status == 200)
    except OSError:
        return False
