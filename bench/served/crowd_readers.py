"""Readers of a server's event streams, all in one separate process."""

import asyncio
import time
from datetime import datetime

import msgspec

from bench.served.processes import LOOPBACK
from bench.served.talk import hear, in_groups, run, say
from bench.served.words import request as http_request

LOOKED_AT = 20
"""One stream in this many is read event by event; for the others, events are only counted."""
PATIENCE_SECONDS = 10.0
EVENT = b"\nevent: "


class Readers(msgspec.Struct):
    port: int
    token: str
    count: int
    after: int
    """The last event before the stream starts."""


class Read(msgspec.Struct):
    delays: list[float]
    """From the time of an event until a stream that is read event by event has it."""
    complete: int
    """Streams that delivered every event."""


class Reader(asyncio.Protocol):
    def __init__(self, request: bytes, delays: list[float] | None) -> None:
        self._request = request
        self._delays = delays
        self._rest = b""
        self.is_open = asyncio.get_running_loop().create_future()
        self.events = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if not self.is_open.done():
            self.is_open.set_result(None)
        data = self._rest + data
        if self._delays is None:
            self.events += data.count(EVENT)
            self._rest = data[-len(EVENT) + 1 :]
            return
        *frames, self._rest = data.split(b"\n\n")
        for frame in frames:
            if EVENT in frame:
                self.events += 1
                self._delays.append(time.time() - _at(frame))


async def read(task: Readers) -> None:
    text = http_request("GET", f"/events?after={task.after}", token=task.token)
    request = text.replace("\r\n\r\n", "\r\nAccept: text/event-stream\r\n\r\n").encode()
    delays: list[float] = []

    async def new_reader(number: int) -> Reader:
        _, reader = await asyncio.get_running_loop().create_connection(
            lambda: Reader(request, None if number % LOOKED_AT else delays), LOOPBACK, task.port
        )
        await reader.is_open
        return reader

    readers = await in_groups([new_reader(number) for number in range(task.count)])
    delays.clear()  # earlier events are read at full speed, and say nothing about delays
    say("ready")
    events = await hear(int) - task.after
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while min(reader.events for reader in readers) < events and time.perf_counter() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    say(Read(delays, sum(reader.events >= events for reader in readers)))


def _at(frame: bytes) -> float:
    return datetime.fromisoformat(frame.partition(b'"at":"')[2].partition(b'"')[0].decode()).timestamp()


if __name__ == "__main__":
    run(read, Readers)
