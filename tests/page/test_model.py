"""What the page makes of the log: rows, what needs attention, and a stream that resumes where it was."""

import gzip
from itertools import product
from typing import Any, get_args

from playwright.sync_api import Route, expect

from octostore.core.claims_window import Glance, attention_of
from octostore.core.model import HowEnded, Status
from tests.page.conftest import ASSETS, Modules
from tests.support.chromium import Chromium
from tests.support.live_page import live_page
from tests.support.server import ServerProcess

AT = "2027-01-15T08:00:00.000Z"
NOW_MS = 1_800_000_000_000
GZIPPED_MAX = 60_000


def test_all_assets_together_are_small() -> None:
    assets = [path for path in ASSETS.rglob("*") if path.is_file()]
    assert sum(len(gzip.compress(path.read_bytes())) for path in assets) < GZIPPED_MAX


def test_the_same_rows_need_attention_as_in_the_core(modules: Modules) -> None:
    """Only an expiry that is not recorded yet has its own word here."""
    cases = []
    for status, how in product(get_args(Status), (None, *get_args(HowEnded))):
        if how is not None and (how != "cancelled" or status == "dead"):
            cases.append((Glance("a", status, how=how, ended_at=1), {"status": status, "how": how}))
    for left, is_stuck, is_stopping in product((-1, 0, 1, 9_999, 10_000, 20_000), (False, True), (False, True)):
        glance = Glance(
            "a",
            "claimed",
            claimed_at=0,
            expires_at=NOW_MS + left,
            ttl_ms=30_000,
            max_silence_ms=1 if is_stuck else None,
            last_progress_at=0,
            is_stopping=is_stopping,
        )
        claim: dict[str, Any] = {
            "how": None,
            "ended_at": None,
            "expires_at": left,
            "late_at": left - 10_000,
            "stuck": is_stuck,
        }
        claim["stop_requested"] = {} if is_stopping else None
        cases.append((glance, {"claim": claim}))
    found = modules.page.evaluate(
        """async ([cases, now, at]) => {
          const { applyEvent, attention, modelOf } = await import("/now/model.js");
          const moment = (after) => new Date(now + after).toISOString();
          return cases.map(({ status, how, claim }) => {
            if (claim) {
              for (const name of ["expires_at", "late_at"]) claim[name] = moment(claim[name]);
              return attention({ claims: [claim], attention: null }, now);
            }
            const model = modelOf({ rows: [] });
            const data = { status, fencing_token: 1, ended_at: at };
            applyEvent(model, { seq: 2, type: how, job_id: "a", at, data }, {});
            return attention(model.rows.get("a"), now);
          });
        }""",
        [[case for _, case in cases], NOW_MS, AT],
    )
    expected = [attention_of(glance, NOW_MS) for glance, _ in cases]
    assert [{"gone": "lost"}.get(word, word) for word in found] == expected


APPLY_EVENTS = """async ([rows, events, wanted]) => {
  const { applyEvent, modelOf } = await import("/now/model.js");
  const model = modelOf({ rows, more: false, last_claim_at: null });
  for (const event of events) applyEvent(model, event, wanted);
  return { ...model, rows: [...model.rows.values()] };
}"""


def event(seq: int, kind: str, job_id: str = "job", **data: Any) -> dict[str, Any]:
    moment = f"2027-01-15T08:{seq // 60 % 60:02}:{seq % 60:02}.000Z"
    shared = {"actor": "ci", "queue": None, "session_id": None, "reason": data.pop("why", None)}
    return {"seq": seq, "at": moment, "type": kind, "job_id": job_id, "data": data, **shared}


def claimed(seq: int, job_id: str = "job", owner: str = "ann") -> dict[str, Any]:
    return event(seq, "claimed", job_id, owner=owner, attempt=1, ttl_ms=30_000)


def ended(seq: int, token: int, how: str, job_id: str = "job", owner: str = "ann", **data: Any) -> dict[str, Any]:
    when = event(seq, how)["at"]
    times = {"claimed_at": AT, "heartbeat_at": AT, "ended_at": when}
    return event(seq, how, job_id, **{"owner": owner, "fencing_token": token, "status": "free", **times, **data})


def model_after(
    modules: Modules, events: list[dict[str, Any]], rows: list[dict[str, Any]] | None = None, **wanted: Any
) -> dict[str, Any]:
    model: dict[str, Any] = modules.page.evaluate(APPLY_EVENTS, [rows or [], events, wanted])
    return model


def test_a_claim_that_ends_is_shown_even_if_its_start_was_not(modules: Modules) -> None:
    (row,) = model_after(modules, [ended(9, 3, "expired", why="no heartbeat")])["rows"]
    assert (row["status"], row["attention"]) == ("free", "lost")
    (claim,) = row["claims"]
    assert (claim["owner"], claim["how"], claim["reason"], claim["expires_at"]) == (
        "ann",
        "expired",
        "no heartbeat",
        None,
    )


def test_an_operator_settles_what_needs_attention(modules: Modules) -> None:
    story = [claimed(1), ended(2, 1, "failed", status="dead", why="boom")]
    assert model_after(modules, story)["rows"][0]["attention"] == "dead"
    (row,) = model_after(modules, [*story, event(3, "requeued", status="queued")])["rows"]
    assert (row["status"], row["attention"]) == ("queued", None)
    (row,) = model_after(modules, [*story, event(3, "discarded")])["rows"]
    assert (row["status"], row["attention"]) == ("free", None)
    (row,) = model_after(modules, [*story, event(3, "requeued", status="queued"), claimed(4)])["rows"]
    assert (row["status"], row["attention"], len(row["claims"])) == ("claimed", None, 2)


def test_rows_are_in_the_order_of_the_core(modules: Modules) -> None:
    """Dead letters do not bury live claims."""
    story = [claimed(1, "dead"), ended(2, 1, "failed", "dead", status="dead")]
    story += [claimed(3, "failed"), ended(4, 3, "failed", "failed"), claimed(5, "lost"), ended(6, 5, "expired", "lost")]
    story += [claimed(7, "heir"), ended(8, 7, "expired", "heir"), claimed(9, "heir", "bob"), claimed(10, "live")]
    story += [claimed(11, "done"), ended(12, 11, "done", "done", status="done")]
    order = modules.page.evaluate(
        """async ([events, now]) => {
          const { applyEvent, modelOf, rowsAt } = await import("/now/model.js");
          const model = modelOf({ rows: [] });
          for (const event of events) applyEvent(model, event, {});
          return rowsAt(model, now, now, 900).map(({ row }) => row.job_id);
        }""",
        [story, NOW_MS + 60_000],
    )
    assert order == ["lost", "heir", "live", "failed", "dead", "done"]


def test_owners_are_judged_by_what_is_known(modules: Modules) -> None:
    """Not while there is no news of them, and a little late, because heartbeats are."""
    judged_at = modules.page.evaluate(
        """async () => {
          const { Judge, LAG_MS } = await import("/judging.js");
          const judge = new Judge();
          judge.loaded(1_000);
          const at = [
            judge.at(9_000, null, null), // not followed
            judge.at(10_000, LAG_MS - 1, 0), // followed again, and not all heartbeats have come
            judge.at(11_000, LAG_MS, 0),
            judge.at(21_000, 20_000, 10_000),
            judge.at(61_000, 60_000, 50_000), // the stream is silent, as if it were cut
            judge.at(62_000, null, 60_000),
          ];
          judge.loaded(100_000);
          return [...at, judge.at(101_000, 90_000, 0)];
        }"""
    )
    assert judged_at == [1_000, 1_000, 7_000, 17_000, 27_000, 27_000, 100_000]


def test_a_hand_over_is_shown_as_one(modules: Modules) -> None:
    handed = {"reason": "handed over to 'bob'", "handed_over_to": "bob", "note": "mind the names"}
    story = [claimed(1), ended(2, 1, "released", status="queued", **handed)]
    story += [claimed(3, owner="bob") | {"data": {"owner": "bob", "attempt": 1, "ttl_ms": 1, "handed_over_by": "ann"}}]
    drawn = modules.page.evaluate(
        """async ([events, now]) => {
          const { applyEvent, modelOf } = await import("/now/model.js");
          const { lineOf, picture } = await import("/now/picture.js");
          const { sentence } = await import("/story.js");
          const { render } = await import("/dom.js");
          const model = modelOf({ rows: [] });
          for (const event of events) applyEvent(model, event, {});
          const row = model.rows.get("job");
          const app = document.getElementById("app");
          render(app, picture([{ row, claims: row.claims, word: null }], now, now, 900));
          const shown = [".handed", ".owner"].map((what) => app.querySelectorAll(what).length);
          return [lineOf(row.claims, now, now), events.map(sentence), shown, app.querySelector(".owner").textContent];
        }""",
        [story, NOW_MS + 10_000],
    )
    line, sentences, shown, names = drawn
    assert line.endswith("bob got it from ann: handed over (mind the names)")
    assert sentences == [
        "ann claimed it",
        "ann handed it over to bob (mind the names)",
        "bob got it from ann, with the session",
    ]
    assert (shown, names) == ([1, 1], "ann → bob")


def test_only_jobs_that_match_the_filter_become_rows(modules: Modules) -> None:
    story = [claimed(1, "a", "ann"), claimed(2, "b", "bob"), ended(3, 2, "force_released", "b", "bob")]
    story += [claimed(4, "c", "bob"), ended(5, 4, "done", "c", "bob", status="done")]

    def names(**wanted: Any) -> str:
        return "".join(row["job_id"] for row in model_after(modules, story, **wanted)["rows"])

    assert names() == "abc"
    assert names(owner="bob") == "bc"
    assert names(lost=True) == "b"
    assert names(lost=True, owner="ann") == ""
    assert names(status="done") == "c"
    assert names(queue="ci") == ""


def test_a_page_that_is_open_for_days_does_not_grow(modules: Modules) -> None:
    story = []
    for number in range(300):
        story += [
            claimed(2 * number + 1, f"job-{number}"),
            ended(2 * number + 2, 2 * number + 1, "done", f"job-{number}"),
        ]
    model = model_after(modules, story)
    assert [row["job_id"] for row in model["rows"]] == [f"job-{number}" for number in range(100, 300)]
    assert model["more"]
    # Live claims stay, and so does what needs attention.
    story = [claimed(number + 1, f"job-{number}") for number in range(199)]
    story += [claimed(200, "lost"), ended(201, 200, "expired", "lost"), claimed(202, "new")]
    model = model_after(modules, story)
    assert (len(model["rows"]), model["more"]) == (200, True)
    assert "new" not in [row["job_id"] for row in model["rows"]]
    # A job that is claimed again and again shows its last claims.
    story = []
    for number in range(60):
        story += [claimed(2 * number + 1), ended(2 * number + 2, 2 * number + 1, "released")]
    (row,) = model_after(modules, story)["rows"]
    assert ([one["fencing_token"] for one in row["claims"]], row["more"]) == (list(range(21, 121, 2)), True)


def test_a_stream_resumes_where_it_was(modules: Modules) -> None:
    """As long as it is the same log; following other heartbeats neither misses nor repeats an event."""
    requests: list[tuple[str, str]] = []

    def respond(route: Route) -> None:
        after = route.request.headers["last-event-id"]
        requests.append((route.request.url.partition("?")[2], after))
        if "types=none" in route.request.url:
            route.fulfill(status=400, json={"error": "no such type"})
        else:
            seq = int(after) + 1
            route.fulfill(
                body=f'id: {seq}\nevent: claimed\ndata: {{"seq": {seq}}}\n\n', content_type="text/event-stream"
            )

    modules.page.route("**/ui/api/events**", respond)
    followed = modules.page.evaluate(
        """async () => {
          const { Stream } = await import("/stream.js");
          const heard = [];
          let failures = 0;
          let wake = null;
          const until = async (is) => { while (!is()) await new Promise((done) => (wake = done)); };
          const stream = new Stream({
            event: ({ seq }) => { heard.push(seq); wake?.(); },
            heartbeat() {}, stale() {}, state() {},
            failed: () => { failures += 1; wake?.(); },
          });
          const goesOn = [stream.follow({ after: 5, prefix: "a", heartbeats: "" })];
          await until(() => heard.length === 2);
          goesOn.push(stream.follow({ after: 99, prefix: "a", heartbeats: "" }));
          goesOn.push(stream.follow({ after: 99, prefix: "a", heartbeats: "x" }));
          await until(() => heard.length === 3);
          goesOn.push(stream.follow({ after: 50, prefix: "b", heartbeats: "x" }));
          await until(() => heard.includes(51));
          goesOn.push(stream.follow({ after: 60, types: "none" }));
          await until(() => failures === 1);
          const state = stream.state;
          goesOn.push(stream.follow({ after: 70, prefix: "b" }));
          await until(() => heard.includes(71));
          stream.stop();
          return [goesOn, heard.slice(0, 5), state];
        }"""
    )
    modules.page.unroute("**/ui/api/events**")
    assert followed == [[False, True, True, False, False, False], [6, 7, 8, 51, 71], "off"]
    first, second, third, *_ = requests
    assert [first, second, third] == [("prefix=a", "5"), ("prefix=a", "6"), ("prefix=a&heartbeats=x", "7")]


def test_events_while_another_filter_loads_are_not_missed(chromium: Chromium, server: ServerProcess) -> None:
    server.claim("gap/a")
    with live_page(chromium, server.url, server.token) as page:
        page.open(prefix="gap/a").is_live()
        expect(page.row("gap/a")).to_contain_text("alive")

        def slowly(route: Route) -> None:
            response = route.fetch()
            server.claim("gap/b")  # after the response, and before the next event of the old stream
            server.call_job("gap/a", "force-release", {"reason": "enough"})
            expect(page.row("gap/a")).to_contain_text("enough")
            route.fulfill(response=response)

        page.tab.route("**/ui/api/claims?*prefix=gap%2Fb*", slowly, times=1)
        page.filter("Job begins with", "gap/b")
        expect(page.row("gap/b")).to_be_visible()
