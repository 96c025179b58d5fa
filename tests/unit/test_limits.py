"""Everything has a limit. Exceeding one names the field, the limit and the size, and changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core import commands as c
from octostore.core import limits, names
from octostore.core import questions as q
from octostore.core.errors import InvalidInput
from octostore.core.names import check_job_id

LEASE = {"job_id": "job", "lease_id": "lease"}
CLAIM: dict[str, Any] = {"job_id": "job", "owner": "ann"}

AT_THE_LIMIT: list[tuple[str, Callable[..., Any], dict[str, Any], Any, Any]] = [
    ("metadata", c.ClaimJob, CLAIM, b"x" * 1_024, b"x" * 1_025),
    ("checkpoint", c.CheckpointJob, LEASE, b"x" * 65_536, b"x" * 65_537),
    ("payload", c.Enqueue, {"job_id": "job", "kind": "k"}, b"x" * 262_144, b"x" * 262_145),
    ("result", c.ReleaseJob, {**LEASE, "outcome": "done"}, b"x" * 65_536, b"x" * 65_537),
    ("context", c.SaveSession, {"session_id": "s", "lease_id": "l"}, b"x" * 262_144, b"x" * 262_145),
    ("ttl", c.ClaimJob, CLAIM, 1, 0.999),
    ("ttl", c.ClaimJob, CLAIM, 86_400, 86_400.001),
    ("ttl", c.HeartbeatJob, LEASE, 86_400, 86_401),
    ("ttl", c.OpenSession, {"session_id": "s", "agent": "a"}, 1, 0),
    ("lock_delay", c.ClaimJob, CLAIM, 30, 30.5),
    ("lock_delay", c.ClaimJob, CLAIM, 0, -1),
    ("owner", c.ClaimJob, {"job_id": "job"}, "é" * 128, "é" * 128 + "x"),
    ("request_id", c.ClaimJob, CLAIM, "r" * 128, "r" * 129),
    ("note", c.HeartbeatJob, LEASE, "n" * 1_024, "n" * 1_025),
    ("percent", c.HeartbeatJob, LEASE, 100, 100.1),
    ("error", c.ReleaseJob, {**LEASE, "outcome": "failed"}, "e" * 2_048, "e" * 2_049),
    ("priority", c.Enqueue, {"job_id": "job", "kind": "k"}, -1_000, -1_001),
    ("max_attempts", c.Enqueue, {"job_id": "job", "kind": "k"}, 1, 0),
    ("priority", c.Enqueue, {"job_id": "job", "kind": "k"}, 1_000, 1_001),
    ("max_attempts", c.Enqueue, {"job_id": "job", "kind": "k"}, 1_000, 1_001),
    ("run_at", c.Enqueue, {"job_id": "job", "kind": "k"}, 253_402_300_799_999, 253_402_300_800_000),
    ("retry_after", c.ReleaseJob, {**LEASE, "outcome": "deferred"}, 30 * 86_400, 30 * 86_400 + 1),
    ("lease_id", c.HeartbeatJob, {"job_id": "job"}, "l" * 128, "l" * 129),
    ("lease_id", c.KeepSessionAlive, {"session_id": "s"}, "l" * 128, "l" * 129),
    ("session_id", c.OpenSession, {"agent": "a"}, "s" * 128, "s" * 129),
    ("agent", c.OpenSession, {"session_id": "s"}, "a" * 256, "a" * 257),
    ("to_agent", c.HandOverSession, {"session_id": "s", "lease_id": "l"}, "a" * 256, "a" * 257),
    ("note", c.HandOverSession, {"session_id": "s", "lease_id": "l", "to_agent": "b"}, "n" * 1_024, "n" * 1_025),
    ("note", c.ReleaseJob, LEASE, "n" * 1_024, "n" * 1_025),
    ("reason", c.CancelJob, {"job_id": "job"}, "r" * 256, "r" * 257),
    ("max_claimed", c.SetQueue, {"queue": "q"}, 1, 0),
    ("max_claimed", c.SetQueue, {"queue": "q"}, 100_000, 100_001),
    ("limit", q.ListJobs, {}, 1_000, 1_001),
    ("limit", q.ListSessions, {}, 1_000, 1_001),
    ("after", q.ListEvents, {}, 0, -1),
]


@pytest.mark.parametrize(("field", "command", "terms", "allowed", "refused"), AT_THE_LIMIT)
def test_a_value_at_the_limit_passes_and_one_beyond_is_refused(
    field: str, command: Callable[..., Any], terms: dict[str, Any], allowed: Any, refused: Any
) -> None:
    parameter = "data" if field == "checkpoint" else field
    command(**{**terms, parameter: allowed})
    with pytest.raises(InvalidInput) as caught:
        command(**{**terms, parameter: refused})
    size = (
        len(refused.encode()) if isinstance(refused, str) else len(refused) if isinstance(refused, bytes) else refused
    )
    assert (caught.value.field, caught.value.size) == (field, size)
    assert caught.value.limit is not None
    assert field in str(caught.value)


@pytest.mark.parametrize(
    ("field", "command", "terms", "most"),
    [
        ("kinds", c.ClaimNext, {"owner": "ann"}, 100),
        ("kinds", c.ClaimTask, {"owner": "ann", "session_id": "s", "queues": ("q",)}, 100),
        ("queues", c.ClaimTask, {"owner": "ann", "session_id": "s"}, 10),
    ],
)
def test_lists_of_names_have_a_maximum_length(
    field: str, command: Callable[..., Any], terms: dict[str, Any], most: int
) -> None:
    names = tuple(f"name-{number}" for number in range(most + 1))
    command(**{**terms, field: names[:-1]})
    for bad in (names, ()):
        with pytest.raises(InvalidInput) as caught:
            command(**{**terms, field: bad})
        assert (caught.value.field, caught.value.size) == (field, len(bad))


@pytest.mark.parametrize("bad", [5.0, 5.5, "5", True, float("nan")])
def test_a_whole_number_must_be_an_int(bad: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        c.Enqueue(job_id="job", kind="k", priority=bad)
    assert caught.value.field == "priority"


@pytest.mark.parametrize("command", [c.HeartbeatJob, c.ReleaseJob])
def test_a_note_may_have_several_lines_and_no_nul(command: Callable[..., Any]) -> None:
    command(**LEASE, note="two\nlines")
    with pytest.raises(InvalidInput) as caught:
        command(**LEASE, note="nul\0")
    assert caught.value.field == "note"


def test_the_defaults_are_as_documented() -> None:
    task = c.Enqueue(job_id="job", kind="k")
    assert (task.priority, task.max_attempts, task.queue) == (5, 5, "default")
    assert (c.ClaimJob(**CLAIM).ttl, c.OpenSession(session_id="s", agent="a").ttl) == (120, 120)
    assert c.AcquireLock(**CLAIM).ttl == 60


@pytest.mark.parametrize("bad", [float("nan"), "60", True, None])
def test_a_ttl_is_a_number(bad: Any) -> None:
    with pytest.raises(InvalidInput):
        c.ClaimJob(job_id="job", owner="ann", ttl=bad)


@pytest.mark.parametrize("bad", ["", "two\nlines", "nul\0", "esc\x1b[31m", "\ud800", 7])
def test_an_owner_is_one_line_of_text(bad: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        c.ClaimJob(job_id="job", owner=bad)
    assert caught.value.field == "owner"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("two\nlines", r"control characters or line breaks, like '\\n'"),
        ("ann\u202e", r"invisible or bidirectional control characters, like U\+202E \(RIGHT-TO-LEFT OVERRIDE\)"),
        ("a\u200bnn", r"like U\+200B \(ZERO WIDTH SPACE\)"),
        ("private \ue000", r"like U\+E000$"),
    ],
)
def test_an_invisible_character_is_named(bad: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        c.ClaimJob(job_id="job", owner=bad)


GOOD_NAMES = [
    "a",
    "github-issue-1842",
    "team/service/deploy",
    "v1.2_3",
    "Überprüfung",
    "任务",
    "a" * 64,
    "...",
    "-",
    "1",
    "acme/shop#12",
    "#12",
    "user@host",
    "repo:main",
    "v1+2=3",
    "#:@+=",
]
BAD_NAMES = [
    "",
    "/",
    "a//b",
    "/a",
    "a/",
    ".",
    "..",
    "a/../b",
    "a b",
    "a%2Fb",
    "a?b",
    "a&b",
    "a*",
    "a;b",
    "a,b",
    "a~b",
    "[a]",
    "a\0b",
    "a\n",
    "a" * 65,
    "é" * 33,
    "/".join(["a" * 63] * 4) + "/b",
    "e\u0301",
    "²",
    "\ud800",
    7,
    None,
]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_good_names(name: str) -> None:
    check_job_id("job_id", name)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names(name: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_job_id("job_id", name)
    assert caught.value.field == "job_id"


def test_which_symbols_each_kind_of_name_allows() -> None:
    """As contract.md lists them. No symbol beyond ASCII is allowed."""
    codes = [*range(0x1000), *range(0x1000, 0x2_0000, 11)]
    symbols = {chr(code) for code in codes if not chr(code).isalnum()}
    for check, allowed in [
        (names.check_job_id, "-_./#:@+="),
        (names.check_lock_name, "-_./"),
        (names.check_name, "-_."),
        (names.check_prefix, "-_./#:@+="),
    ]:
        assert {symbol for symbol in symbols if verdict(check, "name", f"a{symbol}b") is None} == set(allowed)


def test_a_refusal_lists_what_is_allowed() -> None:
    with pytest.raises(
        InvalidInput, match=r"must not contain ' '; use only letters, digits, `-`, .*`#`, `:`, `@`, `[+]`, `=` and `/`$"
    ):
        names.check_job_id("job_id", "a b")
    with pytest.raises(InvalidInput, match=r"must not contain '#'; use only letters, digits, `-`, `_`, `.` and `/`$"):
        names.check_lock_name("job_id", "a#b")
    with pytest.raises(InvalidInput, match=r"must not contain '/'; use only letters, digits, `-`, `_` and `.`$"):
        names.check_name("queue", "a/b")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0, "0"), (172_800.0, "172,800"), (0.5, "0.5"), (float("nan"), "nan")]
)
def test_a_number_out_of_range_is_shown_as_it_was_written(seconds: float, shown: str) -> None:
    with pytest.raises(InvalidInput, match=f"^ttl is {shown}; it must be from 1 to 86,400 seconds$"):
        limits.check_seconds("ttl", seconds, 1_000, 86_400_000)


@pytest.mark.parametrize("kinds", [(), ("k",) * 101])
def test_a_list_of_the_wrong_size_is_refused_with_its_size(kinds: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match=f"^kinds has {len(kinds)} names; it must have 1 to 100$"):
        c.ClaimNext(owner="ann", kinds=kinds)


@pytest.mark.parametrize("symbol", "#:@+=")
def test_a_lock_name_allows_fewer_symbols(symbol: str) -> None:
    name = f"a{symbol}b"
    c.ClaimJob(job_id=name, owner="ann")
    for lock in (lambda: c.AcquireLock(job_id=name, owner="ann"), lambda: c.ReleaseLock(job_id=name, lease_id="l")):
        with pytest.raises(InvalidInput) as caught:
            lock()
        assert caught.value.field == "job_id"


@given(st.text(max_size=300))
def test_any_text_is_a_good_name_or_invalid_input(name: str) -> None:
    try:
        check_job_id("job_id", name)
    except InvalidInput:
        return
    components = name.split("/")
    assert len(name.encode()) <= 256
    assert all(component not in {"", ".", ".."} and len(component.encode()) <= 64 for component in components)


def test_a_name_of_exactly_256_bytes() -> None:
    check_job_id("job_id", "/".join(["a" * 63] * 3 + ["a" * 64]))


class OddText(str):
    """Not exactly `str`, so it gets the thorough check."""

    __slots__ = ()


class OddInteger(int):
    pass


class OddFloat(float):
    pass


def verdict(check: Callable[..., None], *args: Any, **options: Any) -> str | None:
    try:
        check(*args, **options)
    except InvalidInput as refusal:
        return f"{refusal} {refusal.field} {refusal.limit} {refusal.size}"
    return None


texts = st.text(max_size=20) | st.text(st.sampled_from("aZ0-_./ é\0\n\x7f\ud800"), max_size=20)


@given(texts, st.integers(0, 20))
def test_the_quick_check_of_a_text_agrees_with_the_thorough_one(text: str, limit: int) -> None:
    quick = verdict(limits.check_line, "owner", text, limit)
    assert quick == verdict(limits.check_line, "owner", OddText(text), limit)


@given(st.integers(-3, 12) | st.floats(-3, 12) | st.sampled_from([float("nan"), float("inf"), 10.000000000000002]))
def test_the_quick_check_of_a_number_agrees_with_the_thorough_one(number: float) -> None:
    odd = OddFloat(number) if isinstance(number, float) else OddInteger(number)
    assert verdict(limits.check_range, "ttl", number, 1, 10) == verdict(limits.check_range, "ttl", odd, 1, 10)


@given(
    texts
    | st.text(st.sampled_from("a0-_./#:@+=;?"), max_size=20)
    | st.from_regex(r"[A-Za-z0-9_.#:@+=-]{60,70}", fullmatch=True)
)
def test_the_quick_check_of_a_name_agrees_with_the_thorough_one(name: str) -> None:
    checks: list[Callable[..., None]] = [names.check_job_id, names.check_lock_name, names.check_name]
    quick = [verdict(check, "queue", name) for check in checks]
    with pytest.MonkeyPatch.context() as patch:
        for quick_check in ("_is_plain", "_is_plain_job_id"):
            patch.setattr(names, quick_check, lambda _: None)
        assert quick == [verdict(check, "queue", name) for check in checks]
