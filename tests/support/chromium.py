"""The system's Chromium, driven by Playwright: one process, and a clean tab for each test."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from types import TracebackType
from typing import Any, Self

from playwright.sync_api import BrowserContext, ConsoleMessage, Error, Page, ViewportSize, sync_playwright

from tests.support.processes import PATIENCE_SECONDS

_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, _PROGRAMS)), None)
"""The headless shell takes two thirds of the CPU: it is the same engine without a desktop browser around it."""
DESKTOP = ViewportSize(width=1_000, height=700)
PHONE = ViewportSize(width=320, height=640)
# Fewer processes, because each takes time to start.
_ARGUMENTS = (
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-site-isolation-trials",
    "--enable-features=NetworkServiceInProcess2",
    "--disable-features=SpareRendererForSitePerProcess,OptimizationHints,Translate,MediaRouter",
    *(["--no-sandbox"] if os.geteuid() == 0 else []),  # unavailable to root
)
_AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
_RUN_AXE = "async (options) => (await axe.run(options)).violations"
# Chromium logs most of these to the console, too, but that is not guaranteed.
_TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.effectiveDirective} forbids ${event.blockedURI} ${event.sample}`));
"""


class Chromium:
    """While it is open, this thread cannot run an event loop: Playwright has one."""

    def __init__(self) -> None:
        self._playwright = sync_playwright().start()
        self._shared: Page | None = None
        try:
            self._browser = self._playwright.chromium.launch(executable_path=PROGRAM, args=_ARGUMENTS)
        except BaseException:
            self._playwright.stop()
            raise

    @contextmanager
    def tab(self) -> Iterator[Page]:
        """The previous test's tab, cleaned: a new one costs three times as much."""
        if self._shared is None:
            self._shared = self._new_window().new_page()
        try:
            yield self._shared
        finally:
            _clean(self._shared)

    @contextmanager
    def own_tab(self, **options: Any) -> Iterator[Page]:
        """A tab in its own window, which shares no cookies or storage with others."""
        context = self._new_window(**options)
        try:
            yield context.new_page()
        finally:
            context.close()

    def _new_window(self, **options: Any) -> BrowserContext:
        context = self._browser.new_context(**{"viewport": DESKTOP, "reduced_motion": "reduce", **options})
        context.set_default_timeout(PATIENCE_SECONDS * 1_000)
        context.add_init_script(_TELL_VIOLATIONS)
        return context

    def close(self) -> None:
        self._browser.close()
        self._playwright.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()


def _clean(tab: Page) -> None:
    tab.context.set_offline(False)
    tab.context.clear_cookies()
    if tab.url.startswith("http"):
        tab.evaluate("localStorage.clear()")
    tab.unroute_all()
    tab.goto("about:blank")
    tab.set_viewport_size(DESKTOP)
    tab.emulate_media(color_scheme="light")


@contextmanager
def no_console_errors(tab: Page, *expected: str) -> Iterator[None]:
    """Fail on console errors and Content-Security-Policy violations, except those with these words."""
    said: list[str] = []

    def hear_error(error: Error) -> None:
        said.append(f"{error.name}: {error.message}")

    def hear_console(line: ConsoleMessage) -> None:
        if line.type in {"error", "warning"}:
            said.append(f"{line.text} ({line.location['url']})")

    tab.on("pageerror", hear_error)
    tab.on("console", hear_console)
    try:
        yield
    finally:
        tab.remove_listener("pageerror", hear_error)
        tab.remove_listener("console", hear_console)
    unexpected = [line for line in said if not any(words in line for words in expected)]
    assert not unexpected, "\n".join(unexpected)


def axe_violations(page: Page, *rules: str) -> list[str]:
    """What axe-core finds, by default or by these rules only. Some of its rules are off by default."""
    if not page.evaluate("'axe' in globalThis"):
        debugger = page.context.new_cdp_session(page)  # not subject to the Content-Security-Policy
        debugger.send("Runtime.evaluate", {"expression": _AXE})
        debugger.detach()
    only = {"runOnly": {"type": "rule", "values": rules}} if rules else {}
    found = page.evaluate(_RUN_AXE, {"resultTypes": ["violations"], **only})
    return [f"{one['id']}: {node['html']}\n{node['failureSummary']}" for one in found for node in one["nodes"]]
