"""The documentation site: complete, self-contained, and without a link that leads nowhere."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.site.build import CONFIG, build
from docs.site.check import problems_of
from docs.site.pages import DOCS

ADVICE = "add them to `nav` in zensical.toml"


def pages_in(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for item in nav.values() if isinstance(nav, dict) else nav:
            yield from pages_in(item)


def test_every_page_is_in_the_navigation() -> None:
    patterns = list(pages_in(tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]["nav"]))
    shown = {path for pattern in patterns for path in DOCS.glob(pattern)}
    missing = sorted(str(path.relative_to(DOCS)) for path in set(DOCS.rglob("*.md")) - shown)
    assert missing == [], ADVICE
    assert [one for one in patterns if not one.startswith("project/") and not list(DOCS.glob(one))] == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("docs")
    return folder / "site", build(folder)


@pytest.mark.xdist_group("site")
def test_it_builds_and_every_link_leads_there(built: tuple[Path, list[str]]) -> None:
    site, problems = built
    assert problems == []
    assert len(list(site.rglob("*.html"))) > 70


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text('<h1 id="top">Here</h1>')
    (tmp_path / "index.html").write_text(
        '<a href="there.html#top"></a><a href="https://example.org/"></a><img src="data:image/png;base64,AA==">'
        '<a href="there.html#end"></a><a href="gone.html"></a><script src="https://example.org/a.js"></script>'
        '<link href="//example.org/a.css"><img src="gone.png">'
    )
    assert list(problems_of(tmp_path)) == [
        "index.html: there.html#end leads to no heading",
        "index.html: gone.html leads nowhere",
        "index.html: https://example.org/a.js is loaded from elsewhere",
        "index.html: //example.org/a.css is loaded from elsewhere",
        "index.html: gone.png leads nowhere",
    ]
