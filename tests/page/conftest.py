"""The live page, in a real browser. One Chromium and one server for the whole folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route

import octostore.server
from tests.support.chromium import PROGRAM, Chromium, no_console_errors
from tests.support.server import ServerProcess

ASSETS = Path(octostore.server.__file__).parent / "page"
TYPES = {".js": "text/javascript", ".html": "text/html"}
EMPTY = "<!doctype html><title>empty</title><div id=app></div>"
CALL = """async ([module, name, ...args]) => {
  const found = await import(`/${module}`);
  return found[name](...args);
}"""

HERE = Path(__file__).parent
_open: list[Chromium] = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.xdist_group("page"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Close Chromium after the last test in this folder, not at the end of the session: see `Chromium`."""
    try:
        yield
    finally:
        if nextitem is None or nextitem.path.parent != HERE:
            while _open:
                _open.pop().close()


@pytest.fixture(scope="module")
def chromium() -> Chromium:
    if PROGRAM is None:
        pytest.skip("no Chromium here: apt install chromium")
    if not _open:
        _open.append(Chromium())
    return _open[0]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests, which use different names."""
    with ServerProcess(tmp_path_factory.mktemp("home")) as process:
        yield process
        process.check_has_not_failed()


class Modules:
    def __init__(self, page: Page) -> None:
        self.page = page

    def call(self, module: str, name: str, *arguments: Any) -> Any:
        return self.page.evaluate(CALL, [module, name, *arguments])


@pytest.fixture(scope="module")
def modules(chromium: Chromium) -> Iterator[Modules]:
    with chromium.tab() as tab, no_console_errors(tab, "/ui/api/"):  # there is no API behind it
        tab.route("http://page.test/**", serve_from_disk)
        tab.goto("http://page.test/empty?view=log&job=a")
        yield Modules(tab)


def serve_from_disk(route: Route) -> None:
    name = route.request.url.removeprefix("http://page.test/")
    path = ASSETS / name
    if path.suffix in TYPES:
        route.fulfill(path=path, content_type=TYPES[path.suffix])
    else:
        route.fulfill(body=EMPTY, content_type="text/html")
