"""The live page in a browser tab, as its users see it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

from tests.support.chromium import Chromium, no_console_errors
from tests.support.processes import PATIENCE_SECONDS

expect.set_options(timeout=PATIENCE_SECONDS * 1_000)
VIEWS = ("now", "workers", "queues", "takeovers", "dead", "log", "tokens", "health")


class LivePage:
    """`url` is the page's address, without a trailing slash."""

    def __init__(self, tab: Page, url: str) -> None:
        self.tab = tab
        self.context = tab.context
        self.url = url

    def open(self, **state: str) -> Self:
        """Load a view; without `view`, what is happening now."""
        self.tab.goto(f"{self.url}/?{urlencode(state)}" if state else f"{self.url}/")
        return self

    def visit(self, **state: str) -> Self:
        """Go to a view as a link on the page does, without loading the page again."""
        self.tab.evaluate(
            """(to) => {
              history.pushState(null, "", to);
              dispatchEvent(new PopStateEvent("popstate"));
            }""",
            f"?{urlencode(state)}",
        )
        return self

    def remember(self) -> Self:
        """Mark the current document, for `is_the_same`."""
        self.tab.evaluate("globalThis.isRemembered = true")
        return self

    @property
    def is_the_same(self) -> bool:
        """Whether the page has not been loaded again since `remember`."""
        return bool(self.tab.evaluate("globalThis.isRemembered === true"))

    def get_in(self, token: str) -> Self:
        """Log in without the form."""
        body = {"token": token}
        response = self.context.request.post(f"{self.url}/ui/login", data=body, headers={"Origin": self.origin})
        assert response.status == 204, response.text()
        return self

    def log_in(self, token: str) -> None:
        self.tab.get_by_label("Token").fill(token)
        self.tab.get_by_role("button", name="Log in").click()

    @property
    def origin(self) -> str:
        return re.match("https?://[^/]+", self.url)[0]  # type: ignore[index]

    @property
    def heading(self) -> Locator:
        return self.tab.get_by_role("heading", level=1)

    @property
    def main(self) -> Locator:
        return self.tab.get_by_role("main")

    @property
    def state(self) -> Locator:
        """The state of the connection, in the page's header."""
        return self.tab.locator("header .state")

    @property
    def banner(self) -> Locator:
        return self.tab.locator(".banner")

    @property
    def dialog(self) -> Locator:
        return self.tab.get_by_role("dialog")

    def is_live(self) -> Self:
        expect(self.state).to_have_text("Live")
        return self

    def shows(self, *texts: str | re.Pattern[str]) -> Self:
        for text in texts:
            expect(self.main).to_contain_text(text)
        return self

    def row(self, job_id: str) -> Locator:
        """A row of the picture or of a table."""
        link = self.tab.locator("[data-row]").filter(has_text=re.compile(f"^{re.escape(job_id)}$"))
        return self.main.locator("li.row, tr").filter(has=link)

    def filter(self, label: str, value: str) -> None:
        self.tab.get_by_role("search").get_by_label(label).fill(value)

    def choose(self, label: str, value: str) -> None:
        self.tab.get_by_role("search").get_by_label(label).select_option(label=value)

    def go(self, view: str) -> Self:
        """Go there by the menu."""
        self.tab.get_by_role("navigation", name="Views").get_by_role("link", name=view, exact=True).click()
        expect(self.heading).to_have_text(view)
        return self

    def act(self, button: str, reason: str, confirm: str | None = None) -> None:
        """Press a button, type a reason, and confirm."""
        self.main.get_by_role("button", name=button, exact=True).click()
        self.dialog.get_by_label("Reason").fill(reason)
        self.dialog.get_by_role("button", name=confirm or button, exact=True).click()


@contextmanager
def live_page(
    chromium: Chromium,
    url: str,
    token: str | None = None,
    *,
    expected: Sequence[str] = (),
    is_own: bool = False,
    **options: Any,
) -> Iterator[LivePage]:
    """Logged in if there is a token. `expected` are the errors that its console may show.

    `is_own` is for a test that changes its tab for good, or needs two tabs.
    """
    with (
        chromium.own_tab(**options) if is_own or options else chromium.tab() as tab,
        no_console_errors(tab, *expected),
    ):
        page = LivePage(tab, url)
        yield page if token is None else page.get_in(token)
