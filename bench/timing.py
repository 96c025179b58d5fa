"""Stopwatch and statistics."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import quantiles
from time import perf_counter


def seconds(action: Callable[[], object]) -> float:
    started = perf_counter()
    action()
    return perf_counter() - started


def percentile(samples: list[float], percent: int) -> float:
    return quantiles(samples, n=100, method="inclusive")[percent - 1]


@contextmanager
def only_new_garbage() -> Iterator[None]:
    """Keep the benchmark's own objects out of the garbage collections that the measured code causes."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
