"""Getting in: with a token, by a link; and out."""

from playwright.sync_api import expect

from octostore.wire.tokens import new_token
from tests.support.chromium import Chromium
from tests.support.live_page import live_page
from tests.support.server import ServerProcess

UNAUTHORIZED = "401 (Unauthorized)"
"""What Chromium says of such an answer, whoever asked."""


def test_a_pasted_token_opens_what_was_asked_for(chromium: Chromium, server: ServerProcess) -> None:
    with live_page(chromium, server.url, expected=[UNAUTHORIZED]) as page:
        page.open(view="health").remember()
        page.log_in(new_token())
        expect(page.tab.get_by_role("alert")).to_contain_text("token")
        page.log_in(f" {server.token}\n")
        expect(page.heading).to_have_text("Health")
        assert page.tab.url.endswith("/?view=health")
        assert page.is_the_same
        # The cookie is not for scripts, and the token is nowhere.
        assert page.tab.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
        assert server.token not in page.tab.content()


def test_a_link_is_good_once(chromium: Chromium, server: ServerProcess) -> None:
    code = server.post("/auth/link").json["code"]
    with live_page(chromium, server.url) as page:
        page.tab.goto(f"{server.url}/#login={code}")
        expect(page.heading).to_have_text("Now")
        assert code not in page.tab.url
        page.tab.go_back()  # to before the page: the code is not in the history
        assert code not in page.tab.url
    with live_page(chromium, server.url, expected=[UNAUTHORIZED]) as page:
        page.tab.goto(f"{server.url}/#login={code}")
        expect(page.tab.get_by_role("alert")).to_contain_text("octostore ui")


def test_logged_out_means_out_in_every_tab(chromium: Chromium, server: ServerProcess) -> None:
    with live_page(chromium, server.url, server.token, expected=[UNAUTHORIZED]) as page:
        page.open(view="health")
        expect(page.heading).to_have_text("Health")
        page.tab.get_by_role("button", name="Log out").click()
        expect(page.tab.get_by_label("Token")).to_be_visible()
        page.open()
        expect(page.tab.get_by_label("Token")).to_be_visible()
