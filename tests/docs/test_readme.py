"""The README's first screen, as a reader sees it."""

import re
from pathlib import Path

import pytest

import octostore
from tests.support.documents import Machine, blocks_of
from tests.support.processes import ROOT

README = ROOT / "README.md"


def test_the_shell_example_prints_what_it_says(tmp_path: Path) -> None:
    (first,) = (block.text for block in blocks_of(README, "sh", under="In a shell, a cron line, a CI step"))
    with Machine(tmp_path / "machine", USER="me") as machine:
        code, printed = machine.start(["bash", "-euo", "pipefail", "-c", first]).end()
        assert code == 0, printed
        assert printed.splitlines() == [
            "one of us writes the report",
            "migrating",
            "deploying, one at a time",
            "no claimed jobs",
            "  next       octostore list --status all    # also queued, done and dead ones",
        ]
        again, _ = machine.start(["octostore", "run", "migrate-42", "--once", "--", "true"]).end()
    assert again == 10


TEXT = README.read_text(encoding="utf-8")


def test_it_is_short_and_starts_with_commands() -> None:
    lines = TEXT.splitlines()
    assert len(lines) < 120
    assert all(command in "\n".join(lines[:40]) for command in ("make install", "`make serve`", "`make test`"))


def test_pasting_the_first_block_only_installs() -> None:
    """A command that keeps running would keep the shell from the lines after it."""
    install, path = blocks_of(README, "console", under="Install")[0].text.splitlines()
    assert install.startswith("make install ")
    assert path.startswith('export PATH="$PWD/.venv/bin:$PATH"')


def test_every_surface_has_an_example() -> None:
    headings = {
        "In a shell, a cron line, a CI step": "sh",
        "In a coding agent": "sh",
        "In Python": "python",
        "Over HTTP": "sh",
    }
    assert [heading for heading, kind in headings.items() if not blocks_of(README, kind, under=heading)] == []


def test_it_says_that_hold_does_not_wait() -> None:
    with octostore.connect("memory:") as store, store.hold("job"), pytest.raises(octostore.Held), store.hold("job"):
        pass
    assert "**It does not wait by default**" in TEXT


def test_no_document_points_to_a_package_index() -> None:
    """Until we own the name there."""
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    named = re.compile(r"pip install (?:-\S+ )*['\"]?octostore(?!\S* @)")
    assert [str(path) for path in documents if named.search(path.read_text(encoding="utf-8"))] == []


def test_security_and_guarantees_are_linked() -> None:
    assert "](SECURITY.md)" in TEXT
    assert "](docs/guarantees.md)" in TEXT
