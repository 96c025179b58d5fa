"""Rounds in which everyone gets a turn, and ratios between their results."""

import math
from collections.abc import Callable, Sequence
from statistics import median
from time import monotonic
from typing import TypeVar

T = TypeVar("T")


def interleaved(turns: Sequence[Callable[[], T]], rounds: int, patience: float = math.inf) -> list[list[T]]:
    """The results of each turn, round by round. Each round starts with a different turn, so the order varies.

    After `patience` seconds, no further round starts.
    """
    results: list[list[T]] = [[] for _ in turns]
    deadline = monotonic() + patience
    for first in range(rounds):
        if first and monotonic() > deadline:
            break
        for number in range(len(turns)):
            who = (first + number) % len(turns)
            results[who].append(turns[who]())
    return results


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios within each round: the machine's pace may change between rounds."""
    return median(own / other for own, other in zip(ours, theirs, strict=True))
