"""What the views can do besides showing data."""

import re

from playwright.sync_api import expect

from tests.support.chromium import Chromium
from tests.support.live_page import live_page
from tests.support.server import ServerProcess


def test_the_log_can_be_paused(chromium: Chromium, server: ServerProcess) -> None:
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="log", prefix="paused/").is_live()
        server.claim("paused/1")
        expect(page.row("paused/1")).to_be_visible()
        page.main.get_by_role("button", name="Pause").click()
        server.claim("paused/2")
        server.claim("paused/3")
        resume = page.main.get_by_role("button", name="Resume (2 new events)")
        expect(resume).to_be_visible()
        expect(page.row("paused/2")).to_have_count(0)
        resume.click()
        expect(page.row("paused/2")).to_be_visible()
        expect(page.row("paused/3")).to_be_visible()


def test_takeovers_arrive_with_their_evidence(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("robbed", "slow-worker")
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="takeovers", prefix="robbed").is_live().shows("Nobody has lost a job")
        server.call_job("robbed", "force-release", {"reason": "it hangs"})
        expect(page.row("robbed")).to_contain_text(re.compile("slow-worker.*taken away: it hangs.*nobody yet"))
        server.claim("robbed", "next-worker")
        expect(page.row("robbed")).to_contain_text("next-worker has it")


def test_a_queue_is_paused_resumed_and_limited(chromium: Chromium, server: ServerProcess) -> None:
    server.post("/jobs", {"kind": "x", "queue": "bakery", "job_id": "bread"})
    seq = server.seq
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="queues", queue="bakery")
        page.act("Pause", "the oven is cold")
        expect(page.row("bakery")).to_contain_text("paused")
        claim = {"owner": "baker", "ttl_seconds": 60}
        assert server.post("/queues/bakery/claim", claim).json["status"] == "empty"
        page.act("Resume", "it is hot again")
        expect(page.row("bakery")).not_to_contain_text("paused")
        assert server.post("/queues/bakery/claim", claim).json["status"] == "claimed"
        page.main.get_by_role("button", name="Limit").click()
        page.dialog.get_by_label("At most").fill("3")
        page.dialog.get_by_label("Reason").fill("a small oven")
        page.dialog.get_by_role("button", name="Set limit").click()
        expect(page.row("bakery")).to_contain_text("1 (limit 3)")
    changes = server.get(f"/events?types=queue_limited&after={seq}").json["events"]
    assert [one["reason"] for one in changes] == ["the oven is cold", "it is hot again", "a small oven"]


def test_a_token_is_created_shown_once_and_revoked(chromium: Chromium, server: ServerProcess) -> None:
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="tokens")
        page.main.get_by_role("button", name="Create a token").click()
        page.dialog.get_by_label("Who will use it").fill("wall")
        page.dialog.get_by_label("Expires after (days)").fill("90")
        page.dialog.get_by_role("button", name="Create").click()
        secret = page.main.locator("pre").inner_text()
        assert server.get("/auth/whoami", token=secret).json["scopes"] == ["read"]
        page.main.get_by_role("button", name="I have it").click()
        expect(page.tab.get_by_text(secret)).to_have_count(0)
        row = page.main.get_by_role("row").filter(has_text="wall")
        expect(row).to_contain_text("in 89 d")
        row.get_by_role("button", name="Revoke").click()
        page.dialog.get_by_role("button", name="Revoke").click()
        expect(row).to_contain_text("revoked")
        assert server.get("/auth/whoami", token=secret).status == 401


def test_health_shows_its_reasons(chromium: Chromium, server: ServerProcess) -> None:
    figures = server.get("/figures").json
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="health").shows(figures["status"], *figures["reasons"])
