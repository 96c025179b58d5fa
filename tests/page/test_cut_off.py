"""The page while its server is away, its network is down, or its token is no longer valid."""

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.support.chromium import Chromium
from tests.support.live_page import LivePage, live_page
from tests.support.processes import free_port
from tests.support.server import ServerProcess

NETWORK = ["net::ERR_"]
"""What Chromium logs about requests without a response."""
IS_OLD = re.compile(r"This data is (\d+ min )?\d+ s old")


def check_is_cut_off(page: LivePage, shown: str) -> None:
    """The old data stays, with its age."""
    expect(page.state).to_have_text("Not connected")
    expect(page.banner).to_have_text(IS_OLD)
    expect(page.row(shown)).to_be_visible()


def test_a_server_that_is_restarted_leaves_no_gap(chromium: Chromium, tmp_path: Path) -> None:
    port = free_port()
    with ServerProcess(tmp_path, port=port) as server:
        server.claim("before")
        url, token = server.url, server.token
        with live_page(chromium, url, token, expected=NETWORK) as page:
            page.open(view="log").is_live().remember()
            expect(page.row("before")).to_be_visible()
            server.kill()
            check_is_cut_off(page, "before")
            with ServerProcess(tmp_path, port=port) as again:
                for number in range(20):
                    again.claim(f"meanwhile-{number}")
                page.is_live()
                expect(page.banner).to_have_count(0)
                again.claim("after")
                expect(page.row("after")).to_be_visible()
                cells = page.main.locator("tbody td:first-child").all_inner_texts()
                assert list(map(int, cells)) == list(range(again.seq, again.seq - len(cells), -1))
                assert len(cells) >= 22
                assert page.is_the_same


def test_without_a_network_nothing_is_lost(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("cable/1")
    with live_page(chromium, server.url, server.token, expected=NETWORK) as page:
        page.open(prefix="cable/").is_live()
        page.context.set_offline(True)
        check_is_cut_off(page, "cable/1")
        server.claim("cable/2")
        page.context.set_offline(False)
        page.is_live()
        expect(page.row("cable/2")).to_be_visible()
        expect(page.banner).to_have_count(0)


def test_the_age_of_the_data_keeps_counting(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("old-news")
    with live_page(chromium, server.url, server.token, expected=NETWORK, is_own=True) as page:
        page.tab.clock.install()
        page.open(view="log", prefix="old-news").is_live()
        page.context.set_offline(True)
        check_is_cut_off(page, "old-news")
        for minutes in (1, 2, 3):  # after a while it stops following the stream, and tries to load everything
            page.tab.clock.fast_forward("01:00")
            expect(page.banner).to_have_text(re.compile(rf"is {minutes} min"))
        check_is_cut_off(page, "old-news")
        page.context.set_offline(False)
        page.is_live()
        expect(page.banner).to_have_count(0)


def test_no_owner_is_called_late_without_news(chromium: Chromium, server: ServerProcess) -> None:
    """Owners do not die with the page's network, and switching views loses no data."""
    server.claim("steady", ttl_seconds=60)
    with live_page(chromium, server.url, server.token, expected=NETWORK, is_own=True) as page:
        page.tab.clock.install()
        page.open(prefix="steady").is_live()
        expect(page.row("steady")).to_contain_text("agent-1, alive")
        page.context.set_offline(True)
        check_is_cut_off(page, "steady")
        page.tab.clock.fast_forward("02:00")
        expect(page.row("steady")).to_contain_text("agent-1, alive when last seen, heartbeat 2 min")
        page.go("Health").shows("cannot be reached")
        page.tab.go_back()
        check_is_cut_off(page, "steady")
        expect(page.banner).to_contain_text("2 min")
        expect(page.row("steady")).to_contain_text("agent-1, alive when last seen")


def test_a_call_that_could_not_be_sent_can_be_sent_again(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("cable-of-the-operator")
    with live_page(chromium, server.url, server.token, expected=NETWORK) as page:
        page.open(view="job", job="cable-of-the-operator")
        page.main.get_by_role("button", name="Force-release").click()
        page.dialog.get_by_label("Reason").fill("typed once")
        page.context.set_offline(True)
        page.dialog.get_by_role("button", name="Force-release").click()
        expect(page.dialog.get_by_role("alert")).to_contain_text("cannot be reached")
        page.context.set_offline(False)
        page.dialog.get_by_role("button", name="Force-release").click()
        expect(page.main.get_by_role("status")).to_contain_text("was taken away")
    assert [event["reason"] for event in server.events("cable-of-the-operator")][1:] == ["typed once"]


def test_revoking_the_token_logs_the_page_out_at_once(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("secret-plans")
    made = server.post("/tokens", {"name": "guest", "scopes": ["read"]}).json
    with live_page(chromium, server.url, made["token"], expected=["401 (Unauthorized)"]) as page:
        page.open(prefix="secret-").is_live().remember()
        expect(page.row("secret-plans")).to_be_visible()
        assert server.request("DELETE", f"/tokens/{made['token_id']}").status == 200
        expect(page.tab.get_by_label("Token")).to_be_visible()
        expect(page.tab.get_by_role("alert")).to_contain_text("revoked")
        expect(page.tab.get_by_text("secret-plans")).to_have_count(0)
        page.log_in(server.token)
        expect(page.row("secret-plans")).to_be_visible()
        assert page.is_the_same
