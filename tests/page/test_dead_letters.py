"""Dead letters by the thousand."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.chromium import Chromium
from tests.support.live_page import LivePage, live_page
from tests.support.server import ServerProcess

DEAD = 2_000
STEP = 1_000


@pytest.fixture(scope="module")
def dead_jobs(server: ServerProcess) -> None:
    """In the queue `mail`."""
    for start in range(0, DEAD, STEP):
        names = [f"mail-{number:04}" for number in range(start, start + STEP)]
        for commands in (
            [{"command": "enqueue", "kind": "send", "job_id": name, "queue": "mail"} for name in names],
            [{"command": "cancel_job", "job_id": name, "reason": "no such address"} for name in names],
        ):
            replies = server.post("/batch", {"commands": commands}).json["answers"]
            assert all(reply["status"] in {200, 201} for reply in replies)


@pytest.fixture
def page(chromium: Chromium, server: ServerProcess, dead_jobs: None) -> Iterator[LivePage]:  # noqa: ARG001
    with live_page(chromium, server.url, server.token) as page:
        yield page.open(view="dead", queue="mail")


def test_pages_are_turned_with_n_and_p(page: LivePage) -> None:
    expect(page.row("mail-0000")).to_be_visible()
    page.tab.keyboard.press("n")
    expect(page.row("mail-0100")).to_be_visible()
    expect(page.row("mail-0000")).to_have_count(0)
    page.tab.keyboard.press("p")
    expect(page.row("mail-0000")).to_be_visible()


def test_rows_do_not_wait_for_counts(page: LivePage) -> None:
    page.tab.route("**/ui/api/queues", lambda _route: None)  # never responds
    page.tab.route("**/ui/api/figures*", lambda _route: None)
    page.tab.reload()
    expect(page.row("mail-0000")).to_be_visible()
    page.shows("100 dead jobs or more.")


def test_a_limited_token_sees_only_its_own_dead_jobs(
    chromium: Chromium,
    server: ServerProcess,
    dead_jobs: None,  # noqa: ARG001
) -> None:
    token = server.new_token("mailer", "read", "admin", prefix="mail-19")
    with live_page(chromium, server.url, token) as page:
        page.open(view="dead")
        expect(page.row("mail-1900")).to_be_visible()
        page.shows("100 dead jobs", "Requeue all")


def test_all_matching_jobs_are_requeued_and_progress_is_shown(page: LivePage, server: ServerProcess) -> None:
    progress: list[str] = []
    page.tab.expose_function("report", lambda text: progress.append(text))  # noqa: PLW0108  # it needs a function
    page.tab.evaluate(
        """() => new MutationObserver(() => {
          const text = document.querySelector("dialog [role=status]")?.textContent;
          if (text) report(text.trim());
        }).observe(document.body, { subtree: true, childList: true, characterData: true })"""
    )
    page.act("Requeue all that match", "addresses are fixed", "Requeue all")
    expect(page.main.get_by_role("status")).to_contain_text("2,000 jobs were requeued.")
    page.shows("No dead job matches these filters.")
    assert [text for text in progress if text.endswith("jobs so far")]
    queued = server.get("/queues/mail").json
    assert (queued["ready"], queued["dead"]) == (DEAD, 0)
    last = server.events("mail-1999")[-1]
    assert (last["type"], last["reason"]) == ("requeued", "addresses are fixed")
