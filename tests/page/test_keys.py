"""Everything can be done with the keyboard, and shortcuts can be turned off."""

from playwright.sync_api import expect

from tests.support.chromium import Chromium
from tests.support.live_page import live_page
from tests.support.server import ServerProcess


def test_shortcuts(chromium: Chromium, server: ServerProcess) -> None:
    for job_id in ("keys/1", "keys/2", "keys/3"):
        server.claim(job_id)
    with live_page(chromium, server.url, server.token) as page:
        press = page.tab.keyboard.press
        page.open().is_live()
        press("/")
        expect(page.tab.get_by_role("search").get_by_label("Job begins with")).to_be_focused()
        page.tab.keyboard.type("keys/")  # in a text field, / is not a shortcut
        expect(page.main.locator("li.row")).to_have_count(3)
        page.heading.focus()
        rows = page.tab.locator("[data-row]")
        for key, focused in (("j", 0), ("j", 1), ("j", 2), ("j", 2), ("k", 1)):
            press(key)
            expect(rows.nth(focused)).to_be_focused()
        name = rows.nth(1).inner_text()
        press("g")
        expect(page.main.get_by_role("table")).to_be_visible()
        press("g")
        expect(page.main.get_by_role("table")).to_have_count(0)
        page.heading.focus()
        press("j")
        press("j")
        press("Enter")
        expect(page.heading).to_have_text(name)


def test_shortcuts_can_be_turned_off(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("keys-off")
    with live_page(chromium, server.url, server.token) as page:
        page.open(prefix="keys-off").is_live()
        page.tab.keyboard.press("?")
        expect(page.dialog).to_contain_text("Keyboard shortcuts")
        page.dialog.get_by_label("Use single-key shortcuts").uncheck()
        page.tab.keyboard.press("Escape")
        expect(page.dialog).to_have_count(0)
        page.tab.reload()
        expect(page.row("keys-off")).to_be_visible()
        for key in ("/", "j", "g"):
            page.tab.keyboard.press(key)
        assert page.tab.evaluate("document.activeElement.tagName") in {"BODY", "H1"}
        expect(page.main.get_by_role("table")).to_have_count(0)
        page.tab.get_by_role("button", name="Keyboard shortcuts").click()
        page.dialog.get_by_label("Use single-key shortcuts").check()
        page.dialog.get_by_role("button", name="Close").click()
        expect(page.dialog).to_have_count(0)
        page.tab.keyboard.press("j")
        expect(page.tab.locator("[data-row]")).to_be_focused()
