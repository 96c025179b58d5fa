"""This machine's Chromium opens pages and says when they were painted."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

    from bench.served.peers import Peer

from bench.served.processes import LOOPBACK

Painted: TypeAlias = "Callable[[BrowserContext, str], float]"
PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
IS_THERE = PROGRAM is not None and find_spec("playwright") is not None
ARGUMENTS = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]

# A message sent while a frame is drawn arrives once it has been painted.
NOTE_ROWS = """
new MutationObserver((_changes, observer) => {
  if (!document.querySelector("[data-row]")) return;
  observer.disconnect();
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { window.rowsPaintedAt = performance.now(); };
    port2.postMessage(null);
  });
}).observe(document, { childList: true, subtree: true });
"""
ROWS_PAINTED = """() => new Promise((done) => {
  const look = () => (window.rowsPaintedAt === undefined ? setTimeout(look, 1) : done(window.rowsPaintedAt));
  look();
})"""
PAINTED = """() => new Promise((done) => {
  new PerformanceObserver((list) => done(list.getEntriesByName("first-contentful-paint")[0]?.startTime))
    .observe({ type: "paint", buffered: true });
})"""


@contextmanager
def chromium() -> "Iterator[Browser]":
    # Imported here because it is optional.
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def logged_in(browser: "Browser", server: "Peer") -> "Iterator[BrowserContext]":
    """A new context with an empty cache."""
    context = browser.new_context()
    try:
        context.add_init_script(NOTE_ROWS)
        url = url_of(server)
        response = context.request.post(f"{url}/ui/login", data={"token": server.token}, headers={"Origin": url})
        if not response.ok:
            raise RuntimeError(f"the login failed: {response.text()}")
        yield context
    finally:
        context.close()


def url_of(server: "Peer") -> str:
    return f"http://{LOOPBACK}:{server.port}"


def page_painted(context: "BrowserContext", address: str) -> float:
    """Seconds from the start of the navigation until the page's rows were painted."""
    return _seconds_until(context, address, ROWS_PAINTED)


def on_first_visit(browser: "Browser", server: "Peer", painted: Painted, address: str) -> float:
    """The same, with an empty cache."""
    with logged_in(browser, server) as context:
        return painted(context, address)


def document_painted(context: "BrowserContext", address: str) -> float:
    """The same for a document without scripts."""
    return _seconds_until(context, address, PAINTED)


def _seconds_until(context: "BrowserContext", address: str, moment: str) -> float:
    tab = context.new_page()
    try:
        tab.goto(address, wait_until="commit")
        return float(tab.evaluate(moment)) / 1_000
    finally:
        tab.close()


def calls_of_a_tab(context: "BrowserContext", address: str, seconds: float) -> dict[str, int]:
    """The requests of an open page in its first seconds, with their counts."""
    calls: Counter[str] = Counter()

    def note(request: Any) -> None:
        path = urlsplit(request.url).path
        calls[path.removeprefix("/ui/api/") if "/ui/api/" in path else "assets"] += 1

    tab = context.new_page()
    try:
        tab.on("request", note)
        tab.goto(address)
        tab.wait_for_timeout(seconds * 1_000)
    finally:
        tab.close()
    return dict(calls)
