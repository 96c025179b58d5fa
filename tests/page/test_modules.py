"""The modules of the page, one at a time: in an empty page, called from Python."""

import unicodedata

from octostore.cli.words import one_line
from octostore.core.events import DETAILS
from octostore.core.visible import visible
from tests.page.conftest import Modules
from tests.support.text_of_others import NASTY, hidden_in

SINCE = "2027-01-15T08:00:00Z"


def test_durations_have_two_units_at_most(modules: Modules) -> None:
    expected = {
        -1: "0 s",
        0.9: "0 s",
        42: "42 s",
        60: "1 min",
        250: "4 min 10 s",
        3_600: "1 h",
        11_100: "3 h 5 min",
        86_399: "23 h 59 min",
        90_000: "1 d 1 h",
        604_800: "7 d",
    }
    assert {seconds: modules.call("clock.js", "span", seconds) for seconds in expected} == expected


def test_ages_follow_the_clock_of_the_store(modules: Modules) -> None:
    offsets = modules.page.evaluate(
        """async (at) => {
          const clock = await import("/clock.js");
          const sent = performance.now();
          const later = (ms) => new Date(Date.parse(at) + ms).toISOString();
          const offset = () => Math.round(clock.now() - Date.parse(at) - (performance.now() - sent));
          const offsets = [];
          const note = (learn, ...args) => (learn(...args), offsets.push(offset()));
          note(clock.learnRoughly, new Date(at).toUTCString(), sent, sent);  // within that second
          note(clock.learnRoughly, new Date(later(1_000)).toUTCString(), sent, sent + 40);  // may be the same moment
          note(clock.learn, at, sent - 20, sent + 20);  // it took 40 ms, so assume it was sent halfway
          note(clock.learn, later(250), sent, sent + 500);  // a slower response is less precise
          note(clock.learnRoughly, new Date(later(9_000)).toUTCString(), sent, sent);  // and so is a rough one
          note(clock.learn, later(600), sent, sent + 400);  // unless it contradicts the offset
          note(clock.learn, later(-3_600_000), sent, sent + 400);
          note(clock.learn, at, sent - 5, sent + 5);
          return offsets;
        }""",
        SINCE,
    )
    assert offsets == [500, 500, 0, 0, 0, 400, -3_600_200, 0]
    assert modules.call("clock.js", "ago", "2027-01-15T07:55:00Z").startswith("5 min")
    assert modules.call("clock.js", "ago", "2027-01-15T09:30:00Z") in {"in 1 h 30 min", "in 1 h 29 min"}
    assert modules.call("clock.js", "utc", SINCE) == "2027-01-15 08:00:00.000 UTC"


def test_large_numbers_are_grouped(modules: Modules) -> None:
    numbers = [0, 7, 999, 1_000, 10_000, 123_456, 1_234_567_890]
    assert [modules.call("words.js", "grouped", number) for number in numbers] == [f"{number:,}" for number in numbers]


def test_addresses_keep_unchanged_parameters(modules: Modules) -> None:
    assert modules.call("url.js", "params") == {"view": "log", "job": "a"}
    assert modules.call("url.js", "href", {"job": None, "prefix": "a/b #"}) == "?view=log&prefix=a%2Fb+%23"
    assert modules.call("url.js", "address", {"view": "job", "job": "x", "owner": ""}) == "?view=job&job=x"
    assert modules.call("url.js", "address", {}) == "./"


def test_nothing_hides_in_untrusted_text(modules: Modules) -> None:
    assert hidden_in(modules.call("words.js", "visible", NASTY)) == []


def test_the_same_characters_are_visible_as_in_a_terminal(modules: Modules) -> None:
    """Except characters that only one of the two knows yet."""
    known = [letter for letter in map(chr, range(0x20000)) if unicodedata.category(letter) not in {"Cn", "Cs"}]
    texts = ["".join(known[start : start + 256]) for start in range(0, len(known), 256)]
    texts += ["⚠\ufe0f", "a\ufe0f", "1\ufe0f\u20e3", "\U000e0041\U000e01ef"]
    shown = modules.page.evaluate(
        "async (texts) => { const { visible } = await import('/words.js'); return texts.map(visible); }", texts
    )
    assert [(text, got) for text, got in zip(texts, shown, strict=True) if got != visible(text)] == []


def test_errors_are_sentences(modules: Modules) -> None:
    message = modules.call("words.js", "sentences", "this token is not valid", "It may be mistyped.", None)
    assert message == "This token is not valid. It may be mistyped."
    assert modules.call("words.js", "sentences", "Really?", "") == "Really?"
    buttons = modules.page.evaluate(
        """async (kinds) => {
          const { render } = await import("/dom.js");
          const { failed } = await import("/words.js");
          const app = document.getElementById("app");
          return kinds.map((kind) => {
            render(app, failed({ kind, message: "no", details: null }, () => null));
            return app.querySelectorAll("button").length;
          });
        }""",
        ["refused", "not allowed", "unreachable"],
    )
    assert buttons == [1, 0, 0]  # a button if trying again makes sense and is not automatic


def test_many_lines_are_shortened_to_one(modules: Modules) -> None:
    """As in a terminal."""
    for text in (
        "boom",
        "Traceback:\n  at x\r\nno\tdisk\n",
        "one\ntwo",
        "",
        "a\n\n",
        "1\noctostore: no\noctostore:   store x\n",
    ):
        assert modules.call("words.js", "gist", text) == one_line(text).replace("no disk", "no\\tdisk")


def test_text_is_never_parsed_as_html(modules: Modules) -> None:
    drawn = modules.page.evaluate(
        """async (text) => {
          const { h, render } = await import("/dom.js");
          const app = document.getElementById("app");
          render(app, h("p", { title: text, "data-x": text }, text, [null, false, 0]));
          return [app.textContent, app.querySelector("p").title, app.querySelectorAll("*").length];
        }""",
        "<script>alert(1)</script><img src=x onerror=alert(2)>&amp;",
    )
    assert drawn == [
        "<script>alert(1)</script><img src=x onerror=alert(2)>&amp;0",
        "<script>alert(1)</script><img src=x onerror=alert(2)>&amp;",
        1,
    ]


def test_rows_that_change_places_keep_their_elements_and_the_focus(modules: Modules) -> None:
    orders = ["abc", "cab", "bd", "dbca", "", "xyz", "zx", "axyzb"]
    rendered = modules.page.evaluate(
        """async (orders) => {
          const { h, render } = await import("/dom.js");
          const app = document.getElementById("app");
          const texts = [];
          const elements = {};
          let isMixedUp = false;
          let focused = null;
          for (const order of orders) {
            const rows = [...order].map((key) => h("button", { key, class: key }, key));
            render(app, "before", rows, h("i", null, "after"));
            texts.push(app.textContent);
            for (const key in elements) if (!order.includes(key)) delete elements[key];
            for (const button of app.querySelectorAll("button")) {
              isMixedUp ||= (elements[button.className] ??= button) !== button;
            }
            isMixedUp ||= focused !== null && order.includes(focused.className) && document.activeElement !== focused;
            focused = app.querySelector(".b, .z");
            focused?.focus();
          }
          return [texts, isMixedUp];
        }""",
        orders,
    )
    assert rendered == [[f"before{order}after" for order in orders], False]


def test_stale_attributes_and_handlers_are_removed(modules: Modules) -> None:
    left = modules.page.evaluate(
        """async () => {
          const { h, render } = await import("/dom.js");
          const app = document.getElementById("app");
          let clicks = 0;
          const style = { left: "1px", top: "2px" };
          render(app, h("button", { title: "x", disabled: true, style, onclick: () => (clicks += 1) }, "one"));
          render(app, h("button", { disabled: false, style: { top: "3px" } }, "two"));
          app.firstChild.click();
          return [app.innerHTML, clicks];
        }"""
    )
    assert left == ['<button style="top: 3px;">two</button>', 0]


def test_every_event_has_a_sentence(modules: Modules) -> None:
    types = modules.page.evaluate("async () => (await import('/story.js')).TYPES")
    assert set(types) == set(DETAILS)
