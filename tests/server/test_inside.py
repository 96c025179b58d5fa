"""The parts of a server, one by one and without a socket: store, authentication, rate limits, feed, sweeps."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

from octostore.core.commands import AnyCommand, ClaimJob, CreateToken, Probe, Recover, RevokeToken, RotateToken
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.events import Event
from octostore.core.limits import RECOVER_LIMIT
from octostore.core.permit import TokenOver
from octostore.core.questions import GetFigures, GetJob, ListEvents
from octostore.server import auth, logins, principals, rate_limiter, token_lookups
from octostore.server.addresses import Proxies
from octostore.server.auth import Auth
from octostore.server.calls import Call, wait_and_respond
from octostore.server.feed import SCAN_LIMIT, Feed, encode_frame
from octostore.server.http import ClientDisconnected, Request, RequestHeaders
from octostore.server.logins import Logins
from octostore.server.metrics import Metrics
from octostore.server.rate_limiter import RateLimiter
from octostore.server.refusals import Refusal
from octostore.server.routes import ROUTES
from octostore.server.routes.batches import batch
from octostore.server.routes.page import page_routes
from octostore.server.services import Services
from octostore.server.settings import Settings
from octostore.server.store import ServedStore
from octostore.server.streams import CHUNK_BYTES
from octostore.stores.store import LocalStore
from octostore.stores.writer import MAX_BATCH
from octostore.wire.bodies import BatchBody, ClaimBody
from octostore.wire.token_files import write_token_file
from octostore.wire.tokens import new_token, token_digest
from tests.support.processes import PATIENCE_SECONDS
from tests.support.waiting_room import StallingBackend, until
from tests.support.world import ManualClock


def on_store(test: Callable[[ServedStore, StallingBackend], Awaitable[None]]) -> None:
    async def run() -> None:
        backend = StallingBackend()
        store = ServedStore(LocalStore(lambda: backend, clock=ManualClock()))
        await test(store, backend)
        await store.close()

    asyncio.run(run())


# The store


def test_a_bug_in_one_command_does_not_affect_others_in_its_batch() -> None:
    async def test(store: ServedStore, _backend: StallingBackend) -> None:
        commands: list[Any] = [ClaimJob(job_id="a", owner="ann"), object(), ClaimJob(job_id="b", owner="ann")]
        replies = [store.submit([command]) for command in commands]
        first, bug, second = await asyncio.wait_for(asyncio.gather(*replies, return_exceptions=True), PATIENCE_SECONDS)
        assert isinstance(bug, Exception)
        assert not isinstance(bug, OctoStoreError)
        assert [reply[0].status for reply in (first, second)] == ["claimed", "claimed"]  # type: ignore[index]

    on_store(test)


def test_a_bug_in_a_single_command_is_raised() -> None:
    async def test(store: ServedStore, _backend: StallingBackend) -> None:
        with pytest.raises(Exception, match="object"):
            await asyncio.wait_for(store.submit([object()]), PATIENCE_SECONDS)  # type: ignore[list-item]

    on_store(test)


def test_each_caller_gets_its_own_exception() -> None:
    async def test(store: ServedStore, backend: StallingBackend) -> None:
        backend.fault = Unreachable("no disk", reason="io")
        futures = [store.submit([Probe()]) for _ in range(3)]
        errors = await asyncio.gather(*futures, return_exceptions=True)
        assert [getattr(error, "reason", None) for error in errors] == ["io"] * 3
        assert len({id(error) for error in errors}) == 3
        backend.fault = None

    on_store(test)


def test_more_commands_than_a_batch_in_one_turn_all_get_replies() -> None:
    async def test(store: ServedStore, _backend: StallingBackend) -> None:
        number = 2 * MAX_BATCH + 1
        futures = [store.submit([ClaimJob(job_id=f"job-{n}", owner="ann")]) for n in range(number)]
        replies = await asyncio.wait_for(asyncio.gather(*futures), PATIENCE_SECONDS)
        assert [reply[0].job_id for reply in replies] == [f"job-{n}" for n in range(number)]

    on_store(test)


def test_closing_finishes_submitted_commands_and_ends_the_store() -> None:
    async def run() -> None:
        store = ServedStore(LocalStore(StallingBackend))
        reply = store.submit([ClaimJob(job_id="job", owner="ann")])
        await asyncio.sleep(0)
        await store.close()
        assert (await reply)[0].status == "claimed"
        with pytest.raises(Unreachable):
            store.local.submit([Probe()])
        with pytest.raises(Unreachable):
            await store.submit([Probe()])

    asyncio.run(run())


# Authentication


def request_with(token: str) -> Request:
    return Request(
        Mock(peer_address="here", connections=Mock(proxies=Proxies())),
        "GET",
        "/",
        b"",
        RequestHeaders({b"authorization": f"Bearer {token}".encode()}),
    )


async def create(store: ServedStore, token_id: str, **terms: Any) -> str:
    token = new_token()
    command = CreateToken(token_id=token_id, name=token_id, digest=token_digest(token), scopes=("read",), **terms)
    await store.execute(command)
    return token


def with_auth(test: Callable[[Auth, ServedStore], Awaitable[None]]) -> None:
    async def run(store: ServedStore, _backend: StallingBackend) -> None:
        await test(Auth(store, {}, Logins()), store)

    on_store(run)


async def is_admitted(authenticator: Auth, token: str) -> bool:
    try:
        await authenticator.principal(request_with(token))
    except Refusal:
        return False
    return True


def test_an_admitted_principal_ends_when_its_token_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(authenticator: Auth, store: ServedStore) -> None:
        now = store.local.ask(GetFigures()).at.timestamp()
        clock = SimpleNamespace(time=lambda: now, monotonic=time.monotonic)
        monkeypatch.setattr(principals, "time", clock)
        request = request_with(await create(store, "brief", expires_in=60))
        principal = await authenticator.principal(request)
        assert await authenticator.is_current(request, principal)
        clock.time = lambda: now + 59
        assert await authenticator.is_current(request, principal)
        clock.time = lambda: now + 60
        assert not await authenticator.is_current(request, principal), "although no token was changed"

    with_auth(test)


def test_a_login_ends_after_a_week_and_its_link_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(authenticator: Auth, store: ServedStore) -> None:
        now = float(int(time.time()))
        clock = SimpleNamespace(time=lambda: now, monotonic=lambda: now)
        monkeypatch.setattr(principals, "time", clock)
        monkeypatch.setattr(logins, "time", clock)
        authenticator._logins.start("5f1c0a6e8b3d", b"key")
        digest = token_digest(await create(store, "page"))
        codes = [authenticator._logins.new_code(digest) for _ in range(2)]
        cookie, _, _ = authenticator._logins.cookie(digest, None, is_secure=False).partition(b";")
        request = request_with("")
        request.headers[b"cookie"] = cookie
        request.route = page_routes(ROUTES)[0]

        principal = await authenticator.principal(request)
        clock.time = clock.monotonic = lambda: now + 59
        assert authenticator._logins.redeem(codes[0]) == digest
        clock.time = clock.monotonic = lambda: now + 60
        assert authenticator._logins.redeem(codes[1]) is None
        clock.time = lambda: now + 7 * 86_400 - 1
        assert await authenticator.is_current(request, principal)
        clock.time = lambda: now + 7 * 86_400
        assert not await authenticator.is_current(request, principal), "although the token is still valid"
        with pytest.raises(Refusal):
            authenticator.cached_principal(request)

    with_auth(test)


def test_a_token_that_is_revoked_during_its_lookup_is_refused() -> None:
    async def test(authenticator: Auth, store: ServedStore) -> None:
        token = await create(store, "t")
        ask = store.ask

        async def ask_slowly(question: Any) -> Any:
            store.ask = ask  # type: ignore[method-assign]
            view = await ask(question)
            await store.execute(RevokeToken(token_id="t"))
            authenticator.forget({"t"})  # as it does on the event in the log
            return view

        store.ask = ask_slowly  # type: ignore[method-assign]
        assert not await is_admitted(authenticator, token)

    with_auth(test)


@pytest.mark.parametrize("change", [RevokeToken(token_id="t"), RotateToken(token_id="t", digest=b"d" * 32)])
def test_an_admitted_token_that_has_ended_changes_nothing(change: AnyCommand) -> None:
    async def run(store: ServedStore, backend: StallingBackend) -> None:
        authenticator = Auth(store, {}, Logins())
        principal = await authenticator.principal(request_with(await create(store, "t")))
        command = ClaimJob(job_id="job", owner="t", permit=principal.permit)
        backend.stall_after(0)
        before = store.submit([Probe()])
        await until(backend.is_stalled.is_set)
        changing, claiming = store.submit([change]), store.submit([command])  # both wait for the writer
        backend.unstall()
        await asyncio.gather(before, changing)
        (reply,) = await claiming
        assert isinstance(reply, TokenOver)
        assert len(backend.rows.log) == 2, "the token was created and changed"

    on_store(run)


def test_constant_changes_of_other_tokens_keep_no_token_out() -> None:
    async def test(authenticator: Auth, store: ServedStore) -> None:
        token, ask, lookups = await create(store, "t"), store.ask, []

        async def ask_slowly(question: Any) -> Any:
            lookups.append(question)
            view = await ask(question)
            authenticator.forget({"another"})
            return view

        store.ask = ask_slowly  # type: ignore[method-assign]
        assert await is_admitted(authenticator, token)
        assert len(lookups) == 2
        store.ask = ask  # type: ignore[method-assign]
        assert await is_admitted(authenticator, token)
        authenticator.forget({"another"})
        store.ask = ask_slowly  # type: ignore[method-assign]
        assert await is_admitted(authenticator, token)
        assert len(lookups) == 2, "it is still cached"

    with_auth(test)


def test_tokens_are_cached_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "CACHED_TOKENS", 3)

    async def test(authenticator: Auth, store: ServedStore) -> None:
        tokens = [await create(store, f"t{number}") for number in range(8)]
        looked_up = []
        ask = store.ask

        async def ask_and_note(question: Any) -> Any:
            looked_up.append(question)
            return await ask(question)

        store.ask = ask_and_note  # type: ignore[method-assign]
        for token in tokens[:3] * 3:
            assert await is_admitted(authenticator, token)
        assert len(looked_up) == 3
        for token in tokens:
            assert await is_admitted(authenticator, token)
            assert len(authenticator._cache) <= 3

    with_auth(test)


def test_valid_tokens_are_admitted_while_others_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the same address."""
    monkeypatch.setattr(auth, "FAILURES_PER_SECOND", 0.001)

    async def test(authenticator: Auth, store: ServedStore) -> None:
        good, unused = await create(store, "good"), await create(store, "unused")
        assert await is_admitted(authenticator, good)
        codes = [await refusal_for(authenticator, new_token()) for _ in range(3)]
        assert codes == ["authentication_failed", "rate_limited", "rate_limited"]
        authenticator.forget_all()
        assert await is_admitted(authenticator, good)
        assert await is_admitted(authenticator, unused), "even a token not seen before"

    with_auth(test)


async def refusal_for(authenticator: Auth, token: str) -> str:
    with pytest.raises(Refusal) as refused:
        await authenticator.principal(request_with(token))
    return refused.value.failure.code


def test_guesses_cause_one_lookup_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_lookups, "AT_ONCE", 50)

    async def test(authenticator: Auth, store: ServedStore) -> None:
        good = await create(store, "good")
        asked, in_progress, ask = [], [0], store.ask

        async def ask_and_note(question: Any) -> Any:
            asked.append(len(question.digests))
            assert in_progress == [0]
            in_progress[0] += 1
            try:
                return await ask(question)
            finally:
                in_progress[0] -= 1

        store.ask = ask_and_note  # type: ignore[method-assign]
        tokens = [*(new_token() for _ in range(119)), good]
        assert [
            await entering for entering in [asyncio.create_task(is_admitted(authenticator, t)) for t in tokens]
        ] == [
            *[False] * 119,
            True,
        ]
        assert asked == [50, 50, 20]

    with_auth(test)


def test_every_caller_learns_that_the_store_is_unreachable_and_the_next_lookup_tries_again() -> None:
    async def test(authenticator: Auth, store: ServedStore) -> None:
        good, ask = await create(store, "good"), store.ask

        async def fail(_question: Any) -> Any:
            raise Unreachable("no disk", reason="io")

        store.ask = fail  # type: ignore[method-assign,assignment]
        faults = await asyncio.gather(
            *(authenticator.principal(request_with(good)) for _ in range(3)), return_exceptions=True
        )
        assert [getattr(fault, "reason", None) for fault in faults] == ["io"] * 3
        store.ask = ask  # type: ignore[method-assign]
        assert await is_admitted(authenticator, good)

    with_auth(test)


# Rate limits


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(rate_limiter, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_a_bucket_holds_two_seconds_of_requests_and_fills_steadily(seconds: SimpleNamespace) -> None:
    rates = RateLimiter(10)
    assert [rates.take("ann") for _ in range(20)] == [0] * 20
    assert rates.take("ann") == 100
    seconds.now += 0.1
    assert (rates.take("ann"), rates.take("ann")) == (0, 100)
    assert rates.take("bob") == 0, "each principal has its own bucket"
    seconds.now += 3_600
    assert sum(rates.take("ann") == 0 for _ in range(100)) == 20, "it does not overflow"


@pytest.mark.parametrize("count", [15, 20, 1_000])
def test_a_batch_that_waits_as_long_as_asked_is_admitted(seconds: SimpleNamespace, count: int) -> None:
    rates = RateLimiter(10)

    def batch() -> int:
        return rates.take("ann") or rates.take("ann", count, taken=1)

    assert batch() == 0
    pauses_ms = []
    while pause_ms := batch():
        pauses_ms.append(pause_ms)
        seconds.now += pause_ms / 1_000
    assert len(pauses_ms) <= 2, "one for the request, one for the rest"
    assert sum(pauses_ms) >= 1_000


def test_idle_buckets_are_dropped(seconds: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limiter, "MAX_BUCKETS", 5)
    rates = RateLimiter(1)
    for number in range(5):
        rates.take(f"address-{number}")
    seconds.now += 1.5
    assert (rates.take("busy"), rates.take("busy"), rates.take("busy") > 0) == (0, 0, True)
    assert set(rates._buckets) == {"busy"}
    rates = RateLimiter(1)
    for number in range(8):
        rates.take(f"address-{number}")
        rates.take(f"address-{number}")
    assert rates.take("address-0") > 0, "buckets in use are kept"


# The feed


def test_readers_wake_regularly_even_without_events() -> None:
    async def test(store: ServedStore, _backend: StallingBackend) -> None:
        feed = Feed(store, lambda _entry: None, tick_seconds=0.01)
        feed.start()
        await asyncio.wait_for(feed.next_change(), PATIENCE_SECONDS)
        feed.stop()

    on_store(test)


def test_a_reader_far_behind_gets_pages_from_the_feed_and_older_events_from_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = SCAN_LIMIT + 10
    monkeypatch.setattr("octostore.server.feed.KEEP_EVENTS", kept)

    async def test(store: ServedStore, _backend: StallingBackend) -> None:
        seen: list[int] = []
        feed = Feed(store, lambda entries: seen.extend(entry.seq for entry in entries), tick_seconds=3_600)
        feed.start()
        number = kept + 5
        await store.submit([ClaimJob(job_id=f"job-{n}", owner="ann") for n in range(number)])
        await until(lambda: feed.last_seq == number)
        assert seen == list(range(1, number + 1))
        assert feed.after(number) == []
        assert feed.after(4) is None, "no longer kept in memory"
        page = feed.after(5)
        assert page is not None
        assert [line.entry.seq for line in page] == list(range(6, 6 + SCAN_LIMIT))
        rest = feed.after(page[-1].entry.seq)
        assert rest is not None
        assert [line.entry.seq for line in rest] == list(range(6 + SCAN_LIMIT, number + 1))
        feed.stop()

    on_store(test)


def test_readers_that_catch_up_take_turns() -> None:
    async def test(store: ServedStore, _backend: StallingBackend) -> None:
        feed = Feed(store, lambda _entries: None, tick_seconds=3_600)
        feed.start()
        number = 10 * SCAN_LIMIT
        await store.submit([ClaimJob(job_id=f"job-{n}", owner="ann") for n in range(number)])
        await until(lambda: feed.last_seq == number)
        order: list[str] = []

        async def catch_up(name: str) -> int:
            question, parts = ListEvents(), 0
            while question.after < number:
                part = await feed.part(question)
                question, parts = msgspec.structs.replace(question, after=part.after), parts + 1
                order.append(name)
            return parts

        parts, _ = await asyncio.gather(catch_up("one"), catch_up("two"))
        assert order[: 2 * parts - 2] == ["one", "two"] * (parts - 1)
        feed.stop()

    on_store(test)


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_part_of_a_stream_is_bounded_and_not_encoded_on_the_loop(
    is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding_threads: set[int] = set()

    def encode_and_note(event: Event) -> bytes:
        encoding_threads.add(threading.get_ident())
        return encode_frame(event)

    monkeypatch.setattr("octostore.server.feed.encode_frame", encode_and_note)

    async def test(store: ServedStore, _backend: StallingBackend) -> None:
        if not is_kept:
            monkeypatch.setattr("octostore.server.feed.KEEP_BYTES", 10_000)
        feed = Feed(store, lambda _entries: None, tick_seconds=3_600)
        feed.start()
        metadata = b'"' + b"x" * 1_000 + b'"'
        await store.submit([ClaimJob(job_id=f"job-{n}", owner="ann", metadata=metadata) for n in range(SCAN_LIMIT)])
        await until(lambda: feed.last_seq == SCAN_LIMIT)
        assert (feed.after(0) is not None) == is_kept
        question, seqs = ListEvents(), list[int]()
        while question.after < SCAN_LIMIT:
            part = await feed.part(question)
            assert 0 < len(part.content) <= CHUNK_BYTES
            seqs += [int(line[4:]) for line in part.content.splitlines() if line.startswith(b"id: ")]
            question = msgspec.structs.replace(question, after=part.after)
        assert seqs == list(range(1, SCAN_LIMIT + 1))
        assert encoding_threads
        assert threading.get_ident() not in encoding_threads, "it would block the loop"
        feed.stop()

    on_store(test)


def test_the_feed_never_serves_events_across_a_gap() -> None:
    async def test(store: ServedStore, _backend: StallingBackend) -> None:
        feed = Feed(store, lambda _entry: None, tick_seconds=3_600)
        feed.start()
        await store.submit([ClaimJob(job_id=f"job-{n}", owner="ann") for n in range(3)])
        await until(lambda: feed.last_seq == 3)
        line = feed.after(2)
        assert line is not None
        feed._on_commit([msgspec.structs.replace(line[0].entry, seq=5)])
        await until(lambda: feed.last_seq == 5)
        assert feed.after(2) is None
        feed.stop()

    on_store(test)


# The services


async def start_services(backend: StallingBackend, clock: ManualClock, folder: Path, **settings: Any) -> Services:
    tokens = folder / "tokens"
    write_token_file(tokens, f"admin read,claim,admin {new_token()}")
    services = Services(
        Settings(tokens_file=tokens, **settings), LocalStore(lambda: backend, clock=clock), Metrics(), folder
    )
    await services.start()
    return services


def test_an_unreachable_store_and_its_return_are_logged_once_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def events() -> list[tuple[str, Any]]:
        return [(record.event, record.fields) for record in caplog.records if hasattr(record, "event")]  # type: ignore[attr-defined]

    async def run() -> None:
        backend = StallingBackend()
        services = await start_services(backend, ManualClock(), tmp_path, sweep_seconds=0.001)
        for reason in ("io", "busy"):
            backend.fault = Unreachable("no disk", reason=reason)
            await until(lambda: len(events()) % 2 == 1)
            await asyncio.sleep(0.02)  # several sweeps fail
            backend.fault = None
            await until(lambda: len(events()) % 2 == 0)
        await services.close()

    asyncio.run(run())
    assert [event for event, _ in events()] == ["store_lost", "store_back"] * 2
    assert [fields["reason"] for event, fields in events() if event == "store_lost"] == ["io", "busy"]


def test_sweeps_record_every_expiry_and_survive_faults(tmp_path: Path) -> None:
    async def run() -> None:
        backend, clock = StallingBackend(), ManualClock()
        services = await start_services(backend, clock, tmp_path, sweep_seconds=0.01)
        number = RECOVER_LIMIT + 500
        await services.store.submit([ClaimJob(job_id=f"job-{n}", owner="dead", ttl=10) for n in range(number)])
        backend.fault = Unreachable("no disk", reason="io")
        with pytest.raises(Unreachable):
            await services.store.execute(Recover())
        await asyncio.sleep(0.03)
        clock.advance(10)
        backend.fault = None
        await until(lambda: backend.rows.seq == 2 * number)
        await services.close()

    asyncio.run(run())


def test_figures_are_cached_for_all_callers(tmp_path: Path) -> None:
    async def run() -> None:
        services = await start_services(StallingBackend(), ManualClock(), tmp_path, sweep_seconds=3_600)
        await services.store.execute(ClaimJob(job_id="a", owner="ann"))
        services.figures.seconds = 3_600
        figures = await asyncio.gather(*(services.figures() for _ in range(5)))
        await services.store.execute(ClaimJob(job_id="b", owner="ann"))
        assert [one.claimed for one in [*figures, await services.figures()]] == [1] * 6
        services.figures.seconds = -1
        assert (await services.figures()).claimed == 2
        await services.close()

    asyncio.run(run())


def test_a_batch_whose_client_leaves_before_the_response_is_undone(tmp_path: Path) -> None:
    async def run() -> None:
        services = await start_services(StallingBackend(), ManualClock(), tmp_path, sweep_seconds=3_600)
        services.routes = {route.operation: route for route in ROUTES}
        request = request_with(await create(services.store, "leaver"))
        cast("Mock", request._connection).is_closing.side_effect = chain([False, False], repeat(True))
        commands = [{"command": "claim_job", "job_id": f"job-{number}"} for number in range(4)]
        principal = msgspec.structs.replace(await services.auth.principal(request), scopes=frozenset(["claim"]))
        call = Call(services.routes["batch"], {}, request, principal, services, body=BatchBody(commands=commands))
        with pytest.raises(ClientDisconnected):
            await batch(call)
        await until(lambda: services.store.local.ask(GetFigures()).claimed == 0)
        await services.close()

    asyncio.run(run())


def test_a_claim_whose_token_is_revoked_before_the_response_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner could not send heartbeats with a revoked token."""

    async def run() -> None:
        services = await start_services(StallingBackend(), ManualClock(), tmp_path, sweep_seconds=3_600)
        request = request_with(await create(services.store, "leaver"))
        cast("Mock", request._connection).is_closing.return_value = False
        principal = await services.auth.principal(request)
        claim = services.waiting.claim

        async def claim_and_revoke(*args: Any) -> Any:
            reply = await claim(*args)
            await services.store.execute(RevokeToken(token_id="leaver"))
            await until(lambda: "leaver" not in services.auth._digests)
            return reply

        monkeypatch.setattr(services.waiting, "claim", claim_and_revoke)
        route = next(route for route in ROUTES if route.operation == "claim_job")
        call = Call(route, {"job_id": "job"}, request, principal, services, body=ClaimBody(owner="ann"))
        with pytest.raises(Refusal):
            await wait_and_respond(call, 0)
        await until(lambda: services.store.local.ask(GetJob(job_id="job")).status == "free")
        types = [event.type for event in services.store.local.ask(ListEvents(job_id="job")).events]
        assert types == ["claimed", "undone"]
        await services.close()

    asyncio.run(run())
