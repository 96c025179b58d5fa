"""What an agent of the swarm does with a job, and the diary that outlives it."""

import json
import os
import random
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

QUEUE = "swarm"
STEPS = 3
THINK_SECONDS = (0.05, 0.4)
IDLE_SECONDS = 0.3

What: TypeAlias = Literal["asked", "claimed", "saved", "done", "lost", "over"]


class Entry(NamedTuple):
    """One line of a diary: `claimed` has the step in the checkpoint, `saved` has the step just saved."""

    agent: str
    what: What
    job_id: str
    fencing_token: int
    step: int
    command: str
    """For `asked`: what the agent typed or called."""


class Diary:
    """A file with a line for each reply, written before the next call, so no kill loses one."""

    def __init__(self, folder: Path, agent: str) -> None:
        self._agent = agent
        self._file = os.open(folder / f"{agent}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, what: What, job_id: str = "", fencing_token: int = 0, step: int = 0, command: str = "") -> None:
        entry = Entry(self._agent, what, job_id, fencing_token, step, command)
        os.write(self._file, json.dumps(entry).encode() + b"\n")


def entries_in(folder: Path) -> list[Entry]:
    """The entries of each agent, in order."""
    lines = [line for diary in sorted(folder.glob("*.jsonl")) for line in diary.read_text().splitlines()]
    return [Entry(*json.loads(line)) for line in lines]


def step_in(checkpoint: Any) -> int:
    return 0 if checkpoint is None else int(checkpoint["step"])


def thinking_seconds() -> float:
    """How long an agent thinks before its next step."""
    return random.uniform(*THINK_SECONDS)
