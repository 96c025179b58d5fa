"""Situations that cannot be timed from outside: within this process, on a store in memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from octostore import AsyncOctoStore, ClaimReply, LeaseLost, LimitExceeded, Unreachable, connect_async
from octostore.client.async_embedded import AsyncEmbeddedPort
from octostore.core.replies import HeartbeatReply
from octostore.mcp import claims as claims_module
from octostore.mcp import sessions as sessions_module
from octostore.mcp.arguments import ClaimJob, OneClaim, OpenSession
from octostore.mcp.claims import Claims
from octostore.mcp.connection import Agent, Connection
from octostore.mcp.lines import Message
from octostore.mcp.own import NotHeld
from octostore.mcp.protocol import ToolProtocol
from octostore.mcp.sessions import Sessions
from octostore.mcp.silence import Silence
from octostore.mcp.tools import TOOLS, ToolContext, claim_job
from octostore.stores.clock import boottime
from octostore.stores.store import open_store
from tests.support.async_as_sync import Loop

Test = Callable[[AsyncOctoStore, Claims], Awaitable[None]]


def on_memory(loop: Loop, test: Test) -> None:
    async def run() -> None:
        claims = Claims(lambda _text: None)
        async with await connect_async("memory:") as store:
            await test(store, claims)
            await claims.close()
            assert await store.list_claimed_jobs() == []

    loop.run(run())


async def claim(store: AsyncOctoStore, claims: Claims, job_id: str) -> ClaimReply:
    claims.check_room()
    asked_at = boottime()
    reply = await store.claim_job(job_id)
    await claims.keep(store, reply, asked_at)
    return reply


def test_a_claim_is_one_durable_write(loop: Loop) -> None:
    written: list[int] = []

    async def silence(*_: object) -> None: ...

    async def run() -> None:
        port = AsyncEmbeddedPort(open_store("memory:", on_batch=lambda commands, _seconds: written.append(commands)))
        claims = Claims(lambda _text: None)
        async with AsyncOctoStore(port) as store:
            agent = Agent(Connection(None), claims, Sessions(claims, lambda _text: None), "agent")
            await claim_job(ToolContext(store, agent, silence), ClaimJob(job_id="job"))
            kept = await claims.find(store, OneClaim(job_id="job"))
            assert (await kept.view()).status == "claimed"
            assert written == [1]
            await claims.close()

    loop.run(run())


def test_an_owner_that_saves_a_checkpoint_is_no_longer_stuck(loop: Loop) -> None:
    async def test(store: AsyncOctoStore, claims: Claims) -> None:
        await claim(store, claims, "job")
        kept = await claims.find(store, OneClaim(job_id="job"))
        kept._claim.take_reply(
            HeartbeatReply("job", datetime.now(UTC), 1, 1, stuck=True)
        )  # as the last heartbeat reported
        assert (await kept.view()).stuck
        await kept.checkpoint({"step": 1})
        assert not (await kept.view()).stuck

    on_memory(loop, test)


def test_an_agent_learns_that_the_store_was_restored_from_an_older_backup(loop: Loop) -> None:
    async def test(store: AsyncOctoStore, claims: Claims) -> None:
        reply = await claim(store, claims, "job")
        kept = await claims.find(store, OneClaim(job_id="job"))
        await store.release_job("job", reply.lease_id or "")
        kept._claim.lease_id, kept._claim.fencing_token = "of a newer store", 1_000
        for write in (kept.progress("half", None), kept.checkpoint({}), kept.release()):
            with pytest.raises(Unreachable) as raised:
                await write
            assert raised.value.reason == "restored_behind"

    on_memory(loop, test)


class Stuck:
    """A store that never replies to heartbeats."""

    def __init__(self, store: AsyncOctoStore) -> None:
        self.release_job = store.release_job
        self.is_asked = asyncio.Event()

    @asynccontextmanager
    async def keep(self, _reply: ClaimReply, **_options: Any) -> AsyncIterator[None]:
        self.is_asked.set()
        await asyncio.Event().wait()
        yield


def test_a_call_that_is_cancelled_before_its_claim_is_kept_leaves_none(loop: Loop) -> None:
    async def test(store: AsyncOctoStore, claims: Claims) -> None:
        stuck = Stuck(store)
        keeping = asyncio.create_task(claims.keep(cast("AsyncOctoStore", stuck), await store.claim_job("job"), 0))
        await stuck.is_asked.wait()
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping
        assert await store.get_job_owner("job") is None
        assert claims.current == []

    on_memory(loop, test)


def test_what_a_cancelled_call_claimed_is_released_and_nothing_else(loop: Loop) -> None:
    async def test(store: AsyncOctoStore, claims: Claims) -> None:
        calls = [asyncio.create_task(claim(store, claims, job_id)) for job_id in ("a", "b")]
        await asyncio.wait(calls)
        await claims.undo(calls[0])
        assert [owner.job_id for owner in await store.list_claimed_jobs()] == ["b"]
        assert [kept.job_id for kept in claims.current] == ["b"]
        (before,) = (await store.get_job("a")).previous
        assert (before.how, before.reason or before.error) == ("released", "the claiming call was cancelled")

    on_memory(loop, test)


def test_what_a_cancelled_call_claimed_expires_if_it_cannot_be_released(loop: Loop) -> None:
    async def test(store: AsyncOctoStore, claims: Claims) -> None:
        reply = await claim(store, claims, "job")
        kept = await claims.find(store, OneClaim(job_id="job"))
        kept._store = cast("AsyncOctoStore", UnreachableStore())
        await claims.undo(asyncio.current_task())
        assert claims.current == [], "nobody heartbeats for it any more"
        await store.release_job("job", reply.lease_id or "")

    on_memory(loop, test)


class UnreachableStore:
    async def release_job(self, *_: object, **_options: object) -> None:
        raise Unreachable("the store cannot be reached", reason="server")


def test_an_agent_that_speaks_while_its_claims_are_released_keeps_the_rest(loop: Loop) -> None:
    async def test(store: AsyncOctoStore, claims: Claims) -> None:
        sessions = Sessions(claims, lambda _text: None)
        for job_id in ("a", "b"):
            await claim(store, claims, job_id)
        await sessions.open(store, "agent", OpenSession(session_id="session"))
        is_silent = iter([True, False, False])
        agent = Agent(Connection(None), claims, sessions, "agent")
        await agent.release_silent(Silence(7, lambda: next(is_silent)))
        assert [owner.job_id for owner in await store.list_claimed_jobs()] == ["b"]
        assert [text.split(" because")[0] for text in agent.notices()] == ["lease_lost: 'a' was released"]
        assert (await store.get_session("session")).status == "open"
        await sessions.close()

    on_memory(loop, test)


def test_a_silent_agent_also_learns_what_it_had_lost_before(loop: Loop) -> None:
    async def test(store: AsyncOctoStore, claims: Claims) -> None:
        sessions = Sessions(claims, lambda _text: None)
        await claim(store, claims, "job")
        await sessions.open(store, "agent", OpenSession(session_id="session"))
        await store.close_session("session")
        await store.open_session("another", session_id="session")
        await store.force_release("job")
        agent = Agent(Connection(None), claims, sessions, "agent")
        await agent.release_silent(Silence(7, lambda: True))
        assert [text.split(" and ")[0].split(" while ")[0] for text in agent.notices()] == [
            "lease_lost: you lost session 'session'",
            "lease_lost: you lost the lease on 'job'",
        ]
        assert agent.notices() == []

    on_memory(loop, test)


def test_a_session_of_a_silent_agent_that_cannot_be_closed_is_reported(loop: Loop) -> None:
    reported: list[str] = []

    async def run() -> None:
        claims = Claims(reported.append)
        sessions = Sessions(claims, reported.append)
        async with await connect_async("memory:") as store:
            await sessions.open(store, "agent", OpenSession(session_id="session"))
        await sessions.release_silent(Silence(7, lambda: True))
        assert len(sessions.current) == 1, "kept, to try again"

    loop.run(run())
    assert reported == ["could not close session session, whose agent is silent: this store has been closed"]


def test_the_number_of_claims_is_limited_until_some_end(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "CLAIMS_MAX", 2)

    async def test(store: AsyncOctoStore, claims: Claims) -> None:
        for job_id in ("a", "b"):
            await claim(store, claims, job_id)
        with pytest.raises(LimitExceeded, match="2 claims"):
            await claim(store, claims, "c")
        kept = await claims.find(store, OneClaim(job_id="a"))
        await kept.release("done")
        await claim(store, claims, "c")

    on_memory(loop, test)


def test_lost_claims_and_sessions_do_not_count_against_the_limit(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "CLAIMS_MAX", 1)
    monkeypatch.setattr(sessions_module, "SESSIONS_MAX", 1)

    async def test(store: AsyncOctoStore, claims: Claims) -> None:
        await claim(store, claims, "a")
        await store.force_release("a")
        with pytest.raises(LeaseLost):
            await (await claims.find(store, OneClaim(job_id="a"))).progress("half", None)
        await claim(store, claims, "b")
        assert [(view.job_id, view.status) for view in await claims.views(store)] == [("a", "lost"), ("b", "claimed")]

        sessions = Sessions(claims, lambda _text: None)
        await sessions.open(store, "agent", OpenSession(session_id="first"))
        (first,) = sessions.current
        first._session._authority.end()  # as if the machine had slept for a night
        await sessions.open(store, "agent", OpenSession(session_id="second"))
        with pytest.raises(LimitExceeded, match="1 sessions"):
            await sessions.open(store, "agent", OpenSession(session_id="third"))
        await sessions.close()

    on_memory(loop, test)


def test_the_claims_that_ended_last_are_remembered(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "OVER_KEPT", 2)

    async def test(store: AsyncOctoStore, claims: Claims) -> None:
        for job_id in ("a", "b", "c", "d"):
            await claim(store, claims, job_id)
            kept = await claims.find(store, OneClaim(job_id=job_id))
            await kept.release("done")
        await claim(store, claims, "e")
        for job_id in "ab":
            with pytest.raises(NotHeld):
                await claims.find(store, OneClaim(job_id=job_id))
        for job_id in "cde":
            assert await claims.find(store, OneClaim(job_id=job_id))

    on_memory(loop, test)


class Broken(Connection):
    async def store(self) -> AsyncOctoStore:
        raise ZeroDivisionError("by zero")


def test_an_internal_error_is_reported_as_one(loop: Loop) -> None:
    logged: list[str] = []

    async def notify(_method: str, _params: dict[str, Any]) -> None: ...

    async def call() -> dict[str, Any]:
        claims = Claims(logged.append)
        agent = Agent(Broken(None), claims, Sessions(claims, lambda _text: None), None)
        request = Message(1, "tools/call", {"name": "my_claims"})
        return await ToolProtocol(TOOLS, logged.append).handle(request, agent, notify)

    result = loop.run(call())
    assert result["isError"] is True
    failure = json.loads(result["content"][0]["text"])
    assert failure["code"] == "internal_error"
    assert "a bug in OctoStore, not your mistake" in failure["details"]
    assert logged == ["internal error in my_claims: ZeroDivisionError: by zero"]
