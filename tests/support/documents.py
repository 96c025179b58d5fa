"""Follow the instructions of a document on a clean machine."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.support.processes import PATIENCE_SECONDS
from tests.support.starting import start

SERVER_URLS = ("http://127.0.0.1:3000", "https://locks.example.org")
"""The address of the server in the documents."""
_BREAK = "-- the next block --"
NUMBER = r"\d+(?:\.\d+)?"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    kind: str
    text: str


def blocks_of(path: Path, kind: str | None = None, *, under: str | None = None) -> list[Block]:
    """The blocks of one kind, under one heading, or all."""
    text = path.read_text(encoding="utf-8")
    if under is not None:
        (text,) = [part for part in text.split("\n## ") if part.startswith(f"{under}\n")]
    found = [Block(*block) for block in _BLOCK.findall(text)]
    return [block for block in found if kind in {None, block.kind}]


def replaced(text: str, replacements: Mapping[str, object]) -> str:
    """Replace what differs from the document here. Each of these must occur in it."""
    for old, new in replacements.items():
        assert old in text, f"{old} is not in: {text}"
        text = text.replace(old, str(new))
    return text


def check_printed(expected: str, printed: str) -> None:
    """Compare with the document, in which `…` matches anything (any lines if alone) and a number any number."""
    lines = expected.splitlines(keepends=True)
    pattern = "".join("(?:.*\n)*?" if line == "…\n" else _pattern_of(line) for line in lines)
    assert re.fullmatch(pattern, printed), f"expected:\n{expected}\nprinted:\n{printed}"


def _pattern_of(line: str) -> str:
    parts = re.split(r"(…|\d+)", line)
    return "".join({"…": ".*"}.get(part, NUMBER) if index % 2 else re.escape(part) for index, part in enumerate(parts))


class Process:
    """A process that a reader starts, in its own session."""

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self._process = start(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self._heard = ""

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process only."""
        self._process.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def hear(self, text: str) -> None:
        """Wait until it has printed a line that contains the text."""
        assert self._process.stdout is not None
        line = ""
        while text not in line:
            line = self._process.stdout.readline()
            assert line, f"it ended without printing {text!r}: {self._heard}"
            self._heard += line

    def end(self) -> tuple[int, str]:
        """Return its exit code and everything it printed."""
        printed, _ = self._process.communicate(timeout=PATIENCE_SECONDS)
        return self._process.returncode, self._heard + printed


class Machine:
    """A folder with `octostore` and `python3` on its PATH, without the environment of the tests."""

    def __init__(self, folder: Path, **variables: object) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.script("bin/octostore", f'exec {sys.executable} -m octostore "$@"')
        self.script("bin/python3", f'exec {sys.executable} "$@"')
        self.env = {
            "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "no_proxy": "*",
            **{name: str(value) for name, value in variables.items()},
        }
        self._started: list[Process] = []

    def script(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def do(self, typed: str, code: int = 0) -> str:
        """Run the text in a shell that stops at the first failure, check the exit code, and return the output."""
        ended, printed = self.start(["bash", "-euo", "pipefail", "-c", typed]).end()
        assert ended == code, printed
        return printed

    def secret(self, name: str, text: str) -> Path:
        """Write a file that only its owner can read."""
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text + "\n", encoding="utf-8")
        return path

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> Process:
        process = Process(command, self.folder, {**self.env, **(env or {})})
        self._started.append(process)
        return process

    def start_bare(self, command: Sequence[str], env: Mapping[str, str]) -> Process:
        """Start it with exactly this environment."""
        process = Process(command, self.folder, env)
        self._started.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        for process in self._started:
            if not process.has_ended:
                process.send_to_group(signal.SIGKILL)
            process.end()


def follow(blocks: Sequence[Block], machine: Machine) -> None:
    """Run the `sh` blocks in one shell. A `text` block after one is its expected output."""
    script = f'printf "%s\\n" "{_BREAK}"\n'.join(block.text for block in blocks if block.kind == "sh")
    for url in SERVER_URLS:
        script = script.replace(url, machine.env.get("SERVER", url))
    outputs = iter(machine.do(script).split(f"{_BREAK}\n"))
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block.kind == "sh":
            output = next(outputs)
            if after is not None and after.kind == "text":
                check_printed(after.text, output)
