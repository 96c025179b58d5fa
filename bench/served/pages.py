"""Open pages, all in one process: they send the live page's requests when it does, and draw nothing.

See `app.js`, `stream.js` and `views/now.js` in `src/octostore/server/page`. The process says how many are logged in,
and replies to `open` and `close` with what the pages received.
"""

import asyncio
from contextlib import suppress
from urllib.parse import urlencode

import msgspec

from bench.served.processes import LOOPBACK
from bench.served.talk import hear, in_groups, run, say
from bench.served.words import compact

LOADED_EVERY_SECONDS = 60
"""In addition to the stream."""
NAMES_BYTES = 8_000
NOW = "claims?window=900&limit=200"
BEAT, EVENT = b"event: heartbeat\n", b"\nevent: "
AT_ONCE = 5
"""An opening page requests a few hundred rows; people do not open fifty at the same moment."""


class Pages(msgspec.Struct):
    port: int
    token: str
    count: int


class Got(msgspec.Struct):
    """By all pages together since they were opened."""

    rows: int = 0
    loads: int = 0
    followed: int = 0
    """Jobs whose heartbeats they follow."""
    heartbeats: int = 0
    events: int = 0
    kilobytes: float = 0


class _Claim(msgspec.Struct):
    ended_at: str | None


class _Row(msgspec.Struct):
    job_id: str
    claims: list[_Claim]


class _Claims(msgspec.Struct):
    seq: int
    rows: list[_Row]


_read_claims = msgspec.json.Decoder(_Claims).decode


class Page:
    def __init__(self, port: int) -> None:
        self._port = port
        self._got = Got()
        self._cookie = ""
        self._tasks: list[asyncio.Task[None]] = []

    async def log_in(self, token: str) -> None:
        head, _ = await self._call("POST", "/ui/login", compact({"token": token}))
        self._cookie = head.partition("set-cookie: ")[2].partition(";")[0]

    async def open(self, got: Got, load_again_after: float) -> None:
        self._got = got
        await self._get("auth/whoami")
        seq, held = await self._load()
        self._tasks = [
            asyncio.create_task(self._follow(seq, held)),
            asyncio.create_task(self._load_again(load_again_after)),
        ]
        self._got.followed += len(held)

    async def close(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()  # raises if it has failed
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    async def _load(self) -> tuple[int, list[str]]:
        claims = _read_claims(await self._get(NOW))
        self._got.loads += 1
        self._got.rows += len(claims.rows)
        held = [row.job_id for row in claims.rows if row.claims[-1].ended_at is None]
        return claims.seq, held[: NAMES_BYTES // max(len(name) + 3 for name in held)] if held else []

    async def _load_again(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self._load()
            seconds = LOADED_EVERY_SECONDS

    async def _follow(self, seq: int, held: list[str]) -> None:
        query = urlencode({"heartbeats": ",".join(held)} if held else {})
        headers = f"Accept: text/event-stream\r\nLast-Event-ID: {seq}\r\n"
        reader, writer = await asyncio.open_connection(LOOPBACK, self._port, limit=1 << 20)
        try:
            writer.write(self._request("GET", f"/ui/api/events?{query}", headers=headers))
            while part := await reader.read(1 << 18):
                beats = part.count(BEAT)
                self._got.heartbeats += beats
                self._got.events += part.count(EVENT) - beats
                self._got.kilobytes += len(part) / 1_024
            raise ConnectionError("the server ended a stream")
        finally:
            writer.close()

    async def _get(self, what: str) -> bytes:
        _, body = await self._call("GET", f"/ui/api/{what}")
        self._got.kilobytes += len(body) / 1_024
        return body

    async def _call(self, method: str, path: str, content: str = "") -> tuple[str, bytes]:
        reader, writer = await asyncio.open_connection(LOOPBACK, self._port)
        try:
            writer.write(self._request(method, path, content, f"Origin: http://{LOOPBACK}:{self._port}\r\n"))
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if not head.startswith(("HTTP/1.1 200", "HTTP/1.1 204")):
                raise ValueError(f"{path} returned {head!r}")
            length = head.partition("content-length: ")[2].partition("\r\n")[0]
            return head, await reader.readexactly(int(length or 0))
        finally:
            writer.close()

    def _request(self, method: str, path: str, content: str = "", headers: str = "") -> bytes:
        lines = f"{method} {path} HTTP/1.1\r\nHost: {LOOPBACK}:{self._port}\r\nContent-Type: application/json\r\n"
        return f"{lines}Cookie: {self._cookie}\r\nContent-Length: {len(content)}\r\n{headers}\r\n{content}".encode()


async def look(task: Pages) -> None:
    got = Got()
    pages = [Page(task.port) for _ in range(task.count)]
    await in_groups([page.log_in(task.token) for page in pages], AT_ONCE)
    say(len(pages))
    while True:
        if await hear(str) == "open":
            got, pause = Got(), LOADED_EVERY_SECONDS / len(pages)
            await in_groups([page.open(got, pause * place) for place, page in enumerate(pages)], AT_ONCE)
        else:
            await asyncio.gather(*(page.close() for page in pages))
        say(got)


if __name__ == "__main__":
    run(look, Pages)
