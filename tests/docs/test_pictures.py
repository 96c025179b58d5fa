"""The pictures show what a store does now, and have a description in words."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from docs.pictures.canvas import Canvas
from docs.pictures.draw import HERE, PICTURES, drawn
from docs.pictures.photograph import PHOTOGRAPHS
from docs.pictures.sessions import GROUPS, arrows
from octostore.core.phases import NEXT
from tests.support.processes import ROOT

PAGES = [ROOT / "docs" / name for name in ("architecture.md", "sessions-and-tasks.md")]
PHOTOGRAPH_BYTES = 150_000
_SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_no_picture_is_stale(name: str) -> None:
    path = HERE / f"{name}.svg"
    assert path.read_text(encoding="utf-8") == PICTURES[name]().svg(), "draw it again: make pictures"


def test_there_are_no_other_pictures() -> None:
    assert set(HERE.glob("*.svg")) == set(drawn())


@pytest.mark.parametrize("path", sorted(HERE.glob("*.svg")), ids=lambda path: path.stem)
def test_pictures_work_with_screen_readers_and_in_dark_mode(path: Path) -> None:
    root = ET.parse(path).getroot()
    descriptions = {element.get("id"): element.text for element in root if element.get("id")}
    assert root.get("role") == "img"
    assert (root.get("aria-labelledby") or "").split() == ["title", "desc"] == list(descriptions)
    assert all(descriptions.values())
    assert "prefers-color-scheme:dark" in (root.findtext(f"{_SVG}style") or "")


def test_each_picture_is_on_a_page_with_alt_text() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = dict(re.findall(r"!\[([^\]]+)\]\(pictures/([\w-]+)\.svg\)", text))
    assert sorted(shown.values()) == sorted(PICTURES)
    assert all(len(words) > 40 for words in shown)


def test_photographs_are_small_and_in_documents_with_alt_text() -> None:
    taken = list(HERE.glob("*.png"))
    assert {path.stem for path in taken} == set(PHOTOGRAPHS)
    assert [path.name for path in taken if path.stat().st_size > PHOTOGRAPH_BYTES] == []
    for document in (ROOT / "README.md", ROOT / "docs" / "how-to" / "page.md"):
        text = document.read_text(encoding="utf-8")
        shown = re.findall(r"!\[([^\]]*)\]\(|<img [^>]*alt=\"([^\"]*)\"", text)
        assert shown
        assert all(len("".join(words)) > 40 for words in shown)
        taken = [path for path in taken if f"pictures/{path.name}" not in text]
    assert taken == [], "no document shows them"


def test_the_arrows_between_phases_match_the_rules() -> None:
    def members(name: str) -> tuple[str, ...]:
        return GROUPS.get(name, (name,))

    drawn_arrows = {(before, after) for one, other in arrows() for before in members(one) for after in members(other)}
    assert drawn_arrows == {(before, after) for before, allowed in NEXT.items() for after in allowed}


def test_texts_cannot_overlap() -> None:
    canvas = Canvas("a picture", "of two texts")
    canvas.text(20, 20, "first")
    with pytest.raises(ValueError, match="'second' would overlap 'first'"):
        canvas.text(40, 24, "second")
    with pytest.raises(ValueError, match="beyond the edge"):
        canvas.text(860, 60, "third")


def test_drawing_is_deterministic() -> None:
    assert all(one == other for one, other in pairwise(drawn() for _ in range(2)))
