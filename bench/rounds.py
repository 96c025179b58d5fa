"""Rounds in which all have a turn, and what comes out of them."""

import math
from collections.abc import Callable, Sequence
from statistics import median
from time import monotonic
from typing import TypeVar

T = TypeVar("T")


def interleaved(turns: Sequence[Callable[[], T]], rounds: int, patience: float = math.inf) -> list[list[T]]:
    """What each turn gave in each round. Every round begins with another one: nobody always follows the same.

    After `patience` seconds there is no further round, however slow the machine is.
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
    """Of each round by itself: the machine's pace may change from one to the next."""
    return median(own / other for own, other in zip(ours, theirs, strict=True))
