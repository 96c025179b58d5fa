"""What an operator can do on the page, and others cannot."""

from playwright.sync_api import expect

from tests.support.chromium import Chromium
from tests.support.live_page import live_page
from tests.support.server import ServerProcess


def test_force_release_with_a_reason(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("held-too-long")
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="job", job="held-too-long")
        page.act("Force-release", "the host is gone")
        expect(page.main.get_by_role("status")).to_contain_text("held-too-long was taken away from agent-1.")
        expect(page.dialog).to_have_count(0)
        page.shows("taken away from agent-1 by admin: the host is gone")
    last = server.events("held-too-long")[-1]
    assert (last["type"], last["reason"], last["actor"]) == ("force_released", "the host is gone", "admin")


def test_nothing_is_done_without_a_reason_or_when_cancelled(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("left-alone")
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="job", job="left-alone")
        page.main.get_by_role("button", name="Force-release").click()
        expect(page.dialog.get_by_label("Reason")).to_be_focused()
        page.tab.keyboard.press("Enter")
        expect(page.dialog.get_by_label("Reason")).to_have_js_property("validity.valueMissing", True)
        page.tab.keyboard.type("never mind")
        page.tab.keyboard.press("Escape")
        expect(page.dialog).to_have_count(0)
        expect(page.main.get_by_role("button", name="Force-release")).to_be_focused()
    assert [event["type"] for event in server.events("left-alone")] == ["claimed"]


def test_a_dialog_closes_with_its_view(chromium: Chromium, server: ServerProcess) -> None:
    for job_id in ("asked-about", "another-job"):
        server.claim(job_id)
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="job", job="another-job").visit(view="job", job="asked-about").shows("asked-about")
        page.main.get_by_role("button", name="Force-release").click()
        expect(page.dialog).to_contain_text("Force-release: asked-about")
        page.tab.go_back()
        expect(page.heading).to_have_text("another-job")
        expect(page.dialog).to_have_count(0)


def test_a_refusal_is_shown_in_the_dialog(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("gone-meanwhile")
    with live_page(chromium, server.url, server.token, expected=["409 (Conflict)"]) as page:
        page.open(view="job", job="gone-meanwhile")
        page.main.get_by_role("button", name="Ask to stop").click()
        server.post("/jobs/gone-meanwhile/force-release", {"reason": "first"})
        page.dialog.get_by_label("Reason").fill("second")
        page.dialog.get_by_role("button", name="Ask to stop").click()
        expect(page.dialog.get_by_role("alert")).to_contain_text("gone-meanwhile")
        page.dialog.get_by_role("button", name="Back").click()
        page.shows("free")


def test_cancelling_the_job_and_leaving_the_dialog_are_different_buttons(
    chromium: Chromium, server: ServerProcess
) -> None:
    server.claim("cancelled-by-mistake", "night-shift")
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="job", job="cancelled-by-mistake")
        page.main.get_by_role("button", name="Cancel the job").click()
        expect(page.dialog).to_contain_text("night-shift loses the job at once")
        buttons = page.dialog.get_by_role("button")
        assert buttons.all_inner_texts() == ["Cancel the job", "Back"]
        buttons.last.click()
        expect(page.dialog).to_have_count(0)
    assert [event["type"] for event in server.events("cancelled-by-mistake")] == ["claimed"]


def test_a_settled_job_no_longer_needs_attention(chromium: Chromium, server: ServerProcess) -> None:
    for job_id in ("settled/requeued", "settled/discarded"):
        server.post("/jobs", {"kind": "x", "queue": "settled", "job_id": job_id, "max_attempts": 1})
        release = {"lease_id": server.claim(job_id), "outcome": "failed", "error": "Traceback\n  ...\nno disk"}
        assert server.call_job(job_id, "release", release).status == 200
    with live_page(chromium, server.url, server.token) as page:
        page.open(prefix="settled/").is_live().shows("2 need attention", "Traceback … no disk")
        server.call_job("settled/discarded", "discard", {"reason": "not needed"})
        page.shows("1 needs attention")
        server.call_job("settled/requeued", "requeue", {"reason": "there is a disk again"})
        expect(page.main.locator(".needs")).to_have_count(0)
        page.tab.reload()
        expect(page.row("settled/requeued").locator(".chip")).to_have_text("queued")
        page.row("settled/requeued").get_by_role("link").click()
        page.shows("requeued by admin")
        expect(page.main.locator(".needs")).to_have_count(0)


def test_without_admin_there_are_no_buttons(chromium: Chromium, server: ServerProcess) -> None:
    """The server refuses the calls, too: see `tests/server/test_login.py`."""
    server.claim("only-to-look-at")
    with live_page(chromium, server.url, server.new_token("looker", "read", "claim")) as page:
        page.open(view="job", job="only-to-look-at").shows("agent-1")
        expect(page.main.get_by_role("button")).to_have_count(0)
        menu = page.tab.get_by_role("navigation", name="Views").get_by_role("link")
        names = [name for name in menu.all_inner_texts() if name != "Log"]  # anybody can pause it
        assert "Tokens" not in names
        for name in names:
            page.go(name)
            expect(page.main.get_by_text("Loading…")).to_have_count(0)
            expect(page.main.get_by_role("button")).to_have_count(0)
