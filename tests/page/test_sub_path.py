"""Behind a proxy, under a path, whether or not the proxy strips that path."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.chromium import Chromium
from tests.support.live_page import live_page
from tests.support.proxy import Proxy
from tests.support.server import ServerProcess

BASE = "/teams/octo"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("home"), "--base-path", BASE) as process:
        yield process
        process.check_has_not_failed()


@pytest.mark.parametrize("strips", [True, False], ids=["it is stripped", "it is passed on"])
def test_everything_works_under_a_path(chromium: Chromium, server: ServerProcess, strips: bool) -> None:
    job_id = f"job-{strips}"
    with (
        Proxy(server.port, base_path=BASE, strips=strips) as proxy,
        live_page(chromium, proxy.url, expected=["401"]) as page,
    ):
        page.open()
        page.log_in(server.token)
        page.is_live()
        server.claim(job_id)
        page.row(job_id).get_by_role("link").click()
        page.act("Force-release", "to see whether it gets there")
        expect(page.main.get_by_role("status")).to_contain_text("was taken away")
        page.go("Log")
        expect(page.row(job_id).first).to_be_visible()
        page.tab.reload()  # with the cookie, which is only for this path
        expect(page.row(job_id).first).to_be_visible()
        assert [one["path"] for one in page.context.cookies()] == [f"{BASE}/ui/"]
        api = page.tab.get_by_role("link", name="API").evaluate("(link) => link.href")
        assert (api, page.context.request.get(api).status) == (f"{proxy.url}/docs", 200)
        assert not [one.path for one in proxy.seen if not one.path.startswith(f"{BASE}/")]
