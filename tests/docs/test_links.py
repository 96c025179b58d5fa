"""Every link in the documents to another part of the project works."""

import re
from pathlib import Path

from tests.support.processes import ROOT

DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "docs" / "llms.txt", *ROOT.glob("examples/**/*.md")]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"^```.*?^```$|`[^`]*`", re.MULTILINE | re.DOTALL)


def anchors_of(path: Path) -> set[str]:
    """As GitHub derives them from headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def has_target(document: Path, path: str, part: str) -> bool:
    target = (document.parent / path).resolve() if path else document
    return target.exists() and (not part or part in anchors_of(target))


def test_every_link_has_a_target() -> None:
    found = [
        (document, path, part)
        for document in DOCUMENTS
        for path, part in LINK.findall(CODE.sub("code", document.read_text(encoding="utf-8")))
    ]
    assert len(found) > 100
    assert [str(link) for link in found if not has_target(*link)] == []
