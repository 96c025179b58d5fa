"""A server as a port, for asyncio. Needs aiohttp, which the extra `async` brings."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from octostore.client.http.answers import OK, TryAgain, no_answer_in_time, not_reached, read_answer
from octostore.client.http.calls import HttpCall, call_of, event_from, events_path
from octostore.client.http.patience import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    FOLLOW_GIVE_UP_SECONDS,
    GIVE_UP_SECONDS,
    POLL_SECONDS,
    STREAM_SECONDS,
    Patience,
)
from octostore.client.http.port import STREAM_HEADERS, HttpPort
from octostore.client.http.server_url import ServerUrl
from octostore.client.http.sse import FrameReader
from octostore.client.port import is_worth_waiting
from octostore.client.threads import in_thread
from octostore.core.commands import Command, R_co
from octostore.core.errors import Unreachable
from octostore.core.events import Event
from octostore.core.limits import WAIT_MAX_SECONDS, check_range
from octostore.core.questions import ListEvents, Question

IDLE_SECONDS = 60


class AsyncHttpPort:
    """Made, used and closed in one event loop."""

    def __init__(self, place: ServerUrl, token: str) -> None:
        self.blocking = HttpPort(place, token)
        self._where = place.origin
        self._base = place.origin + place.base_path
        self._session = aiohttp.ClientSession(
            # As many connections as there are calls: a claim that waits must not keep a heartbeat from being sent.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
            headers={"Authorization": f"Bearer {token}", "User-Agent": "octostore-python"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        check_range("wait", wait, 0, WAIT_MAX_SECONDS)
        deadline = time.monotonic() + wait
        while True:
            left = max(0.0, deadline - time.monotonic())
            poll = min(left, POLL_SECONDS)
            reply: R_co = await self._persist(call_of(command, poll), poll)
            if left <= POLL_SECONDS or not is_worth_waiting(reply):
                return reply

    async def ask(self, question: Question[R_co]) -> R_co:
        reply: R_co = await self._persist(call_of(question))
        return reply

    async def follow(self, question: ListEvents) -> AsyncIterator[Event]:
        patience = Patience(FOLLOW_GIVE_UP_SECONDS)
        while True:
            try:
                async for event in self._stream(question):
                    yield event
                    question = msgspec.structs.replace(question, after=event.seq)
                    patience = Patience(FOLLOW_GIVE_UP_SECONDS)
            except TryAgain as failed:
                await asyncio.sleep(patience.after(failed))
                self._check_open()

    async def close(self) -> None:
        await self._session.close()
        await in_thread(self.blocking.close)

    async def _persist(self, call: HttpCall, wait: float = 0) -> Any:
        patience = Patience(GIVE_UP_SECONDS + wait)
        while True:
            self._check_open()
            try:
                return await self._once(call, ANSWER_SECONDS + wait)
            except TryAgain as failed:
                await asyncio.sleep(patience.after(failed))

    async def _once(self, call: HttpCall, seconds: float) -> Any:
        try:
            async with self._request(call.method, call.path, call.body, seconds) as response:
                status, body = response.status, await response.read()
        except TimeoutError:
            raise no_answer_in_time(self._where, seconds) from None
        except (OSError, aiohttp.ClientError) as error:
            raise not_reached(self._where, error) from None
        return read_answer(call, self._where, status, body)

    async def _stream(self, question: ListEvents) -> AsyncIterator[Event]:
        """Until the server ends it, or the connection breaks: raises `TryAgain` in any case."""
        frames = FrameReader()
        try:
            async with self._request("GET", events_path(question), None, STREAM_SECONDS, STREAM_HEADERS) as response:
                if response.status not in OK:
                    read_answer(call_of(question), self._where, response.status, await response.read())
                async for line in response.content:
                    for data in frames.feed(line):
                        yield event_from(data)
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            raise not_reached(self._where, error) from None
        raise not_reached(self._where, EOFError("the stream has ended"))

    def _request(
        self, method: str, path: str, body: bytes | None, seconds: float, headers: dict[str, str] | None = None
    ) -> Any:
        return self._session.request(
            method,
            URL(self._base + path, encoded=True),  # a %2F in a name stays what it is
            data=body,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=seconds),
        )

    def _check_open(self) -> None:
        if self._session.closed:
            raise Unreachable("this store has been closed", reason="closed")
