"""What happened in a run, one line for each step, and a digest to compare two runs by."""

from hashlib import blake2b
from typing import Any, NamedTuple

from tests.simulation.scheduler import Scheduler


class Step(NamedTuple):
    at: float
    actor: str
    what: str

    def __str__(self) -> str:
        minutes, seconds = divmod(self.at, 60)
        return f"{int(minutes):4}:{seconds:06.3f}  {self.actor:<14} {self.what}"


class Story:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.steps: list[Step] = []

    def add(self, actor: str, what: str) -> None:
        self.steps.append(Step(self._scheduler.now, actor, what))

    def digest(self) -> str:
        digest = blake2b(digest_size=16)
        for step in self.steps:
            digest.update(f"{step.at:.9f} {step.actor} {step.what}\n".encode())
        return digest.hexdigest()

    def about(self, words: set[str], at_most: int) -> list[Step]:
        """The last steps that contain one of `words`."""
        found = [step for step in self.steps if any(word in step.what or word in step.actor for word in words)]
        return found[-at_most:]


def short(value: Any, length: int = 60) -> str:
    text = str(value)
    return text if len(text) <= length else text[: length - 1] + "…"
