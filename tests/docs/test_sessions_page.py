"""The tables on the page on sessions and tasks match the code."""

import re

from octostore.cli import exit_codes
from octostore.core.health import Threshold, Thresholds
from tests.support.processes import ROOT

TEXT = (ROOT / "docs" / "sessions-and-tasks.md").read_text(encoding="utf-8")


def test_the_thresholds_are_the_defaults() -> None:
    def number(cell: str) -> float | None:
        return None if cell == "never" else float(cell.replace(",", ""))

    rows = re.findall(r"^\| `(\w+)`: .* \| ([\w,]+) \| ([\w,]+) \|$", TEXT, re.MULTILINE)
    shown = {name: Threshold(number(degraded), number(unhealthy)) for name, degraded, unhealthy in rows}
    defaults = Thresholds()
    assert shown == {name: getattr(defaults, name) for name in Thresholds.__struct_fields__}


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    _, _, rest = TEXT.partition("## Results and what they mean")
    section, _, _ = rest.partition("\n## ")
    shown = [int(code) for code in re.findall(r" \| (\d+) \|$", section, re.MULTILINE)]
    assert shown == [
        exit_codes.HELD,
        exit_codes.NOTHING_TO_DO,
        exit_codes.LOST,
        exit_codes.UNREACHABLE,
        exit_codes.NOT_ALLOWED,
    ]
