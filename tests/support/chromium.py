"""The Chromium of this machine, driven by Playwright: one process, and a fresh context for each test."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from types import TracebackType
from typing import Any, Literal, Self

from playwright.sync_api import BrowserContext, Page, ViewportSize, sync_playwright

from tests.support.processes import PATIENCE_SECONDS

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DESKTOP = ViewportSize(width=1_000, height=700)
PHONE = ViewportSize(width=320, height=640)
_ARGUMENTS = (
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-features=SpareRendererForSitePerProcess,OptimizationHints,Translate,MediaRouter",
    *(["--no-sandbox"] if os.geteuid() == 0 else []),  # which root cannot have
)
_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
_RUN_AXE = "async () => (await axe.run({resultTypes: ['violations']})).violations"
# Chromium writes most of these to the console, too, but does not promise to.
_TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.effectiveDirective} forbids ${event.blockedURI} ${event.sample}`));
"""


class Chromium:
    """While it is open, this thread cannot run an event loop of its own: Playwright has one there."""

    def __init__(self) -> None:
        self._playwright = sync_playwright().start()
        try:
            self._browser = self._playwright.chromium.launch(executable_path=PROGRAM, args=_ARGUMENTS)
        except BaseException:
            self._playwright.stop()
            raise

    @contextmanager
    def context(self, **options: Any) -> Iterator[BrowserContext]:
        """What a window of its own would be: it shares no cookies and no storage with any other."""
        context = self._browser.new_context(**{"viewport": DESKTOP, "reduced_motion": "reduce", **options})
        context.set_default_timeout(PATIENCE_SECONDS * 1_000)
        context.add_init_script(_TELL_VIOLATIONS)
        try:
            yield context
        finally:
            context.close()

    def close(self) -> None:
        self._browser.close()
        self._playwright.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()


class Complaints:
    """What a page's console says is wrong: errors of scripts, and what its Content-Security-Policy forbids."""

    def __init__(self, page: Page) -> None:
        self._said: list[str] = []
        page.on("pageerror", lambda error: self._said.append(f"{error.name}: {error.message}"))
        page.on("console", lambda line: self._said.append(line.text) if line.type in {"error", "warning"} else None)

    def check(self, *expected: str) -> None:
        """There are none, but for lines with one of these words."""
        unexpected = [line for line in self._said if not any(words in line for words in expected)]
        assert not unexpected, "\n".join(unexpected)


def check_accessible(page: Page) -> None:
    """Whatever axe-core can find, by day and by night."""
    debugger = page.context.new_cdp_session(page)  # no Content-Security-Policy keeps it out
    debugger.send("Runtime.evaluate", {"expression": _AXE})
    debugger.detach()
    found = []
    for scheme in _SCHEMES:
        page.emulate_media(color_scheme=scheme)
        found += [(scheme, one["id"], node) for one in page.evaluate(_RUN_AXE) for node in one["nodes"]]
    assert not found, "\n\n".join(
        f"{scheme}: {name}: {node['html']}\n{node['failureSummary']}" for scheme, name, node in found
    )
