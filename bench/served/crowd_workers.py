"""Owners that heartbeat and claims that wait, each on its own connection, all in one process.

It says the number of the last event once all are connected. At the next line, it starts to release the jobs that
others wait for.
"""

import asyncio
import time
from typing import Any

import msgspec

from bench.served import words
from bench.served.processes import LOOPBACK
from bench.served.talk import hear, in_groups, run, say

WAIT_SECONDS = 60
TTL_SECONDS = 30


class Workers(msgspec.Struct):
    port: int
    token: str
    holders: int
    beat_seconds: float
    lines: int
    """Jobs that others wait for."""
    line_length: int
    serve_seconds: float
    """How long waiting claims are served; some may not have had their turn by then."""


class Worked(msgspec.Struct):
    heartbeats: list[float]
    """Seconds until each response."""
    handovers: list[float]
    """From sending a release until the next in line had its claim."""
    lines: list[float]
    """From the first release until everyone in the line had had the job."""
    in_vain: int
    """Claims that waited and got `held`."""
    last_seq: int


class Caller(asyncio.Protocol):
    """A keep-alive connection with one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def call(self, request: bytes) -> "asyncio.Future[Any]":
        if self._transport is None:
            raise ConnectionError("not connected")
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._response

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, _, body = self._received.partition(b"\r\n\r\n")
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if not length or len(body) < int(length):
            return
        self._received = b""
        if self._response.done():
            pass  # nobody waits for it any more
        elif head.startswith(b"HTTP/1.1 200"):
            self._response.set_result(msgspec.json.decode(body))
        else:
            self._response.set_exception(ValueError(f"got {head!r} {body!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._response.done():
            self._response.set_exception(exc or ConnectionError("the server closed the connection"))


class Held:
    """A claim and its owner's connection."""

    def __init__(self, caller: Caller, token: str, claim: dict[str, Any]) -> None:
        self._caller = caller
        self._path = f"/jobs/{claim['job_id']}"
        self._lease = {"lease_id": claim["lease_id"]}
        self._token = token
        self.fencing_token: int = claim["fencing_token"]

    async def heartbeat(self) -> None:
        await self._call("heartbeat")

    async def release(self) -> None:
        await self._call("release")

    async def _call(self, what: str) -> None:
        await self._caller.call(words.request("POST", f"{self._path}/{what}", self._lease, token=self._token).encode())


class Members:
    def __init__(self, task: Workers) -> None:
        self._task = task
        self._tasks: list[asyncio.Task[None]] = []
        self._released_at: dict[str, float] = {}
        self.worked = Worked([], [], [], 0, 0)

    async def gather(self) -> None:
        names = [f"crowd-held-{number:04}" for number in range(self._task.holders)]
        for number, held in enumerate(await in_groups([self._claim(name) for name in names])):
            pause = self._task.beat_seconds * (1 + number / len(names))
            self._tasks.append(asyncio.create_task(self._keep(held, pause)))
        self._lines = [await self._form_line(f"crowd-line-{number:02}") for number in range(self._task.lines)]

    async def last_seq(self) -> int:
        """A claim's fencing token is the number of its event."""
        return (await self._claim(f"crowd-now-{time.monotonic_ns()}")).fencing_token

    async def serve(self) -> None:
        """One line after another, as time allows."""
        deadline = time.perf_counter() + self._task.serve_seconds
        for name, first, waiters in self._lines:
            started = time.perf_counter()
            if started >= deadline:
                return
            await self._release(name, first)
            _, pending = await asyncio.wait(waiters, timeout=deadline - started)
            if not pending:
                self.worked.lines.append(time.perf_counter() - started)

    def leave(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()  # raises if it has failed
            task.cancel()

    async def _keep(self, held: Held, pause: float) -> None:
        while True:
            await asyncio.sleep(pause)
            pause = self._task.beat_seconds
            started = time.perf_counter()
            await held.heartbeat()
            self.worked.heartbeats.append(time.perf_counter() - started)

    async def _form_line(self, name: str) -> tuple[str, Held, list[asyncio.Task[None]]]:
        first = await self._claim(name, ttl=WAIT_SECONDS * 2)
        callers = await in_groups([self._caller() for _ in range(self._task.line_length)])
        waiters = [asyncio.create_task(self._wait(caller, name)) for caller in callers]
        self._tasks += waiters
        return name, first, waiters

    async def _wait(self, caller: Caller, name: str) -> None:
        claim = await caller.call(self._claim_request(name, TTL_SECONDS, WAIT_SECONDS))
        if claim["status"] != "claimed":
            self.worked.in_vain += 1
            return
        self.worked.handovers.append(time.perf_counter() - self._released_at[name])
        await self._release(name, Held(caller, self._task.token, claim))

    async def _release(self, name: str, held: Held) -> None:
        self._released_at[name] = time.perf_counter()
        await held.release()

    async def _claim(self, name: str, ttl: float = TTL_SECONDS) -> Held:
        caller = await self._caller()
        claim = await caller.call(self._claim_request(name, ttl, 0))
        if claim["status"] != "claimed":
            raise ValueError(f"a claim got {claim!r}")
        return Held(caller, self._task.token, claim)

    async def _caller(self) -> Caller:
        _, caller = await asyncio.get_running_loop().create_connection(Caller, LOOPBACK, self._task.port)
        return caller

    def _claim_request(self, name: str, ttl: float, wait: float) -> bytes:
        body = {"owner": "agent-3", "ttl_seconds": ttl, "wait_seconds": wait}
        return words.request("POST", f"/jobs/{name}/claim", body, token=self._task.token).encode()


async def work(task: Workers) -> None:
    members = Members(task)
    await members.gather()
    say(await members.last_seq())
    await hear(str)
    await members.serve()
    members.leave()
    members.worked.last_seq = await members.last_seq()
    say(members.worked)


if __name__ == "__main__":
    run(work, Workers)
