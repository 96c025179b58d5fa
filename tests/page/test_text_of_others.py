"""Untrusted text stays text, whatever it says and however long it is."""

import unicodedata
from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import expect

from octostore.core.visible import visible
from tests.support.chromium import Chromium
from tests.support.live_page import LivePage, live_page
from tests.support.server import ServerProcess
from tests.support.text_of_others import HIDDEN, NASTY, hidden_in

SCRIPT = "<script>globalThis.obeyed=1</script><img src=x onerror='globalThis.obeyed=2'>"
ON_ONE_LINE = SCRIPT + "".join(letter for letter in NASTY if unicodedata.category(letter) not in HIDDEN)
"""Everything that names and reasons accept."""
EVIL = SCRIPT + NASTY
PAYLOAD_BYTES = 256 * 1_024


@pytest.fixture(scope="module")
def evil_job(server: ServerProcess) -> str:
    """Claimed, force-released and claimed again, with evil text in every field that takes text."""
    room = PAYLOAD_BYTES - len(msgspec.json.encode({"text": EVIL, "long": ""}))
    payload = {"text": EVIL, "long": "x" * room}
    job = {"job_id": "evil", "kind": "evil", "queue": "evil", "payload": payload}
    assert server.post("/jobs", job).status == 201
    server.claim("evil", ON_ONE_LINE)
    assert server.call_job("evil", "force-release", {"reason": ON_ONE_LINE}).status == 200
    lease_id = server.claim("evil", ON_ONE_LINE, metadata={EVIL: EVIL})
    progress = {"note": EVIL, "percent": 10}
    assert server.call_job("evil", "heartbeat", {"lease_id": lease_id, "progress": progress}).status == 200
    assert server.call_job("evil", "checkpoint", {"lease_id": lease_id, "data": [EVIL]}).status == 200
    session = {"agent": ON_ONE_LINE, "ttl_seconds": 600, "session_id": "evil"}
    assert server.post("/sessions", session).status in {200, 201}
    return "evil"


ADDRESSES = [
    {"prefix": "evil"},
    {"prefix": "evil", "show": "table"},
    {"view": "job", "job": "evil"},
    {"view": "takeovers", "prefix": "evil"},
    {"view": "workers"},
    {"view": "queues", "queue": "evil"},
    {"view": "log", "prefix": "evil"},
]


def test_untrusted_text_stays_text_everywhere(chromium: Chromium, server: ServerProcess, evil_job: str) -> None:
    with live_page(chromium, server.url, server.token) as page:
        for address in ADDRESSES:
            page.open(**address)
            expect(page.main.get_by_text(evil_job).first).to_be_visible()
            if address.get("view") != "queues":
                page.shows(visible(ON_ONE_LINE))
            check_is_text(page)


def test_documents_are_text_too(chromium: Chromium, server: ServerProcess, evil_job: str) -> None:
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="job", job=evil_job)
        for name in ("Payload", "Checkpoint", "Metadata"):
            page.main.get_by_text(name).click()
        payload = page.main.locator("details", has_text="Payload").locator("pre")
        assert len(payload.inner_text()) > PAYLOAD_BYTES * 0.99
        expect(payload).to_contain_text(SCRIPT)
        check_is_text(page)


def test_addresses_are_text_too(chromium: Chromium, server: ServerProcess) -> None:
    with live_page(chromium, server.url, server.token, expected=["400 (Bad Request)"]) as page:
        for query in (f"view=job&job={quote(EVIL)}", f"owner={quote(EVIL)}", f"view={quote(EVIL)}"):
            page.tab.goto(f"{server.url}/?{query}")
            expect(page.heading).to_be_visible()
            check_is_text(page)


def check_is_text(page: LivePage) -> None:
    assert page.tab.evaluate("globalThis.obeyed") is None
    assert page.tab.locator("#app script, #app img, #app iframe, #app object").count() == 0
    assert hidden_in(page.main.inner_text().replace("\t", " ")) == []
    assert hidden_in(page.tab.title()) == []
