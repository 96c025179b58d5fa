"""A port to a server, for asyncio. Needs aiohttp, from the `async` extra."""

import asyncio
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, suppress
from io import BytesIO
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from octostore.client.http.calls import OK, HttpCall, call_of
from octostore.client.http.listeners import check_listener
from octostore.client.http.port import STREAM_HEADERS, HttpPort
from octostore.client.http.responses import check_is_stream, connection_failed, read_event, read_response, timed_out
from octostore.client.http.retry_budget import (
    CONNECT_SECONDS,
    FOLLOW_GIVE_UP_SECONDS,
    GIVE_UP_SECONDS,
    POLL_SECONDS,
    RESPONSE_SECONDS,
    STREAM_SECONDS,
    RetryBudget,
    time_left,
)
from octostore.client.http.server_url import ServerUrl
from octostore.client.http.sse import FrameReader
from octostore.client.threads import in_thread
from octostore.core.commands import Batch, ClaimJob, ClaimNext, ClaimTask, Command, OpenSession, R_co
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.events import Event
from octostore.core.limits import BATCH_MAX
from octostore.core.questions import ListEvents, Question
from octostore.core.undo import undo_of
from octostore.core.waiting import is_worth_waiting
from octostore.stores.base import TryAgain
from octostore.stores.owners import owners
from octostore.wire.deadline import deadline_header

IDLE_SECONDS = 60
LARGE_BYTES = 2**20
"""A larger body is passed to aiohttp as a stream, which it sends in parts."""
UNDO_SECONDS = 1.0
"""How long closing waits for the claims of cancelled calls to be undone."""


class AsyncHttpPort:
    """Create, use and close it in one event loop."""

    def __init__(self, server_url: ServerUrl, token: str) -> None:
        self.blocking = HttpPort(server_url, token)
        self._origin = server_url.origin
        self._base = server_url.origin + server_url.base_path
        self._session = aiohttp.ClientSession(
            # One connection per call: a waiting claim must not delay a heartbeat.
            connector=_Connector(server_url),
            headers={
                "Authorization": f"Bearer {token}",
                "User-Agent": "octostore-python",
                "Accept-Encoding": "identity",  # a proxy might compress, and nothing here decompresses
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        self._undoing: set[asyncio.Task[None]] = set()
        self._streams: set[aiohttp.ClientResponse] = set()

    async def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        reply: R_co
        if not wait and isinstance(command, ClaimJob | ClaimNext | ClaimTask | OpenSession):
            reply = await self._finish_even_if_cancelled(command)
            return reply
        deadline = time.monotonic() + wait
        while True:
            poll_until = min(deadline, time.monotonic() + POLL_SECONDS)
            reply = await self._retry(command, poll_until)
            if poll_until >= deadline or not is_worth_waiting(command, reply):
                return reply

    async def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        if len(commands) <= 1:
            return [await self._reply_or_error(command) for command in commands]
        numbers = self.blocking.numbers
        numbered = [numbers.number(command) for command in commands]
        try:
            replies = await self._finish_even_if_cancelled(Batch(numbered, atomic))
        except OctoStoreError as fault:
            return [fault] * len(commands)
        return [await self._unless_overtaken(*one) for one in zip(numbered, replies, strict=True)]

    async def ask(self, question: Question[R_co]) -> R_co:
        reply: R_co = await self._retry(question)
        return reply

    async def follow(self, question: ListEvents) -> AsyncIterator[Event]:
        budget: RetryBudget | None = None
        while True:
            try:
                async with aclosing(self._stream(question)) as stream:
                    async for event in stream:
                        budget = None
                        if event is not None:
                            owners.notify([event])
                            yield event
                            question = msgspec.structs.replace(question, after=event.seq)
            except TryAgain as failed:
                budget = budget or RetryBudget(FOLLOW_GIVE_UP_SECONDS)
                await self._pause(budget, failed)

    async def close(self) -> None:
        if self._undoing:
            await asyncio.wait(self._undoing, timeout=UNDO_SECONDS)
        for stream in self._streams:
            stream.close()  # the session would not wake their readers
        await self._session.close()
        await in_thread(self.blocking.close)

    async def _unless_overtaken(self, command: Command[Any], reply: Any) -> Any:
        newer = self.blocking.numbers.overtaken(command, reply)
        return reply if newer is None else await self._reply_or_error(newer)

    async def _reply_or_error(self, command: Command[Any]) -> Any:
        try:
            return await self.execute(command)
        except OctoStoreError as refusal:
            return refusal

    async def _finish_even_if_cancelled(self, command: Command[Any] | Batch) -> Any:
        """Undo the claim if the caller is cancelled: once sent, it is made.

        A claim that waits needs none of this: the server sees that the connection was closed.
        """
        asked = asyncio.create_task(self._retry(command))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            if not asked.cancelled():
                self._start_undoing(asked)
            raise

    def undo_claims(self, replies: Sequence[Any]) -> None:
        for start in range(0, len(replies), BATCH_MAX):
            self._start_undoing(_known(list(replies[start : start + BATCH_MAX])))

    def _start_undoing(self, asked: Awaitable[Any]) -> None:
        undoing = asyncio.create_task(self._undo(asked))
        self._undoing.add(undoing)  # loops do not keep their tasks alive
        undoing.add_done_callback(self._undoing.discard)

    async def _undo(self, asked: Awaitable[Any]) -> None:
        with suppress(OctoStoreError):
            reply = await asked
            undoing = map(undo_of, reply if isinstance(reply, list) else [reply])
            if undos := [undo for undo in undoing if undo is not None]:
                await self._retry(Batch(undos) if len(undos) > 1 else undos[0])

    async def _retry(self, asked: Command[Any] | Question[Any] | Batch, wait_until: float = 0) -> Any:
        """Repeat until there is a response or time is up. A repeated wait only lasts for the rest of it."""
        budget = RetryBudget(GIVE_UP_SECONDS, time_left(wait_until))
        self._check_open()
        numbers = self.blocking.numbers  # which a fork replaces
        numbered = numbers.number(asked)
        while True:
            wait = time_left(wait_until)
            call = call_of(numbered, wait)
            try:
                reply = await self._once(call, RESPONSE_SECONDS + wait)
            except TryAgain as failed:
                await self._pause(budget, failed, call)
                continue
            overtaken = None if numbered is asked else numbers.overtaken(numbered, reply)
            if overtaken is None:
                return reply
            numbered = overtaken

    async def _once(self, call: HttpCall, seconds: float) -> Any:
        try:
            headers = deadline_header(seconds) | call.headers
            once = () if call.is_repeatable else (_send_once,)
            async with self._request(call.method, call.path, call.body, seconds, headers, middlewares=once) as response:
                status, body, retry_after = response.status, await response.read(), response.headers.get("Retry-After")
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise connection_failed(self._origin, error, was_taken=False) from None
        except TimeoutError:
            raise timed_out(self._origin, seconds) from None
        except (OSError, aiohttp.ClientError) as error:
            raise connection_failed(self._origin, error) from None
        except RuntimeError:
            self._check_open()  # aiohttp raises it if it was closed between the head of a response and its body
            raise
        return read_response(call, self._origin, status, body, retry_after)

    async def _stream(self, question: ListEvents) -> AsyncGenerator[Event | None, None]:
        """None is a keep-alive. Raises `TryAgain` when the server ends it or the connection breaks."""
        frames = FrameReader()
        try:
            call = call_of(question)
            async with self._request("GET", call.path, None, STREAM_SECONDS, STREAM_HEADERS) as response:
                if response.status not in OK:
                    retry_after = response.headers.get("Retry-After")
                    body = await response.read()
                    read_response(call, self._origin, response.status, body, retry_after)
                check_is_stream(self._origin, response.status, response.headers.get("Content-Type"))
                self._streams.add(response)
                try:
                    async for part in response.content.iter_any():
                        for data in frames.feed(part):
                            yield read_event(self._origin, data) if data else None
                finally:
                    self._streams.discard(response)
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            raise connection_failed(self._origin, error) from None
        except RuntimeError:
            self._check_open()  # as in `_once`
            raise
        raise connection_failed(self._origin, EOFError("the stream has ended"))

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        seconds: float,
        headers: dict[str, str] | None = None,
        *,
        middlewares: Sequence[aiohttp.ClientMiddlewareType] = (),
    ) -> Any:
        return self._session.request(
            method,
            URL(self._base + path, encoded=True),  # a %2F in a name stays what it is
            data=body if body is None or len(body) < LARGE_BYTES else BytesIO(body),
            headers=headers,
            middlewares=middlewares,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=seconds),
        )

    async def _pause(self, budget: RetryBudget, failed: TryAgain, call: HttpCall | None = None) -> None:
        self._check_open()
        await asyncio.sleep(budget.pause_after(failed, call))
        self._check_open()

    def _check_open(self) -> None:
        if self._session.closed:
            raise Unreachable("this store has been closed", reason="closed")


class _Connector(aiohttp.TCPConnector):
    def __init__(self, server_url: ServerUrl) -> None:
        super().__init__(limit=0, keepalive_timeout=IDLE_SECONDS)
        self._server_url = server_url
        self._checked: weakref.WeakSet[Any] = weakref.WeakSet()

    async def connect(self, *args: Any, **options: Any) -> Any:
        connection = await super().connect(*args, **options)
        if connection.protocol not in self._checked:
            try:
                check_listener(self._server_url)
            except BaseException:
                connection.close()
                raise
            self._checked.add(connection.protocol)
        return connection


class _Broken(aiohttp.ClientError):
    """The connection broke after the request may have arrived."""


async def _send_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Without this, aiohttp repeats a DELETE when its connection breaks, and has no option against it."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Broken(str(error)) from error


async def _known(replies: list[Any]) -> list[Any]:
    return replies
