"""The phrases that docs/style.md rules out: `python -m tests.docs.style [PATH …]` lists where they occur."""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.processes import ROOT

PHRASES = {
    "whoever": r"who(so)?ever",
    "told": r"told",
    "gives": r"(?<!OctoStore\s)gives(?! up)",
    "of yours, of ours": r"of (yours|ours)",
    "is no": r"(?<!there\s)(?<!here\s)(is|are|was|were) no (?!(?:longer|more|such|one|other|different|need)\b)[a-z]+",
    "not to be had": r"to be had",
    "so many, so much": r"so (many|much)",
    "such as": r"such as",
    "give back": r"(gives?|gave|given|giving) (it |them |this )?back",
    "run out": r"(has|have|had|is|be|are) run out(?! of)",
    "from ... on": r"from (which|then|there) on",
    "anew": r"anew",
    "be it, were it": r"(be|were) it( a| an| by| in|,| not)",
    "is to be": r"(is|are|was|were) to be",
    "in the meantime": r"in the meantime",
    "where there is one": r"where there (is|are) (one|any|some|none)",
    "our fault": r"our fault",
    "stands for": r"stands (for|in|where|there)",
    "and so on": r"and so on",
}
GAP = r"(?:\s+(?:(?:\#:?|--|//|\*|>)[ \t]+)?)"
"""A phrase may continue on the next line of a comment."""
PATTERN = re.compile("|".join(rf"\b(?:{phrase})(?!\w)" for phrase in PHRASES.values()).replace(" ", GAP), re.IGNORECASE)

SUFFIXES = {".css", ".html", ".js", ".md", ".py", ".sql", ".toml", ".txt", ".yml"}
FOLDERS = ("src", "docs", "plugins", "examples", "bench", "release", "tests")
ABOUT_STYLE = {ROOT / "docs" / "style.md", *(ROOT / "tests" / "docs" / name for name in ("style.py", "test_style.py"))}


def texts() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.suffix in {".md", ".toml"} or path.name == "Makefile")
    for folder in FOLDERS:
        yield from (path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES and path not in ABOUT_STYLE)


def found_in(text: str) -> Iterator[tuple[int, str]]:
    """The line number of each banned phrase, and the phrase."""
    for match in PATTERN.finditer(text.replace("_", " ")):  # names are text, too
        yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split())


def report(paths: Iterable[Path]) -> Iterator[str]:
    for path in sorted(paths):
        for number, phrase in found_in(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(ROOT)}:{number}: {phrase}"


def files_below(path: Path) -> Iterator[Path]:
    yield from [path] if path.is_file() else (file for file in path.rglob("*") if file.suffix in SUFFIXES)


if __name__ == "__main__":
    chosen = [file for name in sys.argv[1:] for file in files_below(Path(name).resolve())]
    sys.stdout.writelines(f"{line}\n" for line in report(chosen or texts()))
