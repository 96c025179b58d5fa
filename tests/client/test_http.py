"""The HTTP client when networks, servers and callers fail or misbehave. Access is in `test_http_access.py`."""

import asyncio
import http.server
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

import octostore
from octostore import Unreachable
from octostore.client import heartbeater
from octostore.client.http import retry_budget
from octostore.client.http.calls import HttpCall
from octostore.client.http.retry_budget import RetryBudget
from octostore.stores.base import TryAgain
from octostore.wire.tokens import new_token
from tests.client.conftest import Connect, Shorten
from tests.client.test_cancelled import only_once
from tests.support.async_as_sync import Loop, StoreAsSync
from tests.support.processes import PATIENCE_SECONDS, Worker, until
from tests.support.proxy import (
    Act,
    Exchange,
    Proxy,
    Seen,
    cut_the_response,
    lose_the_response,
    pass_on,
    pass_on_after,
    pass_on_and_close,
    pass_on_for,
    reset,
    respond,
    say_nothing,
    say_nothing_for,
    talk_nonsense,
)
from tests.support.server import ServerProcess
from tests.support.soundness import assert_sound

pytestmark = pytest.mark.usefixtures("nothing_set")

BUSY = {"error": "the store is busy", "code": "unreachable", "reason": "busy"}
TOO_FAST = {"error": "too many requests", "code": "rate_limited", "retry_after_ms": 100}
HTML = b"<html><body>Bad gateway</body></html>"


def request_ids(seen: list[Seen]) -> set[str]:
    return {request.json["request_id"] for request in seen}


def gauge(server: ServerProcess, name: str) -> float:
    lines = server.get("/metrics").body.decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def wait_for_streams(server: ServerProcess, number: int) -> None:
    until(lambda: gauge(server, "octostore_open_streams") == number)


def wait_for_waiters(server: ServerProcess, number: int) -> None:
    until(lambda: gauge(server, "octostore_waiting_claims") == number)


@pytest.fixture
def store(server: ServerProcess) -> Iterator[octostore.OctoStore]:
    """Straight to the server."""
    with octostore.connect(server.url, token=server.token) as store:
        yield store


def holder_of(store: octostore.OctoStore, job_id: str) -> str | None:
    owner = store.get_job_owner(job_id)
    return None if owner is None else owner.owner


# Unreachable servers


def refusing_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


CALLS: list[Callable[[Any], object]] = [
    lambda store: store.claim_job("job"),
    lambda store: store.claim_job("job", wait=0.1),
    lambda store: store.claim_next(),
    lambda store: store.get_job_owner("job"),
    lambda store: store.list_claimed_jobs(),
    lambda store: store.heartbeat_job("job", "lease"),
    lambda store: store.open_session(),
    lambda store: list(store.events()),
    lambda store: next(store.events(follow=True)),
]


def assert_unreachable(store: Any, reason: str) -> str:
    """Every call raises it; none returns `held`, `empty` or an empty list. Return the last message."""
    message = ""
    for call in CALLS:
        with pytest.raises(Unreachable) as caught:
            call(store)
        assert caught.value.reason == reason
        message = str(caught.value)
    return message


def test_a_port_without_a_listener(connect: Connect, shorten: Shorten) -> None:
    shorten(GIVE_UP_SECONDS=0.1, FOLLOW_GIVE_UP_SECONDS=0.1)
    token, port = new_token(), refusing_port()
    message = assert_unreachable(connect(f"http://127.0.0.1:{port}", token=token), "network")
    assert f"http://127.0.0.1:{port}" in message
    assert token not in message


def test_a_server_that_never_answers(connect: Connect, shorten: Shorten) -> None:
    shorten(RESPONSE_SECONDS=0.05, STREAM_SECONDS=0.05, GIVE_UP_SECONDS=0.05, FOLLOW_GIVE_UP_SECONDS=0.05)
    with Proxy().always(say_nothing) as proxy:
        assert_unreachable(connect(proxy.url, token=new_token()), "network")
        assert proxy.gone.wait(PATIENCE_SECONDS), "a client that gave up closes its connection"


def test_a_server_that_accepts_no_connection(shorten: Shorten) -> None:
    """A full backlog: the handshake is never completed."""
    shorten(CONNECT_SECONDS=0.2, GIVE_UP_SECONDS=0.1)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port = listener.getsockname()[1]
    filling = [socket.socket() for _ in range(3)]
    for one in filling:
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", port))
    with octostore.connect(f"http://127.0.0.1:{port}", token=new_token()) as store:
        with pytest.raises(Unreachable, match="timed out") as caught:
            store.claim_job("job")
        assert caught.value.reason == "network"
    for one in (listener, *filling):
        one.close()


def test_a_server_that_ends_in_the_middle_of_its_responses(
    connect: Connect, shorten: Shorten, proxy: Proxy, server: ServerProcess
) -> None:
    shorten(GIVE_UP_SECONDS=0.1, FOLLOW_GIVE_UP_SECONDS=0.1)
    proxy.always(cut_the_response)
    store = connect(proxy.url, token=server.token)
    for call in CALLS[:-1]:
        with pytest.raises(Unreachable) as caught:
            call(store)
        assert caught.value.reason == "network"


def test_a_truncated_refusal_is_not_a_refusal(connect: Connect, shorten: Shorten, proxy: Proxy) -> None:
    """For streams too: the server sends 401 and ends in the middle of the body."""
    shorten(GIVE_UP_SECONDS=0.1, FOLLOW_GIVE_UP_SECONDS=0.1)
    proxy.always(cut_the_response)
    store = connect(proxy.url, token=new_token())
    for call in (CALLS[0], CALLS[-1]):
        with pytest.raises(Unreachable) as caught:
            call(store)
        assert caught.value.reason == "network"


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_what: object) -> None: ...


def test_a_plain_web_server_is_not_an_octostore_server(connect: Connect, tmp_path: Path) -> None:
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=tmp_path))
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    try:
        message = assert_unreachable(connect(f"http://127.0.0.1:{web.server_port}", token=new_token()), "server")
    finally:
        web.shutdown()
        thread.join()
        web.server_close()
    assert "check the URL" in message


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, HTML), (200, b""), (200, {}), (200, []), (204, b""), (302, HTML), (404, {"error": "no", "code": "nope"})],
)
def test_responses_of_other_servers_are_refused(connect: Connect, status: int, body: Any) -> None:
    with Proxy().always(respond(status, body, Location="http://127.0.0.1:1/")) as proxy:
        store = connect(proxy.url, token=new_token())
        for call in CALLS:
            with pytest.raises((Unreachable, octostore.InvalidInput)) as caught:
                call(store)
            if status != 404:
                assert isinstance(caught.value, Unreachable)
                assert caught.value.reason == "server"
        assert len(proxy.seen) == len(CALLS), "repeating the call would not help"


def test_a_server_that_returns_200_for_everything_closes_no_session(connect: Connect, server: ServerProcess) -> None:
    with Proxy(server.port) as proxy:
        session = connect(proxy.url, token=server.token).open_session("agent")
        proxy.always(respond(200, HTML))
        with pytest.raises(Unreachable):
            session.close()


def test_a_stream_of_another_server_is_refused(connect: Connect) -> None:
    with Proxy().always(respond(200, b'data: {"some": "thing"}\n\n', Content_Type="text/event-stream")) as proxy:
        with pytest.raises(Unreachable) as caught:
            next(connect(proxy.url, token=new_token()).events(follow=True))
        assert caught.value.reason == "server"


def test_a_wrong_token_is_not_allowed_rather_than_unreachable(connect: Connect, server: ServerProcess) -> None:
    token = new_token()
    store = connect(server.url, token=token)
    for call in CALLS:
        with pytest.raises(octostore.NotAllowed, match="token is not valid") as caught:
            call(store)
        assert token not in f"{caught.value!r} {caught.value}"


def test_clients_ask_for_uncompressed_responses(connect: Connect, proxy: Proxy, server: ServerProcess) -> None:
    """A proxy may compress them otherwise, and the client does not decompress."""
    store = connect(proxy.url, token=server.token)
    store.get_job("job")
    follower = store.events(follow=True)
    next(follower)
    follower.close()
    assert [seen.headers["accept-encoding"] for seen in proxy.seen] == ["identity"] * 2


# Repeated calls


@pytest.mark.parametrize(
    "failure",
    [
        reset,
        lose_the_response,
        cut_the_response,
        talk_nonsense,
        respond(503, BUSY),
        respond(503, HTML, Retry_After="0"),
        respond(429, TOO_FAST),
        respond(408, HTML),
        respond(500, {"error": "a bug", "code": "internal_error"}),
        respond(502, HTML),
    ],
    ids=["reset", "lost", "cut", "nonsense", "busy", "retry-after", "too-fast", "slow", "bug", "gateway"],
)
def test_a_claim_is_repeated_until_it_gets_a_reply(
    failure: Act, connect: Connect, proxy: Proxy, server: ServerProcess, job_id: str
) -> None:
    proxy.then(failure, failure)
    claim = connect(proxy.url, token=server.token).claim_job(job_id, "one")
    assert (claim.status, claim.owner) == ("claimed", "one")
    assert len(proxy.seen) == 3
    assert len(request_ids(proxy.seen)) == 1
    assert [event["type"] for event in server.events(job_id)] == ["claimed"]
    assert server.events(job_id)[0]["seq"] == claim.fencing_token


def test_a_repeated_call_takes_effect_once(connect: Connect, proxy: Proxy, server: ServerProcess, job_id: str) -> None:
    """The first response to every call is lost."""
    store = connect(proxy.url, token=server.token)

    def twice(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        before = len(proxy.seen)
        proxy.then(lose_the_response)
        reply = call(*args, **options)
        first, second = proxy.seen[before:]
        assert (first.method, first.path, first.body) == (second.method, second.path, second.body)
        return reply

    queue = f"{job_id}-queue"
    assert twice(store.enqueue, "letter", {"to": "ann"}, queue=queue, job_id=job_id).status == "queued"
    claim = twice(store.claim_next, queue, owner="one")
    assert (claim.job_id, claim.owner, claim.payload) == (job_id, "one", {"to": "ann"})
    assert twice(store.heartbeat_job, job_id, claim.lease_id, progress="half").job_id == job_id
    assert twice(store.checkpoint_job, job_id, claim.lease_id, {"page": 3}).job_id == job_id
    released = twice(store.release_job, job_id, claim.lease_id, "failed", error="broken")
    assert (released.status, released.fencing_token) == ("queued", claim.fencing_token)
    session = twice(store.open_session, "agent")
    twice(session.save, {"page": 4})
    assert twice(session.keepalive).session_id == session.session_id
    twice(session.close)
    made = twice(store.create_token, job_id)
    assert twice(store.revoke_token, made.token_id).revoked_at is not None
    assert twice(store.get_job, job_id).attempts == 1
    assert [event["type"] for event in server.events(job_id)] == ["enqueued", "claimed", "failed"]


def test_force_release_ends_one_claim_and_not_the_next(
    connect: Connect, proxy: Proxy, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    """If its response is lost it may have worked, and repeating it would end the next owner's claim."""
    operator = connect(proxy.url, token=server.token)
    store.claim_job(job_id, "stuck")
    with ThreadPoolExecutor(1) as pool:
        successor = pool.submit(store.claim_job, job_id, "successor", wait=PATIENCE_SECONDS)
        wait_for_waiters(server, 1)
        proxy.then(lose_the_response)
        with pytest.raises(Unreachable):
            operator.force_release(job_id)
        assert successor.result(PATIENCE_SECONDS).status == "claimed"
    assert holder_of(store, job_id) == "successor"
    assert len(proxy.seen) == 1
    # A call that surely had no effect is repeated.
    proxy.then(respond(429, TOO_FAST))
    assert operator.force_release(job_id).status == "free"
    assert len(proxy.seen) == 3


@pytest.mark.parametrize(
    ("call", "event"),
    [
        (lambda store, name: store.requeue(name), "requeued"),
        (lambda store, name: store.discard(name), "discarded"),
        (lambda store, name: store.cancel(f"{name}-claimed"), "cancelled"),
        (lambda store, name: store.cancel(f"{name}-claimed", drain=True), "stop_requested"),
        (lambda store, name: store.request_stop(f"{name}-claimed"), "stop_requested"),
        (lambda store, name: store.close_session(name), "session_closed"),
        (lambda store, name: store.hand_over(name, "bob"), "session_handed_over"),
        (lambda store, name: store.set_queue(name, paused=True), "queue_limited"),
        (lambda store, name: store.limit_queue(name, 3), "queue_limited"),
        (lambda store, name: store.batch([{"command": "cancel_job", "job_id": f"{name}-claimed"}]), "cancelled"),
    ],
    ids=[
        "requeue",
        "discard",
        "cancel",
        "drain",
        "request_stop",
        "close_session",
        "hand_over",
        "set_queue",
        "limit_queue",
        "batch",
    ],
)
def test_an_operators_call_is_not_repeated_when_it_may_have_worked(
    *,
    call: Callable[[Any, str], Any],
    event: str,
    connect: Connect,
    proxy: Proxy,
    server: ServerProcess,
    store: octostore.OctoStore,
    job_id: str,
) -> None:
    """It names no lease: repeated, it could affect the next owner or attempt, or undo what another operator did."""
    store.enqueue("letter", job_id=job_id, queue=job_id)
    store.cancel(job_id)
    store.claim_job(f"{job_id}-claimed", "ann")
    store.open_session("ann", session_id=job_id)
    before = store.claim_job(f"{job_id}-last").fencing_token or 0
    proxy.then(lose_the_response)
    with pytest.raises(Unreachable, match="may still have worked: check before you repeat it"):
        call(connect(proxy.url, token=server.token), job_id)
    assert len(proxy.seen) == 1
    assert [one.type for one in store.events(after=before)][-1] == event


def test_a_client_waits_as_long_as_the_server_asks(connect: Connect, proxy: Proxy, server: ServerProcess) -> None:
    store = connect(proxy.url, token=server.token)
    for busy in (respond(503, HTML, Retry_After="1"), respond(429, TOO_FAST | {"retry_after_ms": 300})):
        proxy.then(busy)
        store.get_job("job")
    first, second, third, fourth = (seen.at for seen in proxy.seen)
    assert second - first >= 0.99
    assert fourth - third >= 0.29


@pytest.mark.parametrize("later", ["3600", "999999999999999999999", "Wed, 21 Oct 2099 07:28:00 GMT", "-1", "soon"])
def test_a_client_gives_up_on_a_server_that_asks_for_too_much_time(
    connect: Connect, shorten: Shorten, later: str
) -> None:
    shorten(GIVE_UP_SECONDS=0.3)
    with Proxy().always(respond(503, HTML, Retry_After=later)) as proxy:
        with pytest.raises(Unreachable) as caught:
            connect(proxy.url, token=new_token()).get_job("job")
        assert caught.value.reason == "server"
        assert len(proxy.seen) == 1 or later != "3600"


def test_a_call_gives_up_in_the_end(
    connect: Connect, shorten: Shorten, proxy: Proxy, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(GIVE_UP_SECONDS=2)
    slept = only_pauses_take_time(monkeypatch)
    proxy.always(respond(503, BUSY))
    store = connect(proxy.url, token=server.token)
    with pytest.raises(Unreachable, match="the store is busy") as caught:
        store.claim_job("job")
    assert caught.value.reason == "busy"
    assert sum(slept) <= 2
    assert 3 <= len(proxy.seen) <= 20, "often, but not continuously"
    assert len(request_ids(proxy.seen)) == 1
    pauses = [later.at - earlier.at for earlier, later in zip(proxy.seen, proxy.seen[1:], strict=False)]
    assert min(pauses) >= 0.02


def test_a_call_that_may_have_worked_is_not_reported_as_late(
    connect: Connect, shorten: Shorten, proxy: Proxy, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`late` promises that nothing was done."""
    shorten(GIVE_UP_SECONDS=2)
    only_pauses_take_time(monkeypatch)
    too_late = {"error": "the call came too late", "code": "too_late", "reason": "late"}
    store = connect(proxy.url, token=server.token)
    proxy.always(respond(408, too_late))
    with pytest.raises(Unreachable) as nothing_done:
        store.claim_job("refused")
    assert nothing_done.value.reason == "late"
    proxy.then(lose_the_response)
    with pytest.raises(Unreachable) as caught:
        store.claim_job("unanswered")
    assert caught.value.reason == "network"
    proxy.always(pass_on)
    assert [store.get_job(name).status for name in ("refused", "unanswered")] == ["free", "claimed"]


def only_pauses_take_time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Make the number of attempts independent of the machine's speed. Returns the pauses."""
    after, slept, began_at = RetryBudget.pause_after, list[float](), time.monotonic() + 1_000

    def note_pause(self: RetryBudget, failed: TryAgain, call: HttpCall | None = None) -> float:
        slept.append(after(self, failed, call))
        return slept[-1]

    monkeypatch.setattr(RetryBudget, "pause_after", note_pause)
    monkeypatch.setattr(retry_budget, "time", SimpleNamespace(monotonic=lambda: began_at + sum(slept)))
    return slept


def test_a_lasting_fault_is_not_retried(connect: Connect, proxy: Proxy, server: ServerProcess) -> None:
    proxy.always(respond(503, {"error": "it is read-only", "code": "unreachable", "reason": "read_only"}))
    with pytest.raises(Unreachable, match="read-only") as caught:
        connect(proxy.url, token=server.token).claim_job("job")
    assert caught.value.reason == "read_only"
    assert len(proxy.seen) == 1


def test_a_connection_that_was_closed_while_idle_is_replaced(
    connect: Connect, proxy: Proxy, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetryBudget, "pause_after", lambda *_: pytest.fail("nothing has failed"))
    store = connect(proxy.url, token=server.token)
    for _ in range(3):
        proxy.then(pass_on_and_close)
        assert store.claim_next("nothing").status == "empty"
        time.sleep(0.05)  # for the end of the connection to arrive
    assert [seen.connection for seen in proxy.seen] == [1, 2, 3]
    assert store.claim_next("nothing").status == "empty"
    assert store.claim_next("nothing").status == "empty"
    assert [seen.connection for seen in proxy.seen[3:]] == [4, 4]


# Waiting claims


def test_a_long_wait_is_several_calls_and_ends_in_time(
    *, connect: Connect, shorten: Shorten, proxy: Proxy, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    shorten(POLL_SECONDS=0.2)
    store.claim_job(job_id, "first")
    began_at = time.monotonic()
    reply = connect(proxy.url, token=server.token).claim_job(job_id, "second", wait=1.5)
    took = time.monotonic() - began_at
    assert (reply.status, reply.owner) == ("held", "first")
    assert took >= 1.5
    assert len(request_ids(proxy.seen)) == 1
    waits = [seen.json.get("wait_seconds", 0) for seen in proxy.seen]
    assert 0 < max(waits) <= 0.2
    assert sum(waits) <= 1.5


def test_a_waiter_keeps_its_place_across_several_calls(
    connect: Connect, shorten: Shorten, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    shorten(POLL_SECONDS=0.2)
    first = store.claim_job(job_id, "first")
    patient = connect(server.url, token=server.token)
    with ThreadPoolExecutor(2) as pool:
        second = pool.submit(patient.claim_job, job_id, "second", wait=PATIENCE_SECONDS)
        wait_for_waiters(server, 1)
        third = pool.submit(store.claim_job, job_id, "third", wait=PATIENCE_SECONDS)
        time.sleep(0.5)  # some polls of both
        store.release_job(job_id, first.lease_id or "")
        won = second.result(PATIENCE_SECONDS)
        assert won.status == "claimed"
        assert not third.done()
        store.release_job(job_id, won.lease_id)
        assert third.result(PATIENCE_SECONDS).status == "claimed"


def test_repeating_a_wait_does_not_extend_it(
    connect: Connect, proxy: Proxy, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    store.claim_job(job_id, "first")
    proxy.then(say_nothing_for(0.4))
    began_at = time.monotonic()
    reply = connect(proxy.url, token=server.token).claim_job(job_id, "second", wait=0.6)
    took = time.monotonic() - began_at
    assert (reply.status, reply.owner) == ("held", "first")
    assert len(proxy.seen) == 2
    assert proxy.seen[1].json.get("wait_seconds", 0) <= 0.2
    assert took >= 0.6


def test_a_wait_survives_a_short_outage(
    connect: Connect, proxy: Proxy, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    first = store.claim_job(job_id, "first")
    proxy.then(say_nothing_for(0.2), reset, respond(502, HTML), reset)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(connect(proxy.url, token=server.token).claim_job, job_id, "second", wait=PATIENCE_SECONDS)
        wait_for_waiters(server, 1)
        store.release_job(job_id, first.lease_id or "")
        assert second.result(PATIENCE_SECONDS).status == "claimed"
    assert len(request_ids(proxy.seen)) == 1


def test_a_cancelled_wait_claims_nothing(server: ServerProcess, store: octostore.OctoStore, job_id: str) -> None:
    first = store.claim_job(job_id, "first")

    async def wait_and_give_up() -> None:
        async with await octostore.connect_async(server.url, token=server.token) as impatient:
            waits = [asyncio.create_task(impatient.claim_job(job_id, "gone", wait=60)) for _ in range(3)]
            await asyncio.to_thread(wait_for_waiters, server, 3)
            for task in waits:
                task.cancel()
            assert all(isinstance(end, BaseException) for end in await asyncio.gather(*waits, return_exceptions=True))
            await asyncio.to_thread(wait_for_waiters, server, 0)

    asyncio.run(wait_and_give_up())
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(store.claim_job, job_id, "second", wait=PATIENCE_SECONDS)
        wait_for_waiters(server, 1)
        store.release_job(job_id, first.lease_id or "")
        assert second.result(PATIENCE_SECONDS).status == "claimed"
    assert [event["data"]["owner"] for event in server.events(job_id)] == ["first", "first", "second"]


def test_an_interrupted_wait_claims_nothing(server: ServerProcess, store: octostore.OctoStore, job_id: str) -> None:
    first = store.claim_job(job_id, "first")

    def interrupt() -> None:
        wait_for_waiters(server, 1)
        os.kill(os.getpid(), signal.SIGINT)

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            store.claim_job(job_id, "gone", wait=60)
    finally:
        interrupter.join()
        signal.signal(signal.SIGINT, usual)
    wait_for_waiters(server, 0)
    store.release_job(job_id, first.lease_id or "")
    assert store.claim_job(job_id, "second").status == "claimed"
    assert [event["data"]["owner"] for event in server.events(job_id)] == ["first", "first", "second"]


def test_a_cancelled_call_closes_its_connection(proxy: Proxy, server: ServerProcess) -> None:
    proxy.always(say_nothing)

    async def call_and_give_up() -> None:
        async with await octostore.connect_async(proxy.url, token=server.token) as store:
            calls = (store.claim_job("job", wait=60), store.get_job("job"), anext(store.events(follow=True)))
            for number, call in enumerate(calls, 1):
                proxy.gone.clear()
                task = asyncio.ensure_future(call)
                await asyncio.to_thread(until, partial(proxy.has_seen, number))
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                assert await asyncio.to_thread(proxy.gone.wait, PATIENCE_SECONDS)

    asyncio.run(call_and_give_up())


@pytest.mark.parametrize("how", ["claim_job", "claim_next"])
def test_a_cancelled_claim_is_undone(
    how: str, proxy: Proxy, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    """A claim that does not wait: the server makes it before it can notice that the client is gone."""
    store.enqueue("letter", job_id=job_id, queue=job_id)
    go_on = threading.Event()
    proxy.then(pass_on_after(go_on))

    async def claim_and_give_up() -> None:
        async with await octostore.connect_async(proxy.url, token=server.token) as impatient:
            task = asyncio.create_task(getattr(impatient, how)(job_id, owner="gone"))
            await asyncio.to_thread(until, lambda: holder_of(store, job_id) == "gone")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            threading.Timer(0.1, go_on.set).start()  # while the store is being closed

    asyncio.run(claim_and_give_up())
    assert holder_of(store, job_id) is None
    assert [event["type"] for event in server.events(job_id)] == ["enqueued", "claimed", "undone"]


def test_many_cancelled_claims_are_all_undone(
    proxy: Proxy, server: ServerProcess, store: octostore.OctoStore, job_id: str, shorten: Shorten
) -> None:
    shorten(UNDO_SECONDS=PATIENCE_SECONDS)  # on a busy machine a thousand take longer than usual
    go_on = threading.Event()
    proxy.then(pass_on_after(go_on))

    async def claim_and_give_up() -> None:
        async with await octostore.connect_async(proxy.url, token=server.token) as impatient:
            task = asyncio.create_task(impatient.claim_many([f"{job_id}-{number}" for number in range(1_000)]))
            await asyncio.to_thread(until, lambda: holder_of(store, f"{job_id}-0") is not None)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()

    asyncio.run(claim_and_give_up())
    assert store.list_jobs(prefix=job_id, status="claimed").jobs == []


def test_the_claims_of_earlier_calls_are_undone(
    server: ServerProcess, store: octostore.OctoStore, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def claim_and_give_up() -> None:
        async with await octostore.connect_async(server.url, token=server.token) as impatient:
            stuck = asyncio.Event()
            execute = impatient._port.execute_all
            monkeypatch.setattr(impatient._port, "execute_all", only_once(execute, stuck))
            task = asyncio.create_task(impatient.claim_many([f"{job_id}-{number}" for number in range(1_001)]))
            await stuck.wait()
            assert holder_of(store, f"{job_id}-0") is not None
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(claim_and_give_up())
    assert store.list_jobs(prefix=job_id, status="claimed").jobs == []


def test_a_cancelled_session_is_closed(proxy: Proxy, server: ServerProcess, store: octostore.OctoStore) -> None:
    go_on = threading.Event()
    proxy.then(pass_on_after(go_on))

    async def open_and_give_up() -> None:
        async with await octostore.connect_async(proxy.url, token=server.token) as impatient:
            task = asyncio.create_task(impatient.open_session("gone", session_id="cancelled"))
            await asyncio.to_thread(until, lambda: server.get("/sessions/cancelled").status == 200)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            await asyncio.to_thread(until, lambda: store.get_session("cancelled").status == "closed")

    asyncio.run(open_and_give_up())


def test_a_cancelled_repeat_does_not_end_the_claim_it_repeats(
    proxy: Proxy, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    go_on = threading.Event()
    proxy.then(pass_on_after(go_on))
    claim = store.claim_job(job_id, request_id="r")

    async def repeat_and_give_up() -> None:
        async with await octostore.connect_async(proxy.url, token=server.token) as impatient:
            task = asyncio.create_task(impatient.claim_job(job_id, request_id="r"))
            await asyncio.to_thread(until, lambda: len(proxy.seen) == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            await impatient.get_job(job_id)

    asyncio.run(repeat_and_give_up())
    assert store.heartbeat_job(job_id, claim.lease_id or "").job_id == job_id


def test_closing_a_store_ends_its_waiting_calls(
    connect: Connect, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    store.claim_job(job_id, "first")
    closing = connect(server.url, token=server.token)
    wait_for_streams(server, 0)  # those of earlier tests
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(closing.claim_job, job_id, wait=60)
        following = pool.submit(list, closing.events(follow=True))
        wait_for_waiters(server, 1)
        wait_for_streams(server, 1)
        closing.close()
        for one in (waiting, following):
            with pytest.raises(Unreachable) as fault:
                one.result(PATIENCE_SECONDS)
            assert fault.value.reason == "closed"
    with pytest.raises(Unreachable) as fault:
        closing.get_job(job_id)
    assert fault.value.reason == "closed"


def send_head_only(exchange: Exchange) -> None:
    fields = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked"
    exchange.client.sendall(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n")
    exchange.wait_until_gone()


@pytest.mark.parametrize("call", ["follow", "ask"])
def test_a_store_that_is_closed_between_the_head_of_a_response_and_its_body(
    proxy: Proxy, server: ServerProcess, call: str
) -> None:
    async def run() -> None:
        store = await octostore.connect_async(proxy.url, token=server.token)
        port: Any = store._port
        request = port._request

        @asynccontextmanager
        async def request_and_close(*args: Any, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
            async with request(*args, **options) as response:
                await store.close()
                yield response

        port._request = request_and_close
        with pytest.raises(Unreachable) as fault:
            await (anext(store.events(follow=True)) if call == "follow" else store.health())
        assert fault.value.reason == "closed"

    proxy.then(send_head_only)
    asyncio.run(run())


def test_closing_a_store_does_not_cut_off_a_call_that_returns_soon(
    proxy: Proxy, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    go_on = threading.Event()
    proxy.then(pass_on_after(go_on))
    closing = octostore.connect(proxy.url, token=server.token)
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(closing.claim_job, job_id)
        until(lambda: holder_of(store, job_id) is not None)
        closing.close()
        go_on.set()
        assert claim.result(PATIENCE_SECONDS).status == "claimed"


# Following the log


def test_an_owner_that_follows_the_log_learns_at_once_what_others_do_to_its_claim(
    connect: Connect, server: ServerProcess, store: octostore.OctoStore, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 86_400
    monkeypatch.setattr(heartbeater, "BEAT_MAX_SECONDS", day)  # no heartbeat is due during the test
    mine = connect(server.url, token=server.token)
    with mine.hold(job_id, ttl=day) as claim:
        follower = mine.events(job_id=job_id, follow=True)
        assert next(follower).type == "claimed"
        store.request_stop(job_id, reason="going down")
        assert next(follower).type == "stop_requested"
        until(lambda: claim.is_to_stop)
        assert claim.stop_reason == "going down"
        follower.close()


def test_a_follower_resumes_where_it_was(tmp_path: Path) -> None:
    """Sync and async at once: the server is killed and started again while events keep coming."""
    loop = Loop()
    with ServerProcess(tmp_path) as server:
        port, url, token = server.port, server.url, server.token
        store = octostore.connect(url, token=token)
        other: Any = StoreAsSync(loop, loop.run(octostore.connect_async(url, token=token)))
        followers = [store.events(follow=True), other.events(follow=True)]
        seen: list[list[int]] = [[], []]

        def follow(number: int, last: int) -> None:
            while not seen[number] or seen[number][-1] < last:
                seen[number].append(next(followers[number]).seq)

        def go_on() -> None:
            for _ in range(5):
                store.enqueue("letter")
            last = server.seq
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(follow, range(2), [last] * 2))

        go_on()
        server.kill()
    for _ in range(2):
        with ServerProcess(tmp_path, port=port) as server:
            go_on()
            server.kill()
    for follower in followers:
        follower.close()
    store.close()
    other.close()
    loop.stop()
    assert seen[0] == seen[1] == list(range(1, seen[0][-1] + 1))
    assert len(seen[0]) == len(assert_sound(tmp_path / "octostore.db"))


def test_a_stream_that_is_cut_at_any_byte_has_no_gap(
    connect: Connect, proxy: Proxy, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    after = server.seq
    expected = [store.claim_job(f"{job_id}-{number}", "x" * number).fencing_token for number in range(1, 51)]
    proxy.then(*[pass_on_for(5, most) for most in (10, 900, 1_300, 1_400, 1_511, 1_623, 1_777, 1_900, 1_999)])
    follower = connect(proxy.url, token=server.token).events(after=after, follow=True)
    assert [next(follower).seq for _ in expected] == expected
    follower.close()
    assert len(proxy.seen) == 10


def test_a_follower_that_was_idle_for_long_reconnects(connect: Connect, shorten: Shorten, tmp_path: Path) -> None:
    """The time to give up counts from the disconnect, not from the last event."""
    shorten(FOLLOW_GIVE_UP_SECONDS=0.5)
    with ServerProcess(tmp_path, "--keepalive-seconds", "0.1") as server, Proxy(server.port) as proxy:
        proxy.then(pass_on_for(0.8), reset)
        follower = connect(proxy.url, token=server.token).events(after=server.seq, follow=True)
        with ThreadPoolExecutor(1) as pool:
            event = pool.submit(next, follower)
            until(lambda: len(proxy.seen) == 3)
            server.post("/jobs/at-last/claim", {})
            assert event.result(PATIENCE_SECONDS).job_id == "at-last"
        follower.close()


def test_a_slow_reader_reconnects_after_its_stream_has_ended(
    *, connect: Connect, shorten: Shorten, proxy: Proxy, server: ServerProcess, store: octostore.OctoStore, job_id: str
) -> None:
    shorten(FOLLOW_GIVE_UP_SECONDS=0.3)
    proxy.then(pass_on_for(0.2), reset)
    follower = connect(proxy.url, token=server.token).events(job_id=job_id, follow=True)
    store.claim_job(job_id)
    assert next(follower).type == "claimed"
    time.sleep(0.5)
    store.force_release(job_id)
    assert next(follower).type == "force_released"
    follower.close()


def test_a_follower_gives_up_in_the_end(
    connect: Connect, shorten: Shorten, proxy: Proxy, server: ServerProcess
) -> None:
    shorten(FOLLOW_GIVE_UP_SECONDS=0.5)
    proxy.then(pass_on_for(0.3)).always(reset)
    follower = connect(proxy.url, token=server.token).events(follow=True)
    with pytest.raises(Unreachable) as caught:
        list(follower)
    assert caught.value.reason == "network"


def test_a_follower_whose_token_is_revoked_gets_not_allowed(
    connect: Connect, server: ServerProcess, store: octostore.OctoStore
) -> None:
    made = store.create_token("reader", scopes=["read"])
    follower = connect(server.url, token=made.token).events(follow=True)
    next(follower)
    store.revoke_token(made.token_id)
    with pytest.raises(octostore.NotAllowed):
        list(follower)


def test_a_follower_that_stops_closes_its_stream(connect: Connect, server: ServerProcess) -> None:
    wait_for_streams(server, 0)
    follower = connect(server.url, token=server.token).events(follow=True)
    next(follower)
    assert gauge(server, "octostore_open_streams") == 1
    follower.close()
    wait_for_streams(server, 0)


# Threads and processes


def test_many_threads_share_a_store(server: ServerProcess, store: octostore.OctoStore, job_id: str) -> None:
    def claim_and_release(thread: int) -> list[int | None]:
        tokens = []
        for number in range(50):
            claim = store.claim_job(f"{job_id}-{number}", f"thread {thread}", wait=PATIENCE_SECONDS)
            assert (claim.status, claim.owner) == ("claimed", f"thread {thread}")
            store.release_job(claim.job_id or "", claim.lease_id or "")
            tokens.append(claim.fencing_token)
        return tokens

    with ThreadPoolExecutor(8) as pool:
        tokens = [token for one in pool.map(claim_and_release, range(8)) for token in one]
    assert len(set(tokens)) == 400
    for number in range(0, 50, 10):
        kinds = [event["type"] for event in server.events(f"{job_id}-{number}")]
        assert kinds == ["claimed", "released"] * 8


@pytest.mark.parametrize(
    ("scene", "claims", "children"),
    [
        ("both_go_on", 5, 1),
        ("while_threads_ask", 0, 32),
        ("child_ends_as_programs_do", 3, 1),
        ("child_closes_it", 4, 2),
        ("grandchild", 5, 2),
        ("child_leaves_a_hold", 1, 1),
        ("child_has_no_connection_of_its_parent", 1, 1),
    ],
)
def test_parent_and_child_go_on_after_a_fork(
    scene: str, claims: int, children: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServerProcess(tmp_path) as server:
        monkeypatch.setenv("OCTOSTORE_TOKEN", server.token)
        with Worker("forker", server.url, scene) as worker:
            lines = worker.rest()
            assert worker.exit_code() == 0
    assert all(line["child"] == "fine" for line in lines if "child" in line), lines
    assert sum("child" in line for line in lines) == children
    claimed = {(line["claimed"], line["token"]) for line in lines if line.get("status") == "claimed"}
    assert len(claimed) == claims
    log = assert_sound(tmp_path / "octostore.db")
    assert claimed <= {(entry.job_id, entry.seq) for entry in log if entry.type == "claimed"}
