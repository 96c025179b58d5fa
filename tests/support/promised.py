"""The table of promises in docs/guarantees.md, compared with a run of the whole suite."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.simulated import Simulated

TABLE = "docs/guarantees.md"
HEADING = "## Promises and their tests"
_TABLE = re.compile(rf"^{HEADING}$(.*?)^## ", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (?P<promise>[^|]+) \| (?P<checked>[^|]+) \| (?P<tests>[^|]*`tests/[^|]+) \|$", re.MULTILINE)
_NAME = re.compile(r"`(tests/[^`]+)`")
USUAL_MARKS = {"", "not slow"}
"""The options with which everything in `make test` runs."""


class Promise(NamedTuple):
    text: str
    checked: str
    """How much the tests check: rounds, kills or examples."""
    tests: list[str]
    """As for pytest: a folder, a file, or a test in it."""


def promises_of(document: Path) -> list[Promise]:
    table = _TABLE.search(document.read_text(encoding="utf-8"))
    if table is None:
        return []
    return [
        Promise(row["promise"].strip(), row["checked"].strip(), _NAME.findall(row["tests"]))
        for row in _ROW.finditer(table[1])
    ]


def is_of(nodeid: str, name: str) -> bool:
    """Whether `name` selects a test, which may have parameters and a group."""
    return nodeid == name or (nodeid.startswith(name) and nodeid[len(name)] in "[:/@")


def unproven(promises: Iterable[Promise], outcomes: dict[str, str]) -> list[str]:
    """A line for each test that a promise names and that did not run and pass."""
    problems = []
    for promise in promises:
        for name in promise.tests:
            found = {outcome for nodeid, outcome in outcomes.items() if is_of(nodeid, name)}
            if found != {"passed"}:
                how = "did not run" if not found else f"was {', '.join(sorted(found - {'passed'}))}"
                problems.append(f"{promise.text}: {name} {how}")
    return problems


class Promised:
    """Fails a run of the whole suite in which a promised test did not run or was skipped. Ignores partial runs.

    With several processes, this runs in the one that collects the reports.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._outcomes: dict[str, str] = {}
        self._problems: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            known = self._outcomes.get(report.nodeid, "passed")
            self._outcomes[report.nodeid] = report.outcome if known == "passed" else known

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK and self._is_whole():
            self._problems = unproven(promises_of(self._config.rootpath / TABLE), self._outcomes)
            if self._problems:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._problems:
            terminalreporter.section(f"promises in {TABLE} that this run did not prove", red=True)
            for problem in self._problems:
                terminalreporter.line(problem)

    def _is_whole(self) -> bool:
        option = self._config.option
        has_no_choice = self._config.args_source is pytest.Config.ArgsSource.TESTPATHS
        narrowing = (option.keyword, option.deselect, option.ignore, option.ignore_glob, option.collectonly)
        cached = (getattr(option, name, False) for name in ("lf", "failedfirst", "newfirst", "stepwise"))
        return has_no_choice and option.markexpr in USUAL_MARKS and not any(narrowing) and not any(cached)


def watch(config: pytest.Config) -> None:
    """Register it in the process that knows all outcomes."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Promised(config))
        config.pluginmanager.register(Simulated())
