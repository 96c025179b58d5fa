"""The API page, in a browser."""

from tests.support.chromium import Chromium, axe_violations, no_console_errors
from tests.support.server import ServerProcess

# All sections are built alike, and axe takes ten seconds for a hundred of them.
KEEP_FEW = """() => {
  document.querySelectorAll("nav li:nth-child(n + 3)").forEach((item) => item.remove());
  document.querySelectorAll("section").forEach((section, index) => index % 40 && section.remove());
}"""


def test_it_is_accessible(chromium: Chromium, server: ServerProcess) -> None:
    with chromium.tab() as page, no_console_errors(page):
        page.goto(f"{server.url}/docs")
        page.evaluate(KEEP_FEW)
        assert axe_violations(page) == []
        page.emulate_media(color_scheme="dark")
        assert axe_violations(page, "color-contrast") == []
