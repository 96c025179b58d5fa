"""On a terminal: colours, tables that fit, and text of others that cannot control it."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from octostore.cli import words
from octostore.cli.story import sentence
from octostore.cli.table import as_table, cells
from octostore.core.events import Event
from tests.cli.conftest import Cli
from tests.support.cli import TerminalCli, run_cli, run_on_terminal

ESCAPE = "\x1b"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = f"{ESCAPE}[31mred{ESCAPE}[0m {ESCAPE}]0;title\x07bell\x07\rback\x9b2J\u202eback"
SHOWN = r"\x1b[31mred\x1b[0m \x1b]0;title\x07bell\x07 … back\x9b2J\u202eback"


def test_colours_are_for_terminals(cli: Cli) -> None:
    cli.lease()
    coloured = run_on_terminal("owner", cli.job)
    assert f"{ESCAPE}[1mann{ESCAPE}[0m has {cli.job}" in coloured
    assert f"{ESCAPE}[32malive     {ESCAPE}[0mheartbeat" in coloured
    plain = _COLOUR.sub("", coloured)
    for done in (run_cli("owner", cli.job).out, run_on_terminal("owner", cli.job, NO_COLOR="1")):
        assert ESCAPE not in done
        assert done.splitlines()[0] == plain.splitlines()[0]
    assert ESCAPE not in run_on_terminal("owner", cli.job, TERM="dumb")
    assert ESCAPE not in run_on_terminal("owner", cli.job, "--json")


def test_labels_are_aligned_with_colours_too(cli: Cli) -> None:
    cli.lease()
    coloured = _COLOUR.sub("", run_on_terminal("owner", cli.job)).splitlines()
    plain = run_cli("owner", cli.job).out.splitlines()
    assert [line[:12] for line in coloured] == [line[:12] for line in plain]


@pytest.mark.parametrize("columns", [40, 60, 80, 132])
def test_tables_fit(cli: Cli, columns: int) -> None:
    prefix = cli.new_name("fits")
    for number, owner in enumerate(["エージェント" * 3, "an-agent-with-a-name-that-goes-on-and-on", "ann"]):
        lease = cli.lease(f"{prefix}-件名-{number}", owner=owner)
        cli.store.heartbeat_job(f"{prefix}-件名-{number}", lease, progress="ユニットテスト を走らせる " * 4)
    seen = _COLOUR.sub("", run_on_terminal("list", prefix, columns=columns)).splitlines()
    assert len(seen) == 4
    assert max(map(cells, seen)) <= columns
    assert max(map(cells, seen)) > columns - 3, "the whole width is used"
    assert_aligned(seen)


def test_tables_in_a_pipe_are_not_cut(cli: Cli) -> None:
    lease = cli.lease(owner="エージェント")
    note = "ユニットテスト を走らせる " * 20
    cli.store.heartbeat_job(cli.job, lease, progress=note)
    out = run_cli("list", cli.job).out
    assert note.strip() in out
    assert_aligned(out.splitlines())


def test_on_a_terminal_of_unknown_size_nothing_is_cut(cli: Cli) -> None:
    cli.lease(owner="a-name-that-is-longer-than-the-title")
    assert "a-name-that-is-longer-than-the-title" in run_on_terminal("list", cli.job, columns=0)


def assert_aligned(lines: list[str]) -> None:
    """Check that each row has two spaces before every column of the header."""
    header, *rows = lines
    starts = [match.start(1) for match in re.finditer(r"(?:^|  )(\S)", header)]
    for row in rows:
        at = _by_cell(row)
        for start in starts[1:]:
            if start < len(at):
                assert at[start - 2 : start] == ["", ""] or at[start - 2 : start] == [" ", " "], (header, row)


def _by_cell(row: str) -> list[str]:
    """The letter in each cell of a line."""
    found: list[str] = []
    for letter in row:
        found += [letter] * cells(letter)
    return found


def test_widths() -> None:
    assert cells("abc") == 3
    assert cells("件名") == 4
    assert cells("e\u0301") == 1
    assert cells("\u2764\ufe0f") == 1  # a heart, and the selector that makes it coloured
    assert as_table(("A", "B"), [("件名", "x"), ("a", "yy")]) == ["A     B", "件名  x", "a     yy"]
    assert as_table(("NAME", "B"), [("件名件名", "x")], width=9) == ["NAME    B", "件名…   x"]
    whole = as_table(("JOB", "NOTE"), [("acme/shop#12", "a long story of what went wrong")], width=24)
    assert whole == ["JOB           NOTE", "acme/shop#12  a long st…"]
    assert as_table(("JOB", "NOTE"), [("acme/shop#12", "x")], width=8)[1].startswith("acme/shop#12")
    assert max(map(cells, as_table(["COLUMN"] * 9, [["value"] * 9], width=20))) == 20


def test_a_watched_list_is_redrawn_in_place(cli: Cli) -> None:
    prefix = cli.new_name("paint")
    with TerminalCli("list", prefix, "--watch", "--interval", "0.1", lines=10) as watching:
        watching.until(f"no claimed jobs that begin with {prefix}")
        cli.lease(f"{prefix}-1")
        watching.until(f"{prefix}-1  ann")
        for number in range(2, 30):
            cli.lease(f"{prefix}-{number:02}")
        watching.until("more lines")
        assert watching.interrupt() == 130
        frames = watching.seen.split(f"{ESCAPE}[H")
    assert len(frames) > 3
    assert max(frame.count("\n") for frame in frames[1:]) <= 9, "nothing scrolls"
    assert f"{ESCAPE}[J" in frames[1], "the rest of the screen is cleared"


def test_a_watched_list_without_a_terminal_is_not_redrawn(cli: Cli) -> None:
    with cli.start("list", cli.job, "--watch", "--interval", "0.1") as watching:
        assert ESCAPE not in watching.line()


def test_text_of_others_cannot_control_the_terminal(cli: Cli) -> None:
    queue = cli.new_name("queue")
    cli.store.enqueue("import", {"payload": HOSTILE}, queue=queue, job_id=cli.job, max_attempts=1)
    lease = cli.lease(metadata={"x": HOSTILE})
    cli.store.heartbeat_job(cli.job, lease, progress=HOSTILE)
    lines = [["owner", cli.job], ["list", cli.job], ["claim", cli.job]]
    shown = [cli.call(*line).out for line in lines]
    cli.store.checkpoint_job(cli.job, lease, HOSTILE)
    cli.store.release_job(cli.job, lease, "failed", error=f"first\n{HOSTILE}\nlast {HOSTILE}", note=HOSTILE)
    lines = [["owner", cli.job], ["list", cli.job, "--status", "all"], ["dead", cli.job], ["claim", cli.job]]
    lines += [["dead", cli.job, "--story"]]
    lines += [["events", "--job", cli.job], ["requeue", cli.job], ["claim", cli.job]]
    shown += [cli.call(*line).out for line in lines]
    assert [text for text in shown if not text.replace("\n", "").isprintable()] == []
    assert f"doing     {SHOWN} (" in shown[0]


def test_text_in_sessions_cannot_control_the_terminal(cli: Cli) -> None:
    name = cli.new_name("session")
    session = cli.store.open_session("ann", session_id=name)
    session.save({"x": HOSTILE})
    session.hand_over("bob", HOSTILE)
    lines = [["sessions"], ["sessions", name], ["events", "--session", name], ["health"]]
    shown = [cli.call(*line).out for line in lines]
    assert [text for text in shown if not text.replace("\n", "").isprintable()] == []
    assert f"  note      {SHOWN}\n" in shown[1]


def test_sentences_about_events_cannot_control_the_terminal() -> None:
    data = {"owner": "ann", "heartbeat_at": datetime.now(UTC), "ttl_ms": 1_000, "note": HOSTILE, "status": "free"}
    for kind in ("expired", "released", "failed"):
        at = datetime.now(UTC)
        event = Event(seq=1, at=at, type=kind, actor="local", job_id="J", queue=None, session_id=None, data=data)
        assert sentence(event).isprintable()


def test_a_moment_that_is_hardly_ahead_is_now() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert [words.wait_until(now + timedelta(seconds=ahead), now) for ahead in (-5, 0, 0.001, 0.999, 1, 90)] == [
        *[None] * 4,
        "1s",
        "1m 30s",
    ]


def test_words() -> None:
    assert words.one_line("one") == "one"
    assert words.one_line("one\n\n  two\n") == "one … two"
    assert words.one_line("one\ntwo\nthree") == "one … three"
    assert words.one_line("a\tb  \n") == "a b"
    assert words.one_line(HOSTILE) == SHOWN
    ours = "exit code 69\noctostore: no store\noctostore:   store /a.db (from --url)\noctostore:   next  try again\n"
    assert words.one_line(ours) == "exit code 69 … octostore: no store"
    assert words.as_json({"ä": "\x9b\u202e\U000e0001"}) == '{"ä": "\\u009b\\u202e\\udb40\\udc01"}'
    assert [words.duration(seconds) for seconds in (0, 0.25, 9.5, 59, 60, 3_725, 90_061)] == [
        "0s",
        "0.2s",
        "9.5s",
        "59s",
        "1m",
        "1h 2m",
        "1d 1h",
    ]


def test_help_fits_a_narrow_terminal() -> None:
    for command in ("claim", "release", "serve", "token"):
        seen = run_on_terminal(command, "--help", columns=80).partition("examples:")[0]
        assert max(map(len, seen.splitlines())) <= 80
        assert [line for line in seen.splitlines() if line.endswith("(default:")] == []


def test_text_that_the_terminal_cannot_show(clean: Path) -> None:
    del clean
    claim = run_cli("claim", "件名", PYTHONIOENCODING="ascii")
    assert claim.code == 0
    assert "claimed \\u4ef6\\u540d until" in claim.out
    done = run_cli("owner", "件名", "--json", PYTHONIOENCODING="ascii")
    assert (done.code, done.json["job_id"]) == (0, "件名")
    assert run_cli("--help", PYTHONIOENCODING="ascii").code == 0
