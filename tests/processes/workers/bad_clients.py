"""Clients that misbehave in many manners, on raw sockets and in one thread.

A client that is cut off comes back, until the test says stop. Then clients that do not leave by themselves continue
until the server has cut off the last of them. The output says how many there were of each manner, and how they ended.
"""

import os
import random
import select
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from octostore.wire.tokens import new_token
from tests.processes.workers.good_clients import SHARED
from tests.processes.workers.talk import hear, say

STEP_SECONDS = 0.02
NEW_IN_A_STEP = 5
BY_RESET = struct.pack("ii", 1, 0)
CUT = select.POLLRDHUP

_chance = random.Random(1)


class Manner(NamedTuple):
    """What the client sends first, and then repeatedly; whether it reads; and when it leaves by itself."""

    name: str
    number: int
    hello: Callable[[], bytes]
    dribble: bytes = b""
    reads: bool = False
    stays_seconds: float | None = None


def request(method: str, path: str, token: str = "", body: bytes = b"", headers: str = "") -> bytes:
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def manners(readers: list[str], claimer: str) -> list[Manner]:
    """`readers` are tokens that may read; `claimer` may claim."""
    stream = "Accept: text/event-stream\r\nConnection: close\r\n"
    waiting = b'{"owner": "gone", "wait_seconds": 60, "ttl_seconds": 1}'
    livez, large = request("GET", "/livez"), request("GET", "/openapi.json")

    def follow() -> bytes:
        return request("GET", "/events?after=0", _chance.choice(readers), headers=stream)

    def guess() -> bytes:
        last = request("GET", "/jobs", new_token(), headers="Connection: close\r\n")
        return b"".join(request("GET", "/jobs", new_token()) for _ in range(9)) + last

    def wait_with_more() -> bytes:
        path = f"/jobs/shared-{_chance.randrange(SHARED)}/claim"
        return request("POST", path, claimer, waiting) + livez * _chance.choice([0, 1, 5_000])

    return [
        Manner("streams that are not read", 220, follow),
        Manner("responses that are not read", 60, lambda: large * 50),
        Manner("slow heads", 20, lambda: b"GET /jobs HTTP/1.1\r\nX: ", b"x"),
        Manner("slow bodies", 20, lambda: request("POST", "/jobs/x/claim", claimer, b" " * 10_000)[:-9_999], b" "),
        Manner("requests and garbage", 10, lambda: livez + os.urandom(1_000) + b"\r\n\r\n", reads=True),
        Manner("nothing but garbage", 10, lambda: b"\0" + os.urandom(300_000), reads=True),
        Manner("heads without end", 5, lambda: b"GET /" + b"x" * 300_000, reads=True),
        Manner("wrong tokens", 10, guess, reads=True),
        Manner("claims that wait and leave", 20, wait_with_more, stays_seconds=0.3),
        Manner("calls that leave", 10, lambda: large * 3, stays_seconds=0.01),
        Manner("connections that leave", 10, lambda: b"", stays_seconds=0),
    ]


class Client:
    def __init__(self, manner: Manner, port: int) -> None:
        self.manner = manner
        self.began_at = time.monotonic()
        self._unsent = manner.hello()
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self._socket.setblocking(False)
        self._socket.connect_ex(("127.0.0.1", port))
        self._poll = select.poll()
        self._poll.register(self._socket, CUT)

    def step(self) -> str | None:
        """How it ended, or None."""
        manner = self.manner
        if any(flags & (CUT | select.POLLHUP | select.POLLERR) for _, flags in self._poll.poll(0)):
            return self._end("cut off")
        if manner.stays_seconds is not None and time.monotonic() - self.began_at >= manner.stays_seconds:
            how = "left with a claim" if b'"claimed"' in self._unread() else "left"
            if _chance.random() < 0.5:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, BY_RESET)
            return self._end(how)
        try:
            if self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            elif manner.dribble:
                self._socket.send(manner.dribble)
            if manner.reads and not self._socket.recv(65_536):
                return self._end("cut off")
        except BlockingIOError:
            return None
        except ConnectionError:
            return self._end("cut off")
        return None

    def _unread(self) -> bytes:
        try:
            return self._socket.recv(65_536, socket.MSG_PEEK)
        except OSError:
            return b""

    def _end(self, how: str) -> str:
        self._socket.close()
        return how


def _wait_for_stop(stop: threading.Event) -> None:
    hear()
    stop.set()


def main(port: int, claimer: str, *readers: str) -> None:
    ways, clients = manners(list(readers), claimer), list[Client]()
    counts: Counter[tuple[str, str]] = Counter()
    longest: Counter[str] = Counter()
    stop = threading.Event()
    say("ready")
    threading.Thread(target=_wait_for_stop, args=[stop], daemon=True).start()
    while clients or not stop.is_set():
        running = Counter(client.manner.name for client in clients)
        for manner in ways if not stop.is_set() else []:
            missing = manner.number - running[manner.name]
            clients += [Client(manner, port) for _ in range(min(missing, NEW_IN_A_STEP))]
        for client in list(clients):
            outcome = client.step()
            if outcome is not None:
                clients.remove(client)
                name = client.manner.name
                counts[name, outcome] += 1
                longest[name] = max(longest[name], round(1_000 * (time.monotonic() - client.began_at)))
        time.sleep(STEP_SECONDS)
    for manner in ways:
        ends: dict[str, Any] = {how: counts[manner.name, how] for how in ("cut off", "left", "left with a claim")}
        say({"manner": manner.name, "leaves": manner.stays_seconds is not None, **ends, "ms": longest[manner.name]})


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
