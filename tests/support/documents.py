"""What a document tells its readers to do, and a machine to do it on."""

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
"""Where the server of the documents is."""
_BREAK = "-- the next block --"
NUMBER = r"\d+(?:\.\d+)?"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    kind: str
    text: str


def blocks_of(path: Path, kind: str | None = None, *, under: str | None = None) -> list[Block]:
    """Those of one kind, those under one heading, or all."""
    text = path.read_text(encoding="utf-8")
    if under is not None:
        (text,) = [part for part in text.split("\n## ") if part.startswith(f"{under}\n")]
    found = [Block(*block) for block in _BLOCK.findall(text)]
    return [block for block in found if kind in {None, block.kind}]


def replaced(text: str, replacements: Mapping[str, object]) -> str:
    """With what is elsewhere here than in the document. Each of them has to be in it."""
    for old, new in replacements.items():
        assert old in text, f"{old} is not in: {text}"
        text = text.replace(old, str(new))
    return text


def check_printed(expected: str, printed: str) -> None:
    """As in the document, where `…` is anything, alone on a line any lines, and a number is any number."""
    lines = expected.splitlines(keepends=True)
    pattern = "".join("(?:.*\n)*?" if line == "…\n" else _pattern_of(line) for line in lines)
    assert re.fullmatch(pattern, printed), f"expected:\n{expected}\nprinted:\n{printed}"


def _pattern_of(line: str) -> str:
    parts = re.split(r"(…|\d+)", line)
    return "".join({"…": ".*"}.get(part, NUMBER) if index % 2 else re.escape(part) for index, part in enumerate(parts))


class Process:
    """One that a reader, or a machine of theirs, has started; in a session of its own."""

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
        """To this process alone."""
        self._process.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def hear(self, text: str) -> None:
        """Wait until it has printed a line with this in it."""
        assert self._process.stdout is not None
        line = ""
        while text not in line:
            line = self._process.stdout.readline()
            assert line, f"it has ended without a word of {text!r}: {self._heard}"
            self._heard += line

    def end(self) -> tuple[int, str]:
        """Its exit code, and everything that it has printed."""
        printed, _ = self._process.communicate(timeout=PATIENCE_SECONDS)
        return self._process.returncode, self._heard + printed


class Machine:
    """A folder with `octostore` and `python3` on its PATH, without anything of whoever runs the tests."""

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
        """What it prints, typed into a shell that stops at the first failure; it has to end with this code."""
        ended, printed = self.start(["bash", "-euo", "pipefail", "-c", typed]).end()
        assert ended == code, printed
        return printed

    def secret(self, name: str, text: str) -> Path:
        """A file that only its owner can read."""
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text + "\n", encoding="utf-8")
        return path

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> Process:
        process = Process(command, self.folder, {**self.env, **(env or {})})
        self._started.append(process)
        return process

    def start_bare(self, command: Sequence[str], env: Mapping[str, str]) -> Process:
        """With no other environment than this one."""
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
    """Type what is in those of `sh`, into one shell. `text` behind one is what it prints."""
    script = f'printf "%s\\n" "{_BREAK}"\n'.join(block.text for block in blocks if block.kind == "sh")
    for url in SERVER_URLS:
        script = script.replace(url, machine.env.get("SERVER", url))
    answers = iter(machine.do(script).split(f"{_BREAK}\n"))
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block.kind == "sh":
            answer = next(answers)
            if after is not None and after.kind == "text":
                check_printed(after.text, answer)
