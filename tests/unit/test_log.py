"""The server's log: what strangers can cause is logged at most once a minute for each kind; and how lines look."""

import json
import logging

import pytest

from octostore.server.log import MAX_SOURCES, MINUTE_SECONDS, ThrottledLog
from octostore.server.log_formats import OURS, JsonLines, TextLines, log_to_stderr


def test_each_kind_is_logged_once_a_minute_with_the_number_left_out(caplog: pytest.LogCaptureFixture) -> None:
    now = [5.0]
    throttled = ThrottledLog(lambda: now[0])
    for address in ("a", "b", "c"):
        throttled.warning("refused", "refused %s", address)
    throttled.warning("gone", "gone: 100%")
    now[0] += MINUTE_SECONDS - 0.1
    throttled.warning("refused", "refused %s", "d")
    now[0] += 0.1
    throttled.warning("refused", "refused %s", "e")
    now[0] += MINUTE_SECONDS
    throttled.warning("refused", "refused %s", "f")
    assert caplog.messages == [
        "refused a",
        "gone: 100%",
        "refused e (3 more since the last line of this kind)",
        "refused f",
    ]


def test_sources_are_throttled_separately_and_beyond_a_limit_together(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("octostore.server.log.MAX_SOURCES", 3)
    now = [0.0]
    throttled = ThrottledLog(lambda: now[0])
    for _ in range(2):
        for who in "abcdef":
            throttled.warning("refused", who, source=who)
    assert caplog.messages == ["a", "b", "c", "d"]
    now[0] += MINUTE_SECONDS
    throttled.warning("refused", "g", source="g")
    throttled.warning("refused", "the rest")
    assert caplog.messages[4:] == ["g", "the rest"]


def test_any_number_of_sources_causes_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    throttled = ThrottledLog(lambda: 0.0)
    for kind in ("cut_off", "token_refused"):
        for number in range(2 * MAX_SOURCES):
            throttled.warning(kind, kind, source=f"2001:db8:0:{number:x}::/64")
    throttled.warning("full", "full")
    assert len(caplog.messages) == MAX_SOURCES + 3, "and one line of each kind for the rest"
    assert set(caplog.messages) == {"cut_off", "token_refused", "full"}


# How lines look


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("octostore.writer", logging.WARNING, "f", 1, message, args, None)
    made.created = 1_782_900_000.25
    vars(made).update(extra)
    return made


HOSTILE = "x\n2026 forged\x1b[2J\u202e"


def test_a_line_for_people() -> None:
    line = TextLines().format(record("it is %s", "so", event="happened", fields={"name": "ann b", "count": 3}))
    assert line == '2026-07-01T10:00:00.250Z WARNING happened: it is so, name="ann b" count=3'
    assert TextLines().format(record("so")) == "2026-07-01T10:00:00.250Z WARNING writer: so"


def test_a_line_for_machines() -> None:
    line = JsonLines().format(record("it is %s", "so", event="happened", fields={"name": "ann b", "count": 3}))
    assert json.loads(line) == {
        "time": "2026-07-01T10:00:00.250Z",
        "level": "warning",
        "event": "happened",
        "message": "it is so",
        "name": "ann b",
        "count": 3,
    }


@pytest.mark.parametrize("lines", [TextLines(), JsonLines()])
def test_untrusted_text_stays_on_its_line_and_hides_nothing(lines: logging.Formatter) -> None:
    line = lines.format(record(HOSTILE, fields={"path": HOSTILE}))
    assert line.isprintable()
    if isinstance(lines, JsonLines):
        assert json.loads(line)["path"] == HOSTILE


@pytest.mark.parametrize("lines", [TextLines(), JsonLines()])
def test_a_traceback_is_logged(lines: logging.Formatter) -> None:
    failed = record("failed")
    with pytest.raises(ValueError, match="forged") as caught:
        raise ValueError(HOSTILE)
    failed.exc_info = (caught.type, caught.value, caught.tb)
    line = lines.format(failed)
    assert "Traceback" in line
    assert "\x1b" not in line
    assert len(line.splitlines()) == 1 or isinstance(lines, TextLines)


def test_the_root_logger_is_left_alone() -> None:
    root, ours = logging.getLogger(), [logging.getLogger(name) for name in OURS]
    before = root.handlers[:], root.level, [(one.handlers, one.propagate, one.level) for one in ours]
    try:
        log_to_stderr("json")
        assert (root.handlers, root.level) == before[:2]
        assert all(isinstance(one.handlers[0].formatter, JsonLines) for one in ours)
    finally:
        for one, (handlers, propagate, level) in zip(ours, before[2], strict=True):
            one.handlers, one.propagate = handlers, propagate
            one.setLevel(level)
