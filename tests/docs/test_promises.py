"""The table of promises names tests that exist and how much they check; a run in which one is missing fails."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_SECONDS, ROOT
from tests.support.promised import HEADING, TABLE, Promise, is_of, promises_of, unproven

PROMISES = promises_of(ROOT / TABLE)


def test_every_row_of_the_table_is_read() -> None:
    table = (ROOT / TABLE).read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(PROMISES) == len(rows) >= 25
    assert sum(len(promise.tests) for promise in PROMISES) == table.count("`tests/")


def test_every_promise_says_how_much_is_checked() -> None:
    counted = r"\d|the (same|current)|a (real|full|rival)"
    assert [promise.text for promise in PROMISES if not re.search(counted, promise.checked)] == []


def test_the_counts_are_those_of_the_simulator() -> None:
    simulated = (ROOT / TABLE).read_text(encoding="utf-8").partition("## The simulator")[2]
    repeated = {count for promise in PROMISES for count in re.findall(r"\d,\d{3},\d{3}", promise.checked)}
    assert repeated
    assert [count for count in repeated if f"| {count} |" not in simulated] == []


def names_in(file: Path) -> set[str]:
    """Return the tests that pytest would find at the top level of a module."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name for name in found if name.startswith(("test_", "Test"))}


@pytest.mark.parametrize("name", sorted({name for promise in PROMISES for name in promise.tests}))
def test_tests_named_in_the_table_exist(name: str) -> None:
    path, _, test = name.partition("::")
    assert (ROOT / path).exists()
    assert not test or test in names_in(ROOT / path)


# What happens if a test is missing

OUTCOMES = {
    "tests/a.py::test_one": "passed",
    "tests/a.py::test_two[x]": "passed",
    "tests/a.py::test_two[y]@group": "skipped",
    "tests/b/c.py::TestThree::runTest": "passed",
}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("tests/a.py::test_one", None),
        ("tests/a.py::test_on", "did not run"),
        ("tests/a.py::test_two", "was skipped"),
        ("tests/a.py", "was skipped"),
        ("tests/b", None),
        ("tests/b/c.py::TestThree", None),
        ("tests/b/c.py::TestFour", "did not run"),
    ],
)
def test_a_promise_is_proven_only_by_all_its_tests(name: str, problem: str | None) -> None:
    problems = unproven([Promise("It works", "once", ["tests/a.py::test_one", name])], OUTCOMES)
    assert problems == ([] if problem is None else [f"It works: {name} {problem}"])


def test_a_longer_name_is_another_test() -> None:
    assert not is_of("tests/a.py::test_one_more", "tests/a.py::test_one")


DOCUMENT = f"""
{HEADING}
| promise | how much is checked | tests |
|---|---|---|
| It works | once | `tests/test_it.py::test_it` |

## The simulator
"""
SUITE = """
import pytest

def test_other():
    pass

@pytest.mark.skipif({skipped}, reason="not here")
def test_it():
    pass
"""


def run(folder: Path, *arguments: str, skipped: bool) -> "subprocess.CompletedProcess[str]":
    tests = folder / "tests"
    (tests / "support").mkdir(parents=True, exist_ok=True)
    for module in ("promised.py", "simulated.py"):
        shutil.copy(ROOT / "tests/support" / module, tests / "support")
    (tests / "conftest.py").write_text("from tests.support.promised import watch as pytest_configure\n")
    (folder / TABLE).parent.mkdir(exist_ok=True)
    (folder / TABLE).write_text(DOCUMENT)
    (folder / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\npythonpath = .\naddopts = --import-mode=importlib\n"
    )
    (tests / "test_it.py").write_text(SUITE.format(skipped=skipped))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_a_run_without_a_promised_test_fails(tmp_path: Path) -> None:
    failed = run(tmp_path, "-p", "xdist", "-n", "1", "-m", "not slow", skipped=True)
    assert failed.returncode == 1
    assert "It works: tests/test_it.py::test_it was skipped" in failed.stdout


@pytest.mark.parametrize(
    ("arguments", "skipped"),
    [((), False), (("-k", "other"), True), (("tests/test_it.py",), True)],
    ids=["complete", "chosen by a word", "chosen by a name"],
)
def test_a_complete_run_and_a_partial_run_pass(tmp_path: Path, arguments: tuple[str, ...], skipped: bool) -> None:
    passed = run(tmp_path, *arguments, skipped=skipped)
    assert passed.returncode == 0, passed.stdout
    assert "not proven" not in passed.stdout
