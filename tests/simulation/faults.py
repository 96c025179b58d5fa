"""What goes wrong, and how often. Faults have names, so that shrinking can leave one out."""

import random
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from tests.simulation.story import Story

CALL_FAULTS: Mapping[str, float] = {
    "cut before delivery": 3,
    "cut while the server works": 5,
    "reply lost": 4,
    "no reply at all": 2,
    "delayed": 2,
    "duplicated": 6,
    "duplicated late": 6,
}
"""Faults of a call, with their weights."""
STORE_FAULTS: Mapping[str, float] = {
    "busy": 2,
    "disk_full": 1,
    "io": 1,
    "undone": 3,
    "slow": 8,
    "outcome unknown": 3,
}
WORLD_FAULTS: Mapping[str, float] = {
    "pause a server": 6,
    "kill a server": 3,
    "restart a server": 2,
    "pause a client": 4,
    "kill a client": 3,
    "the store is gone": 2,
    "the clock is set back": 2,
    "the clock is set forward": 1,
}


class Fault(NamedTuple):
    name: str
    """Unique in a run, and the same in every run with this seed up to the first difference."""
    kind: str
    chance: random.Random
    """The random stream for its details, so that leaving it out does not change other faults."""


class Faults:
    """`only`: the names of the faults that may happen; None for all."""

    def __init__(self, seed: int, story: Story, only: Collection[str] | None = None) -> None:
        self._seed = seed
        self._story = story
        self._only = None if only is None else frozenset(only)
        self._streams: dict[str, random.Random] = {}
        self._drawn: Counter[str] = Counter()
        self.is_off = False
        self.counts: Counter[str] = Counter()
        self.struck: list[str] = []
        chance = self.stream("faults of this run")
        # Vary the rates between runs, because too many faults can hide a failure.
        self.call_rate = chance.choice([0.02, 0.08, 0.15, 0.25])
        self.store_rate = chance.choice([0.0, 0.02, 0.06, 0.12])
        self.calls = _some_of(CALL_FAULTS, chance)
        self.stores = _some_of(STORE_FAULTS, chance)
        self.worlds = _some_of(WORLD_FAULTS, chance)

    def stream(self, actor: str) -> random.Random:
        stream = self._streams.get(actor)
        if stream is None:
            stream = self._streams[actor] = random.Random(f"{self._seed} {actor}")
        return stream

    def of_call(self, actor: str) -> Fault | None:
        return self._draw(f"{actor} calls", self.call_rate, self.calls)

    def of_transaction(self, actor: str) -> Fault | None:
        return self._draw(f"{actor} writes", self.store_rate, self.stores)

    def of_world(self) -> Fault | None:
        return self._draw("the world", 1, self.worlds)

    def _draw(self, actor: str, rate: float, kinds: Mapping[str, float]) -> Fault | None:
        stream = self.stream(actor)
        if stream.random() >= rate or not kinds:
            return None
        (kind,) = stream.choices([*kinds], [*kinds.values()])
        self._drawn[actor] += 1
        name = f"{actor} {self._drawn[actor]}"
        if self.is_off or (self._only is not None and name not in self._only):
            return None
        self.counts[kind] += 1
        self.struck.append(name)
        return Fault(name, kind, random.Random(f"{self._seed} {name}"))


def _some_of(kinds: Mapping[str, float], chance: random.Random) -> dict[str, float]:
    if chance.random() < 0.4:
        return dict(kinds)
    return {kind: weight for kind, weight in kinds.items() if chance.random() < 0.6}
