"""The README's first screen, as a reader meets it."""

from pathlib import Path

from tests.support.documents import Machine, blocks_of
from tests.support.processes import ROOT

README = ROOT / "README.md"


def test_the_first_commands_work_as_they_stand_there(tmp_path: Path) -> None:
    first = blocks_of(README, "sh")[0].text
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


def test_the_two_commands_stand_near_the_top() -> None:
    text = README.read_text(encoding="utf-8")
    first_screens = "\n".join(text.splitlines()[:60])
    assert "make serve" in first_screens
    assert "make test" in first_screens


def test_security_is_linked() -> None:
    assert "](SECURITY.md)" in README.read_text(encoding="utf-8")
