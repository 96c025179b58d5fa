"""Screenshots of the live page, taken with the tests' browser: `make pictures`.

`photographs.json` lists what is on each, so that a test can tell when the page has changed.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from playwright.sync_api import ViewportSize

from tests.support.chromium import PROGRAM, Chromium
from tests.support.live_page import LivePage, live_page
from tests.support.scene import served_scene

HERE = Path(__file__).resolve().parent
OUTLINES = HERE / "photographs.json"
# Everything a reader would miss, and nothing that depends on the time of day.
_OUTLINE = """() => {
  const texts = (where) => [...document.querySelectorAll(where)].map((one) => one.textContent.trim());
  return {
    title: document.title,
    headings: texts("h1, h2"),
    views: texts("nav a"),
    filters: texts("form label > span"),
    buttons: texts("main button, main .button"),
    facts: texts("dt"),
    legend: texts(".legend li"),
    jobs: texts("[data-row]").sort(),
  };
}"""


class Photograph(NamedTuple):
    size: ViewportSize
    scheme: Literal["light", "dark"] = "light"


WIDE = ViewportSize(width=1_080, height=680)
PHOTOGRAPHS = {
    "page-light": Photograph(WIDE),
    "page-dark": Photograph(WIDE, "dark"),
    "page-phone": Photograph(ViewportSize(width=390, height=780)),
}


def posed(page: LivePage) -> Iterator[str]:
    """Bring the page into the state of each screenshot in turn."""
    page.open().is_live().shows("agent-3 took over from agent-1")
    for name, photograph in PHOTOGRAPHS.items():
        page.tab.set_viewport_size(photograph.size)
        page.tab.emulate_media(color_scheme=photograph.scheme)
        yield name


def outline_of(page: LivePage) -> Any:
    return page.tab.evaluate(_OUTLINE)


def main() -> None:
    if PROGRAM is None:
        sys.exit("Chromium is not installed, so the screenshots stay as they are: apt install chromium")
    outlines = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        served_scene(Path(folder)) as served,
        Chromium() as chromium,
        live_page(chromium, served.url, served.token) as page,
    ):
        for name in posed(page):
            outlines[name] = outline_of(page)
            page.tab.screenshot(path=HERE / f"{name}.png")
    OUTLINES.write_text(json.dumps(outlines, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
