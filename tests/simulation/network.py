"""The network between clients and servers: latency, cuts, lost responses, delays, duplicates, and a load balancer.

It replaces sockets and `aiohttp.ClientSession`; everything above them is the real client.
"""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import aiohttp

from octostore.server.protocol import Connection
from tests.simulation.faults import Fault, Faults
from tests.simulation.scheduler import Fiber, Process, Scheduler
from tests.simulation.story import Story

if TYPE_CHECKING:
    from tests.simulation.server import Server

LATENCY_SECONDS = 0.002
LONG_LATENCY_SECONDS = 0.2
LATE_SECONDS = 60.0
"""The longest delay of a duplicate."""


class Sent(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    data: bytes
    """The whole response as bytes."""


class Observer(Protocol):
    """Called with each request that arrives at a server, and each response."""

    def arrived(self, exchange: "Exchange") -> None: ...

    def responded(self, exchange: "Exchange", response: Response) -> None: ...


class Exchange(asyncio.Transport):
    """One delivery of a request to a server. `on_outcome` gets the response or the error."""

    def __init__(
        self,
        network: "Network",
        server: "Server",
        sent: Sent,
        caller: Process,
        on_outcome: Callable[[Response | OSError], None],
    ) -> None:
        super().__init__()
        self.network = network
        self.server = server
        self.sent = sent
        self.caller = caller
        self.arrived_at = 0.0
        self.is_cut = False
        """Whether the caller is gone; the server may not know yet."""
        self.has_responded = False
        self.response_fault = ""
        self._on_outcome = on_outcome
        self._is_finished = False
        self._is_closing = False
        self._connection: Connection

    # As the server sees it: the transport of a connection with one request

    @property
    def request(self) -> bytes:
        headers = {"host": "localhost", **self.sent.headers, "content-length": len(self.sent.body or b"")}
        lines = [f"{self.sent.method} {self.sent.path} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
        return "\r\n".join([*lines, "", ""]).encode() + (self.sent.body or b"")

    def open(self, connection: Connection) -> None:
        """Called in the server's loop, like the methods below."""
        self._connection = connection
        connection.connection_made(self)
        connection.data_received(self.request)

    def write(self, data: Any) -> None:
        start, headers, body = _parse_message(data)
        self.has_responded = True
        self.network.respond(self, Response(int(start.split()[1]), headers, body, data))
        self.server.loop.call_soon(self.close)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignored: callers read at once."""

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.server.exchanges.pop(self, None)
            self._connection.connection_lost(None)

    abort = close

    # As the caller sees it

    def finish(self, outcome: Response | OSError) -> None:
        if not self._is_finished:
            self._is_finished = True
            self._on_outcome(outcome)

    def hang_up(self) -> None:
        """The caller closes the connection; the server notices a little later."""
        self._is_finished = True
        self.network.cut(self, self.network.latency(self.caller))


class Network:
    def __init__(self, scheduler: Scheduler, faults: Faults, story: Story) -> None:
        self._scheduler = scheduler
        self._faults = faults
        self._story = story
        self.servers: list[Server] = []
        self.observer: Observer | None = None
        self.calls = 0

    def latency(self, caller: Process) -> float:
        stream = self._faults.stream(f"{caller.name} latency")
        usual = stream.random()
        return LATENCY_SECONDS * (0.5 + usual) if usual < 0.9 else LONG_LATENCY_SECONDS * stream.random()

    def is_any_server_up(self) -> bool:
        return any(server.is_open for server in self.servers)

    def call(self, caller: Process, sent: Sent, on_outcome: Callable[[Response | OSError], None]) -> Exchange | None:
        """Return None if no server is up; `on_outcome` is called in any case."""
        self.calls += 1
        server = self._balance(caller)
        if server is None:
            self._later(LATENCY_SECONDS, lambda: on_outcome(ConnectionRefusedError("no server is up")))
            return None
        exchange = Exchange(self, server, sent, caller, on_outcome)
        fault = self._faults.of_call(caller.name)
        delay = self.latency(caller)
        if fault is not None:
            delay += self._strike(exchange, fault, delay)
        if not exchange.is_cut:
            self._later(delay, lambda: server.deliver(exchange))
        return exchange

    def respond(self, exchange: Exchange, response: Response) -> None:
        """Carry a response to the caller, or lose it."""
        if self.observer is not None:
            self.observer.responded(exchange, response)
        delay = self.latency(exchange.caller)
        if exchange.response_fault == "reply lost":
            self._later(delay, lambda: exchange.finish(ConnectionResetError("the connection was cut")))
        elif exchange.response_fault != "no reply at all":
            self._later(delay, lambda: exchange.finish(response))

    def cut(self, exchange: Exchange, noticed_after: float) -> None:
        if not exchange.is_cut:
            exchange.is_cut = True
            self._later(noticed_after, lambda: exchange.server.notice_cut(exchange))

    def server_died(self, exchange: Exchange) -> None:
        self._later(
            self.latency(exchange.caller), lambda: exchange.finish(ConnectionResetError("the server has closed it"))
        )

    def _balance(self, caller: Process) -> "Server | None":
        up = [server for server in self.servers if server.is_open]
        return self._faults.stream(f"{caller.name} balance").choice(up) if up else None

    def _strike(self, exchange: Exchange, fault: Fault, delay: float) -> float:
        """Apply the fault, and return how much later the request arrives."""
        chance = fault.chance
        what = f"{fault.kind}: {exchange.sent.method} {exchange.sent.path}"
        match fault.kind:
            case "cut before delivery":
                exchange.is_cut = True
                self._later(delay, lambda: exchange.finish(ConnectionResetError("the connection was cut")))
            case "cut while the server works":
                cut_after = delay + chance.choice([0.001, 0.05, 1, 20]) * chance.random()
                noticed_after = chance.choice([0.0, 0.05, 3]) * chance.random()
                self._later(cut_after, lambda: self._cut_now(exchange, noticed_after))
                what += f" after {cut_after:.3f} s"
            case "reply lost" | "no reply at all":
                exchange.response_fault = fault.kind
            case "delayed":
                late = chance.choice([1, 6, 30]) * chance.random()
                self._story.add(exchange.caller.name, f"! {what} by {late:.1f} s [{fault.name}]")
                return late
            case _:
                late = LATE_SECONDS * chance.random() if fault.kind == "duplicated late" else chance.random()
                self._later(delay + late, lambda: self._deliver_again(exchange, fault))
                what += f" after {late:.2f} s"
        self._story.add(exchange.caller.name, f"! {what} [{fault.name}]")
        return 0.0

    def _cut_now(self, exchange: Exchange, noticed_after: float) -> None:
        if not exchange.has_responded:
            exchange.finish(ConnectionResetError("the connection was cut"))
            self.cut(exchange, noticed_after)

    def _deliver_again(self, first: Exchange, fault: Fault) -> None:
        up = [server for server in self.servers if server.is_open]
        if not up:
            return
        server = fault.chance.choice(up)
        again = Exchange(self, server, first.sent, Process(f"{first.caller.name}, again"), lambda _outcome: None)
        self._story.add(
            first.caller.name, f"! its {first.sent.method} {first.sent.path} arrives again at {server.name}"
        )
        server.deliver(again)
        # The sender of the duplicate gives up at some point, too.
        self._later(fault.chance.choice([0.01, 1, 40]) * fault.chance.random(), lambda: self.cut(again, 0))

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._scheduler.at(self._scheduler.now + seconds, call)


def _parse_message(data: bytes) -> tuple[str, dict[str, str], bytes]:
    """Split a request or response into first line, headers and body."""
    head, _, body = data.partition(b"\r\n\r\n")
    start, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    assert len(body) == int(headers.get("content-length", 0)), "it is written in one piece"
    return start, headers, body


class SimulatedSocket:
    """The parts of a socket that `octostore.client.http` uses."""

    network: Network
    scheduler: Scheduler

    def __init__(self, _address: tuple[str, int], seconds: float) -> None:
        self._seconds = seconds
        self._exchange: Exchange | None = None
        self._outcome: Response | OSError | None = None
        self._waiter: Fiber | None = None
        if not self.network.is_any_server_up():
            self.scheduler.sleep(LATENCY_SECONDS)
            raise ConnectionRefusedError("no server is up")

    def setsockopt(self, *_option: int) -> None: ...

    def gettimeout(self) -> float:
        return self._seconds

    def settimeout(self, seconds: float) -> None:
        self._seconds = seconds

    def sendall(self, data: bytes) -> None:
        start, headers, body = _parse_message(data)
        method, path, _ = start.split()
        self._outcome = None
        sent = Sent(method, path, headers, body)
        self._exchange = self.network.call(self.scheduler.process, sent, self._on_outcome)

    def recv(self, _most: int) -> bytes:
        """Return the whole response at once."""
        until = self.scheduler.now + self._seconds
        self._waiter = self.scheduler.current
        while self._outcome is None:
            if not self.scheduler.block(until):
                raise TimeoutError("timed out")
        # Idle connections live until the process ends; do not keep the exchange alive with them.
        self._waiter = self._exchange = None
        if isinstance(self._outcome, OSError):
            raise self._outcome
        return self._outcome.data

    def close(self) -> None:
        if self._exchange is not None and self._outcome is None:
            self._exchange.hang_up()

    def shutdown(self, _how: int) -> None:
        self._on_outcome(ConnectionAbortedError("it was shut"))
        if self._exchange is not None:
            self._exchange.hang_up()

    def _on_outcome(self, outcome: Response | OSError) -> None:
        if self._outcome is None:
            self._outcome = outcome
            if self._waiter is not None:
                self.scheduler.wake(self._waiter)


class _Headers:
    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    def get(self, name: str) -> str | None:
        return self._headers.get(name.lower())


class SimulatedSession:
    """The parts of `aiohttp.ClientSession` that `octostore.client.http.async_port` uses."""

    network: Network
    scheduler: Scheduler

    def __init__(self, headers: dict[str, str], **_options: Any) -> None:
        self._headers = headers
        self.closed = False

    def request(
        self,
        method: str,
        url: Any,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout: aiohttp.ClientTimeout,
        **_options: Any,
    ) -> "_AsyncCall":
        path = url.raw_path_qs
        sent = Sent(method, path, {**self._headers, **(headers or {})}, data)
        return _AsyncCall(self.network, self.scheduler, sent, timeout.sock_read or 0)

    async def close(self) -> None:
        self.closed = True


class _AsyncCall:
    def __init__(self, network: Network, scheduler: Scheduler, sent: Sent, seconds: float) -> None:
        self._network = network
        self._scheduler = scheduler
        self._sent = sent
        self._seconds = seconds

    async def __aenter__(self) -> Any:
        loop = asyncio.get_running_loop()
        if not self._network.is_any_server_up():
            key: Any = SimpleNamespace(ssl=None, host="server", port=1)
            raise aiohttp.ClientConnectorError(key, ConnectionRefusedError("no server is up"))
        arrived: asyncio.Future[Response | OSError] = loop.create_future()

        def settle(outcome: Response | OSError) -> None:
            if not arrived.done():
                arrived.set_result(outcome)

        def on_outcome(outcome: Response | OSError) -> None:
            loop.call_soon_threadsafe(settle, outcome)

        exchange = self._network.call(self._scheduler.process, self._sent, on_outcome)
        try:
            outcome = await asyncio.wait_for(arrived, self._seconds)
        except BaseException:
            if exchange is not None:
                exchange.hang_up()
            raise
        if isinstance(outcome, OSError):
            raise outcome
        return _AsyncResponse(outcome)

    async def __aexit__(self, *_: object) -> None:
        pass


class _AsyncResponse:
    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = _Headers(response.headers)
        self._body = response.body

    async def read(self) -> bytes:
        return self._body
