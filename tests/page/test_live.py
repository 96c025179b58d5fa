"""The page updates itself, and everything it shows has an address."""

import json
import re
import time
from typing import Any

from playwright.sync_api import Request, expect

from tests.support.chromium import Chromium
from tests.support.cli import LiveCli
from tests.support.live_page import LivePage, live_page
from tests.support.server import ServerProcess

RELOAD_SECONDS = 60
"""How often the Now view is loaded again."""
# Collect every text of a row's line, in order.
REMEMBER_LINES = """() => {
  globalThis.lines = [];
  const look = () => {
    const line = document.querySelector("li.row .line")?.textContent;
    if (line && line !== lines.at(-1)) lines.push(line);
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


def test_the_demo_is_seen_as_it_happens(chromium: Chromium, server: ServerProcess) -> None:
    with live_page(chromium, server.url, server.token) as page:
        page.open(prefix="demo-").is_live().remember()
        page.tab.evaluate(REMEMBER_LINES)
        loads: list[Request] = []
        page.tab.on("request", lambda one: loads.append(one) if "/ui/api/claims" in one.url else None)
        began_at = time.monotonic()
        printed = run_demo(server)
        (job_id,) = {one["job_id"] for one in printed if "seq" in one}
        claimed, expired, _, _ = (one for one in printed if "seq" in one)
        (dead, successor) = (one["agent"] for one in printed if one.get("what") == "claimed")
        expect(page.row(job_id)).to_contain_text("done")
        lines: list[str] = page.tab.evaluate("lines")
        # In order, and from the log alone: nothing was loaded again.
        texts = [f"{dead}, alive", f"{successor} took over from {dead}: {expired['reason']}"]
        places = [next(place for place, line in enumerate(lines) if text in line) for text in texts]
        assert places == sorted(places)
        assert page.is_the_same
        assert len(loads) <= (time.monotonic() - began_at) / RELOAD_SECONDS
        # All of it is also there later.
        page.row(job_id).get_by_role("link").click()
        page.shows(
            f"{dead} claimed it", f"{dead} disappeared: {expired['reason']}", f"{successor} took over from {dead}"
        )
    assert claimed["data"]["owner"] == dead


def run_demo(server: ServerProcess) -> list[dict[str, Any]]:
    """Return everything it prints."""
    env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.token}
    with LiveCli("demo", "--here", "--json", **env) as demo:
        printed = [json.loads(demo.line())]
        while printed[-1].get("type") != "done":
            printed.append(json.loads(demo.line()))
    return printed


def test_an_address_is_a_view_that_can_be_shared(chromium: Chromium, server: ServerProcess) -> None:
    for job_id, owner in (("share/a", "ann"), ("share/b", "bob"), ("elsewhere", "bob")):
        server.claim(job_id, owner)
    with live_page(chromium, server.url, server.token) as page:
        page.open().is_live()
        page.filter("Job begins with", "share/")
        expect(page.row("elsewhere")).to_have_count(0)
        expect(page.row("share/a")).to_be_visible()
        page.filter("Owner", "bob")
        expect(page.row("share/a")).to_have_count(0)
        page.choose("Window", "1 h")
        page.tab.get_by_role("link", name="Show table").click()
        expect(page.main.get_by_role("table")).to_be_visible()
        assert page.tab.url == f"{server.url}/?prefix=share%2F&owner=bob&window=3600&show=table"
        shared = page.tab.url
        check_is_the_same(page)
        page.tab.reload()
        check_is_the_same(page)
    with live_page(chromium, server.url, server.new_token("reader", "read")) as other:
        other.tab.goto(shared)
        check_is_the_same(other)
        # Live updates are filtered, too.
        other.is_live()
        server.claim("share/c", "ann")
        server.claim("share/d", "bob")
        expect(other.row("share/d")).to_be_visible()
        expect(other.row("share/c")).to_have_count(0)


def check_is_the_same(page: LivePage) -> None:
    expect(page.main.get_by_role("table").get_by_role("row")).to_have_count(2)
    expect(page.row("share/b")).to_contain_text("bob")
    expect(page.tab.get_by_role("search").get_by_label("Owner")).to_have_value("bob")
    expect(page.tab.get_by_role("search").get_by_label("Window")).to_have_value("3600")


def test_the_back_button_goes_back(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("back/1")
    with live_page(chromium, server.url, server.token) as page:
        page.open(prefix="back/").remember()
        page.row("back/1").get_by_role("link").click()
        expect(page.heading).to_have_text("back/1")
        expect(page.tab).to_have_title(re.compile("^back/1 "))
        page.tab.go_back()
        expect(page.heading).to_have_text("Now")
        expect(page.row("back/1").get_by_role("link")).to_be_focused()  # as before
        field = page.tab.get_by_role("search").get_by_label("Job begins with")
        field.press("End")
        field.press_sequentially("2")
        page.shows("No claim matches")
        field.press_sequentially("3")
        expect(page.tab).to_have_url(re.compile("prefix=back%2F23"))
        page.tab.go_back()  # undoes everything typed
        expect(field).to_have_value("back/")
        expect(page.row("back/1")).to_be_visible()
        assert page.is_the_same


def test_heartbeats_and_progress_arrive_without_an_event(chromium: Chromium, server: ServerProcess) -> None:
    lease_id = server.claim("beating")
    with live_page(chromium, server.url, server.token) as page:
        page.open(prefix="beating").is_live()
        expect(page.row("beating")).to_contain_text("agent-1, alive")
        seq = server.seq
        progress = {"note": "halfway there", "percent": 50}
        server.post("/jobs/beating/heartbeat", {"lease_id": lease_id, "progress": progress})
        expect(page.row("beating")).to_contain_text("halfway there (50%)")
        assert server.seq == seq


def test_applying_events_leads_to_what_the_server_returns(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("model/0", "earlier")
    claims = "/claims?window=3600&prefix=model/&limit=200"
    first = server.get(claims).json
    for number, outcome in enumerate(("done", "failed", "deferred", "released"), start=1):
        job_id = f"model/{number}"
        server.post("/jobs", {"kind": "x", "job_id": job_id, "queue": "model", "max_attempts": 1})
        release = {"lease_id": server.claim(job_id), "outcome": outcome, "note": f"note {number}"}
        if outcome == "failed":
            release["error"] = "it broke"
        assert server.call_job(job_id, "release", release).status == 200
    server.call_job("model/0", "force-release", {"reason": "enough"})
    server.claim("model/0", "successor", metadata={"x": 1})
    server.call_job("model/0", "stop", {"reason": "please"})
    server.claim("model/5")
    server.call_job("model/5", "cancel", {"reason": "not needed"})
    server.call_job("model/2", "requeue", {"reason": "once more"})
    server.claim("model/2", "again")
    events = server.get(f"/events?limit=1000&prefix=model/&after={first['seq']}").json["events"]
    with live_page(chromium, server.url, server.token) as page:
        page.open(view="health")
        applied, loaded = page.tab.evaluate(
            """async ([first, last, events]) => {
              const assets = document.querySelector("script").src.replace(/app\\.js$/, "");
              const { applyEvent, modelOf } = await import(`${assets}now/model.js`);
              const model = modelOf(first);
              for (const event of events) applyEvent(model, event, { prefix: "model/" });
              return [model, modelOf(last)].map((one) => Object.fromEntries(one.rows));
            }""",
            [first, server.get(claims).json, events],
        )
    assert {job_id: comparable(row) for job_id, row in applied.items()} == {
        job_id: comparable(row) for job_id, row in loaded.items()
    }


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row without what is in no event or depends on the time."""
    shown = ("owner", "attempt", "fencing_token", "ended_at", "how", "reason", "note", "took_over_from", "stuck")
    claims = [
        {name: one[name] for name in shown} | {"is_stopping": bool(one["stop_requested"])} for one in row["claims"]
    ]
    return {"status": row["status"], "attention": row["attention"], "claims": claims}
