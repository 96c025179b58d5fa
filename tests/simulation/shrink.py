"""Shrink a run that breaks a promise: fewer clients, faults and hours that still break the same promise."""

from collections.abc import Callable, Sequence

from tests.simulation.world import HOUR, Plan, Result, run

MAX_RUNS = 150


class _Shrinking:
    def __init__(self, failed: Result) -> None:
        if failed.broken is None:
            raise ValueError("a run that breaks nothing cannot be shrunk")
        self.best = failed
        self._promise = failed.broken.promise
        self._left = MAX_RUNS

    def shrink(self) -> Result:
        size = None
        while size != (size := len(self.best.clients) + len(self.best.rounds) + len(self.best.faults)) and self._left:
            self._reduce(self.best.clients, lambda plan, kept: plan._replace(only_clients=frozenset(kept)))
            self._reduce(self.best.rounds, lambda plan, kept: plan._replace(only_rounds=frozenset(kept)))
            self._reduce(self.best.faults, lambda plan, kept: plan._replace(only_faults=frozenset(kept)))
        return self.best

    def _reduce(self, parts: Sequence[str], with_only: Callable[[Plan, Sequence[str]], Plan]) -> None:
        """Delta debugging: leave out halves, then quarters, down to single parts, while it still fails."""
        kept, size = list(parts), max(1, len(parts) // 2)
        while self._left:
            start = 0
            while start < len(kept) and self._left:
                fewer = kept[:start] + kept[start + size :]
                if self._still_fails(with_only(self._plan(), fewer)):
                    kept = fewer
                else:
                    start += size
            if size == 1:
                return
            size //= 2

    def _plan(self) -> Plan:
        """The best plan so far, without the time after its failure."""
        return self.best.plan._replace(hours=min(self.best.plan.hours, (self.best.at + 1) / HOUR))

    def _still_fails(self, plan: Plan) -> bool:
        self._left -= 1
        result = run(plan)
        if result.broken is None or result.broken.promise != self._promise:
            return False
        self.best = result
        return True


def shrink(failed: Result) -> Result:
    return _Shrinking(failed).shrink()
