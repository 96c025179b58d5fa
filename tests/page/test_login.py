"""Logging in, with a token or by a link, and logging out."""

from playwright.sync_api import expect

from octostore.wire.tokens import new_token
from tests.support.chromium import Chromium
from tests.support.live_page import live_page
from tests.support.server import ServerProcess

UNAUTHORIZED = "401 (Unauthorized)"
"""What Chromium logs about such a response."""


def test_a_pasted_token_opens_the_requested_view(chromium: Chromium, server: ServerProcess) -> None:
    with live_page(chromium, server.url, expected=[UNAUTHORIZED]) as page:
        page.open(view="health").remember()
        page.log_in(new_token())
        expect(page.tab.get_by_role("alert")).to_contain_text("token")
        page.log_in(f" {server.token}\n")
        expect(page.heading).to_have_text("Health")
        assert page.tab.url.endswith("/?view=health")
        assert page.is_the_same
        # Scripts cannot read the cookie, and the token is nowhere.
        assert page.tab.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
        assert server.token not in page.tab.content()


def test_a_link_works_once(chromium: Chromium, server: ServerProcess) -> None:
    code = server.post("/auth/link").json["code"]
    with live_page(chromium, server.url) as page:
        page.tab.goto(f"{server.url}/#login={code}")
        expect(page.heading).to_have_text("Now")
        assert code not in page.tab.url
        page.tab.go_back()  # past the first page: the code is not in the history
        assert code not in page.tab.url
    with live_page(chromium, server.url, expected=[UNAUTHORIZED]) as page:
        page.tab.goto(f"{server.url}/#login={code}")
        expect(page.tab.get_by_role("alert")).to_contain_text("octostore ui")


def test_after_logging_out_every_page_asks_for_a_token(chromium: Chromium, server: ServerProcess) -> None:
    with live_page(chromium, server.url, server.token, expected=[UNAUTHORIZED]) as page:
        page.open(view="health")
        expect(page.heading).to_have_text("Health")
        page.tab.get_by_role("button", name="Log out").click()
        expect(page.tab.get_by_label("Token")).to_be_visible()
        page.open()
        expect(page.tab.get_by_label("Token")).to_be_visible()
