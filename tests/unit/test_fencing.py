import pickle
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.client.embedded import EmbeddedPort
from octostore.client.store import OctoStore
from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.fencing import FencedUpdate, FenceGuard, MissingRow, ParamStyle, StaleToken, build_fenced_update
from octostore.stores.memory import MemoryBackend
from octostore.stores.store import LocalStore
from tests.support.world import ManualClock

KEYS = st.sampled_from("abcdef")
TOKENS = st.integers(1, 30)
NAMES = st.from_regex(r"\w+", fullmatch=True) | st.text("aé_\"';.%:?$ -\0\n", max_size=4)
STYLES = st.sampled_from(get_args(ParamStyle))


def passes(guard: FenceGuard, key: str, token: int) -> bool:
    try:
        guard.check(key, token)
    except StaleToken:
        return False
    return True


# The guard


def test_a_lower_token_is_stale_and_the_error_has_the_highest_seen() -> None:
    guard = FenceGuard()
    guard.check("cache", 7)
    with pytest.raises(StaleToken) as refused:
        guard.check("cache", 6)
    assert (refused.value.key, refused.value.token, refused.value.current) == ("cache", 6, 7)


def test_the_owner_passes_as_often_as_it_likes() -> None:
    guard = FenceGuard()
    assert [passes(guard, "cache", token) for token in (5, 5, 6, 5, 6)] == [True, True, True, False, True]


def test_each_key_has_its_own_fence() -> None:
    guard = FenceGuard()
    guard.check("a", 9)
    guard.check("b", 1)


@given(st.lists(st.tuples(KEYS, TOKENS)))
def test_exactly_the_tokens_below_the_newest_are_refused(calls: list[tuple[str, int]]) -> None:
    guard, newest = FenceGuard(), dict.fromkeys("abcdef", 0)
    for key, token in calls:
        assert passes(guard, key, token) == (token >= newest[key])
        newest[key] = max(newest[key], token)


@given(st.integers(1, 4), st.lists(st.tuples(KEYS, TOKENS)))
def test_forgetting_keys_lets_no_stale_token_in(max_keys: int, calls: list[tuple[str, int]]) -> None:
    guard, newest = FenceGuard(max_keys), dict.fromkeys("abcdef", 0)
    for key, token in calls:
        if passes(guard, key, token):
            assert token >= newest[key]
            newest[key] = token
        assert len(guard._newest) <= max_keys
        assert not guard._doors


@given(st.integers(1, 4), st.lists(KEYS))
def test_a_new_claim_always_passes_however_much_was_forgotten(max_keys: int, keys: list[str]) -> None:
    guard = FenceGuard(max_keys)
    for token, key in enumerate(keys, 1):
        guard.check(key, token)


def test_the_key_that_was_unused_for_longest_is_forgotten() -> None:
    guard = FenceGuard(max_keys=2)
    for token in range(2, 10):
        guard.check(f"other-{token}", token)
        guard.check("long-held", 1)
    with pytest.raises(StaleToken) as refused:
        guard.check("other-3", 2)
    assert refused.value.current == 8


def test_the_token_stays_seen_when_the_write_fails() -> None:
    guard = FenceGuard()
    with pytest.raises(ZeroDivisionError), guard.entering("cache", 2):
        _ = 1 / 0
    with pytest.raises(StaleToken):
        guard.check("cache", 1)
    assert not guard._doors


def test_a_refused_writer_does_not_run_its_block() -> None:
    guard = FenceGuard()
    guard.check("cache", 2)
    with pytest.raises(StaleToken), guard.entering("cache", 1):
        pytest.fail("a stale writer was let in")


def test_a_thread_can_enter_again_while_inside() -> None:
    guard = FenceGuard()
    with guard.entering("cache", 1), guard.entering("cache", 1):
        guard.check("cache", 1)


def test_other_keys_do_not_wait() -> None:
    guard = FenceGuard()
    with guard.entering("a", 1):
        other = threading.Thread(target=guard.check, args=("b", 2))
        other.start()
        other.join(timeout=30)
        assert not other.is_alive()


def test_a_newer_claim_waits_for_the_block_of_an_older_one() -> None:
    guard, written = FenceGuard(), list[int]()

    def write_as_successor() -> None:
        with guard.entering("cache", 2):
            written.append(2)

    successor = threading.Thread(target=write_as_successor)
    with guard.entering("cache", 1):
        successor.start()
        while guard._doors["cache"].users < 2:  # until the successor waits to enter
            time.sleep(0.001)
        written.append(1)
    successor.join(timeout=30)
    assert written == [1, 2]


def test_threads_that_race_write_in_the_order_of_their_tokens() -> None:
    guard, written, start = FenceGuard(), list[int](), threading.Barrier(8)

    def write(tokens: Iterator[int]) -> None:
        start.wait(timeout=30)
        for token in tokens:
            try:
                with guard.entering("file", token):
                    written.append(token)
            except StaleToken:
                continue

    threads = [threading.Thread(target=write, args=(iter(range(1 + n, 2_001, 8)),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert written == sorted(written)
    assert written[-1] == 2_000


def pause_past_the_lease(entering: Callable[[str, int], AbstractContextManager[None]]) -> list[str]:
    """The first owner reads, then pauses; its successor adds a line; the first resumes and adds one to what it read."""
    clock, lines = ManualClock(), ["start"]
    with OctoStore(EmbeddedPort(LocalStore(MemoryBackend, clock=clock))) as store:
        first = store.claim_job("report", owner="first", ttl=10)
        read_by_first = list(lines)
        clock.advance(11)
        second = store.claim_job("report", owner="second", ttl=10)
        with entering("report", second.fencing_token or 0):
            lines = [*lines, "second"]
        with suppress(StaleToken), entering("report", first.fencing_token or 0):
            lines = [*read_by_first, "first"]
    return lines


def test_without_a_guard_the_paused_worker_undoes_its_successors_write() -> None:
    assert pause_past_the_lease(lambda _key, _token: nullcontext()) == ["start", "first"]


def test_with_a_guard_nothing_is_undone() -> None:
    assert pause_past_the_lease(FenceGuard().entering) == ["start", "second"]


def test_a_guard_without_memory_is_refused() -> None:
    with pytest.raises(InvalidInput):
        FenceGuard(max_keys=0)


BAD_TOKENS = [None, True, "7", 1.0, 0, -1, 2**63]


@pytest.mark.parametrize("token", BAD_TOKENS)
def test_a_bad_token_is_refused(token: Any) -> None:
    with pytest.raises(InvalidInput, match="token"):
        FenceGuard().check("cache", token)
    with pytest.raises(InvalidInput, match="token"):
        build(token=token)


# The statements


def build(table: str = "accounts", **changes: Any) -> FencedUpdate:
    arguments = {"key": {"id": 7}, "values": {"balance": 10}, "token": 5, "paramstyle": "qmark"}
    return build_fenced_update(table, **cast("Any", arguments | changes))


@pytest.mark.parametrize(
    ("style", "holes", "parameters"),
    [
        ("qmark", ["?"] * 4, [10, 5, 7, 5]),
        ("format", ["%s"] * 4, [10, 5, 7, 5]),
        ("numeric_dollar", ["$1", "$2", "$3", "$4"], [10, 5, 7, 5]),
        ("named", [":p1", ":p2", ":p3", ":p4"], {"p1": 10, "p2": 5, "p3": 7, "p4": 5}),
        ("pyformat", ["%(p1)s", "%(p2)s", "%(p3)s", "%(p4)s"], {"p1": 10, "p2": 5, "p3": 7, "p4": 5}),
    ],
)
def test_the_write_in_every_style(style: str, holes: list[str], parameters: object) -> None:
    a, b, c, d = holes
    write = build(paramstyle=style).write
    assert write.sql == (
        f'UPDATE "accounts" AS guarded SET "balance" = {a}, "fence" = {b} WHERE guarded."id" = {c} '
        f'AND (guarded."fence" IS NULL OR guarded."fence" <= {d}) RETURNING 1 AS written'
    )
    assert write.parameters == parameters


def test_the_look_reads_the_fence_of_the_same_row() -> None:
    look = build("bank.accounts", key={"branch": "x", "id": 7}, fence="guard").look
    assert look.sql == (
        'SELECT guarded."guard" FROM "bank"."accounts" AS guarded WHERE guarded."branch" = ? AND guarded."id" = ?'
    )
    assert look.parameters == ["x", 7]


def test_once_lets_only_higher_tokens_in() -> None:
    assert 'guarded."fence" < ?' in build(once=True).write.sql


def test_without_values_only_the_fence_is_raised() -> None:
    assert 'SET "fence" = ? WHERE' in build(values=None).write.sql
    assert build(values=None).write == build(values={}).write


@given(STYLES, st.text(), st.text(), st.integers(1, 2**63 - 1))
def test_values_never_become_text_of_the_statement(style: str, key: str, value: str, token: int) -> None:
    update = build(key={"id": key}, values={"balance": value}, token=token, paramstyle=style)
    assert update.write.sql == build(paramstyle=style).write.sql
    assert update.look.sql == build(paramstyle=style).look.sql


@given(STYLES, NAMES, NAMES, NAMES, NAMES)
def test_names_are_quoted_words_or_refused(style: str, table: str, key: str, value: str, fence: str) -> None:
    try:
        sql = build(table, key={key: 1}, values={value: 2}, fence=fence, paramstyle=style).write.sql
    except InvalidInput:
        return
    names = re.findall(r'"(\w+)"', sql)
    assert names == [*table.split("."), value, fence, key, fence, fence]
    usual = build(paramstyle=style).write.sql
    assert re.sub(r'("\w+"\.)?"\w+"', "*", sql) == re.sub(r'"\w+"', "*", usual)


BAD_NAMES = ["", "a b", 'a"b', "a;b", "a-b", "a%b", "a:b", "a?b", "a\0b", "a\n", "'a'", "é\ud800", None, 7]


@pytest.mark.parametrize("name", [*BAD_NAMES, "a.b.c", ".a", "a.", "."])
def test_a_table_with_a_strange_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInput):
        build(name)


@pytest.mark.parametrize("name", [*BAD_NAMES, "a.b"])
def test_a_column_with_a_strange_name_is_refused(name: Any) -> None:
    for change in ({"key": {name: 1}}, {"values": {name: 1}}, {"fence": name}):
        with pytest.raises(InvalidInput):
            build(**change)


@pytest.mark.parametrize(
    "change",
    [
        {"key": {}},
        {"key": {"id": None}},
        {"key": {"fence": 1}},
        {"values": {"fence": 1}},
        {"values": {"FENCE": 1}},
        {"paramstyle": "percent"},
    ],
)
def test_an_update_that_could_write_the_wrong_rows_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        build(**change)


@pytest.mark.parametrize(
    ("once", "found", "kind"),
    [
        (False, [], MissingRow),
        (False, [(6,)], StaleToken),
        (True, [(6,)], StaleToken),
        (True, [(5,)], StaleToken),
        # These rows appeared after the write.
        (False, [(5,)], MissingRow),
        (True, [(4,)], MissingRow),
        (False, [(None,)], MissingRow),
        (False, [None], MissingRow),
        # Rows of other shapes.
        (False, [{"fence": 6}], StaleToken),
        (False, [[6]], StaleToken),
        (False, [6], StaleToken),
    ],
)
def test_a_stale_token_and_a_missing_row_are_different_errors(
    once: bool, found: list[object], kind: type[OctoStoreError]
) -> None:
    assert type(build(once=once).refusal(found)) is kind


def test_a_refusal_says_everything_and_travels_between_processes() -> None:
    stale = pickle.loads(pickle.dumps(build().refusal([(6,)])))
    assert isinstance(stale, StaleToken)
    assert (stale.key, stale.token, stale.current, stale.code) == ({"id": 7}, 5, 6, "stale_token")
    assert str(stale) == "fencing token 5 is stale: 6 has been seen ({'id': 7})"
    missing = pickle.loads(pickle.dumps(build().refusal([])))
    assert isinstance(missing, MissingRow)
    assert (missing.table, missing.key, missing.code) == ("accounts", {"id": 7}, "missing_row")
    assert str(missing) == "table 'accounts' has no row {'id': 7} to write to"
    assert str(build(once=True).refusal([(5,)])) == "fencing token 5 has already been used ({'id': 7})"
