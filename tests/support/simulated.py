"""Prints how much a run of the suite has simulated."""

from collections import Counter
from typing import Any

import pytest

PROPERTY = "simulated"


class Simulated:
    """Adds up what the simulator's tests report, from all processes."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for name, value in _numbers(report.user_properties):
                self._sums[name[len(PROPERTY) :]] += value

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._sums:
            totals = ", ".join(f"{count:,.0f}{what}" for what, count in self._sums.items())
            terminalreporter.section("simulation")
            terminalreporter.line(totals)


def _numbers(properties: list[tuple[str, object]]) -> list[tuple[str, int]]:
    return [(name, value) for name, value in properties if name.startswith(PROPERTY) and isinstance(value, int)]
