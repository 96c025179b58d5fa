"""The live page in a tab of the tests' browser, in the words of who looks at it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

from tests.support.chromium import Chromium, no_complaints
from tests.support.processes import PATIENCE_SECONDS

expect.set_options(timeout=PATIENCE_SECONDS * 1_000)
VIEWS = ("now", "workers", "queues", "takeovers", "dead", "log", "tokens", "health")


class LivePage:
    """`url` is where the page is, without a slash at its end."""

    def __init__(self, tab: Page, url: str) -> None:
        self.tab = tab
        self.context = tab.context
        self.url = url

    def open(self, **state: str) -> Self:
        """The address of a view: without a `view`, it is what is going on now."""
        self.tab.goto(f"{self.url}/?{urlencode(state)}" if state else f"{self.url}/")
        return self

    def visit(self, **state: str) -> Self:
        """The same, as by a link on the page: nothing is loaded but what the view shows."""
        self.tab.evaluate(
            """(to) => {
              history.pushState(null, "", to);
              dispatchEvent(new PopStateEvent("popstate"));
            }""",
            f"?{urlencode(state)}",
        )
        return self

    def remember(self) -> Self:
        """Whatever happens from now on happens in the document that is there: see `is_the_same`."""
        self.tab.evaluate("globalThis.isRemembered = true")
        return self

    @property
    def is_the_same(self) -> bool:
        """Whether nothing has been loaded again since."""
        return bool(self.tab.evaluate("globalThis.isRemembered === true"))

    def get_in(self, token: str) -> Self:
        """As by the form, without drawing it."""
        body = {"token": token}
        answer = self.context.request.post(f"{self.url}/ui/login", data=body, headers={"Origin": self.origin})
        assert answer.status == 204, answer.text()
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
        """Of the connection, in the page's head."""
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
        """Of the picture, or of a table."""
        link = self.tab.locator("[data-row]").filter(has_text=re.compile(f"^{re.escape(job_id)}$"))
        return self.main.locator("li.row, tr").filter(has=link)

    def filter(self, label: str, value: str) -> None:
        self.tab.get_by_role("search").get_by_label(label).fill(value)

    def choose(self, label: str, value: str) -> None:
        self.tab.get_by_role("search").get_by_label(label).select_option(label=value)

    def go(self, view: str) -> Self:
        """By the menu."""
        self.tab.get_by_role("navigation", name="Views").get_by_role("link", name=view, exact=True).click()
        expect(self.heading).to_have_text(view)
        return self

    def act(self, button: str, reason: str, confirm: str | None = None) -> None:
        """Press a button, say why, and confirm."""
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
    """Logged in if there is a token. `expected` is what its console may say.

    `is_own` is for a test that does something to its tab that cannot be undone, or needs two of them.
    """
    with (
        chromium.own_tab(**options) if is_own or options else chromium.tab() as tab,
        no_complaints(tab, *expected),
    ):
        page = LivePage(tab, url)
        yield page if token is None else page.get_in(token)
