"""The documentation site: complete, self-contained, and without broken links."""

import re
import tomllib
from pathlib import Path

import pytest

from docs.site.build import CONFIG, build
from docs.site.check import problems_of
from docs.site.pages import DOCS
from tests.support.chromium import PROGRAM, Chromium, no_console_errors
from tests.support.documents import Machine, blocks_of

ADVICE = "add them to `nav` in zensical.toml"


def test_every_page_is_in_the_navigation() -> None:
    nav = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]["nav"]
    patterns = re.findall(r"'([^']+\.md)'", str(nav))
    shown = {path for pattern in patterns for path in DOCS.glob(pattern)}
    missing = sorted(str(path.relative_to(DOCS)) for path in set(DOCS.rglob("*.md")) - shown)
    assert missing == [], ADVICE
    assert [one for one in patterns if not one.startswith("project/") and not list(DOCS.glob(one))] == []


def test_the_command_on_the_first_page_works(tmp_path: Path) -> None:
    first = blocks_of(DOCS / "index.md", "sh")[0].text
    with Machine(tmp_path / "machine") as machine:
        assert machine.start(["bash", "-euc", first]).end() == (0, "one of us writes the report\n")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("docs")
    return folder / "site", build(folder)


def test_it_builds_without_broken_links(built: tuple[Path, list[str]]) -> None:
    site, problems = built
    assert problems == []
    assert len(list(site.rglob("*.html"))) > 70


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium here: apt install chromium")
def test_it_can_be_opened_and_searched_without_a_network(built: tuple[Path, list[str]]) -> None:
    site, _ = built
    requested: list[str] = []
    with Chromium() as chromium, chromium.own_tab(offline=True) as tab, no_console_errors(tab):
        tab.on("request", lambda request: requested.append(request.url))
        tab.goto((site / "reference" / "errors.html").as_uri())
        tab.keyboard.press("Control+k")
        tab.keyboard.type("fencing token")
        tab.get_by_text("Guard writes with the fencing token").first.wait_for()
    assert requested
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []


def test_language_models_find_the_sources(built: tuple[Path, list[str]]) -> None:
    site, _ = built
    linked = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert len(linked) > 20
    assert [path for path in linked if not (site / path).exists()] == []
    assert "# Tutorial" in (site / "llms-full.txt").read_text(encoding="utf-8")


def test_broken_links_and_external_assets_are_found(tmp_path: Path) -> None:
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
