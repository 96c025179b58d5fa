"""Everybody can read and use every view: in light and dark mode, on a phone, and with a screen reader."""

import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import expect

from docs.pictures.photograph import OUTLINES, outline_of, posed
from tests.support.chromium import DESKTOP, PHONE, Chromium, axe_violations
from tests.support.live_page import LivePage, live_page
from tests.support.scene import served_scene


class View(NamedTuple):
    shows: str
    """A text that appears when everything has loaded."""
    address: dict[str, str]


VIEWS = {
    "Now": View("agent-3 took over from agent-1", {}),
    "Now, as a table": View("In words", {"show": "table"}),
    "Now, without anything": View("No claim matches these filters", {"prefix": "no-such"}),
    "Workers": View("review-4711", {"view": "workers"}),
    "Queues": View("media", {"view": "queues"}),
    "Takeovers": View("its host is being replaced", {"view": "takeovers"}),
    "Dead letters": View("disk quota exceeded", {"view": "dead"}),
    "Log": View("nightly-report", {"view": "log", "window": "3600"}),
    "Tokens": View("Create a token", {"view": "tokens"}),
    "Health": View("It works", {"view": "health"}),
    "a job that was taken over": View("agent-1 disappeared", {"view": "job", "job": "github-issue-1842"}),
    "a dead job": View("Discard", {"view": "job", "job": "import/2026-10"}),
    "an unknown job": View("Did you mean", {"view": "job", "job": "github-issue-1843"}),
}


@pytest.fixture(scope="module")
def page(chromium: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePage]:
    with (
        served_scene(tmp_path_factory.mktemp("scene")) as served,
        live_page(chromium, served.url, served.token, expected=["401"]) as page,
    ):
        yield page.open()


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_is_accessible(page: LivePage, view: View) -> None:
    page.visit(**view.address).shows(view.shows)
    expect(page.main.get_by_role("alert")).to_have_count(0)
    for summary in page.main.locator("summary").all():
        summary.click()
    check_looks(page)


def test_the_photographs_in_the_documents_are_current(page: LivePage) -> None:
    """Compared by outline, because pixels depend on fonts."""
    now = {name: outline_of(page) for name in posed(page)}
    page.tab.set_viewport_size(DESKTOP)
    assert now == json.loads(OUTLINES.read_text(encoding="utf-8")), "take them again: make pictures"


def test_the_dialogs_are_accessible(page: LivePage) -> None:
    page.visit(view="job", job="github-issue-1842")
    page.main.get_by_role("button", name="Force-release").click()
    expect(page.dialog).to_be_visible()
    check_looks(page)
    page.tab.keyboard.press("Escape")
    page.tab.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.dialog).to_be_visible()
    check_looks(page)


def test_the_login_form_is_accessible(page: LivePage) -> None:
    page.visit(view="health")
    page.tab.get_by_role("button", name="Log out").click()
    expect(page.tab.get_by_label("Token")).to_be_visible()
    page.log_in("octo_wrong")
    expect(page.tab.get_by_role("alert")).to_be_visible()
    check_looks(page)


def check_looks(page: LivePage) -> None:
    found = axe_violations(page.tab)
    page.tab.emulate_media(color_scheme="dark")
    found += [f"in dark mode: {one}" for one in axe_violations(page.tab, "color-contrast")]
    page.tab.emulate_media(color_scheme="light")
    page.tab.set_viewport_size(PHONE)
    found += [f"on a phone: {one}" for one in axe_violations(page.tab, "target-size")]
    wide = page.tab.evaluate("document.scrollingElement.scrollWidth")
    page.tab.set_viewport_size(DESKTOP)
    assert not found, "\n\n".join(found)
    assert wide <= PHONE["width"], f"on a phone, it is {wide} pixels wide"
