"""A proxy between a store and its PostgreSQL that sees each round trip, and can fail like a network."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias
from urllib.parse import urlencode

from psycopg.conninfo import conninfo_to_dict

from octostore.stores.postgres.connection import parse_address
from tests.support.processes import PATIENCE_SECONDS

SYNC, QUERY, READY, PARSE, BIND = b"S", b"Q", b"Z", b"P", b"B"


class Link:
    """A client's connection, and the matching one to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client = client
        self._server = server
        self.is_cut = False
        """At least the client's side."""
        self.is_muted = False
        self._has_replied = threading.Event()
        self._prepared: dict[bytes, bytes] = {}

    def deliver(self, content: bytes) -> None:
        self._server.sendall(content)

    def deliver_without_reply(self, content: bytes) -> None:
        """Deliver, and wait until the server has replied, but do not pass the reply on."""
        self._has_replied.clear()
        self.is_muted = True
        self.deliver(content)
        assert self._has_replied.wait(PATIENCE_SECONDS)

    def mute(self) -> None:
        """Pass nothing more to the client, but keep the connection."""
        self.is_muted = True

    def cut_client(self) -> None:
        """Reset the client's connection: it gets an error at once. The server does not notice."""
        self.is_cut = True
        with suppress(OSError):
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._client.shutdown(socket.SHUT_RD)  # a thread that reads from it would keep it open
        self._client.close()

    def cut(self) -> None:
        self.cut_client()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)

    def read_message(self, *, is_first: bool) -> bytes:
        """Read the client's next message: kind, length and content; the first has no kind. Empty at the end."""
        head = _read(self._client, 4 if is_first else 5)
        return head + _read(self._client, int.from_bytes(head[-4:]) - 4) if head else b""

    def statement_of(self, message: bytes) -> bytes:
        """The SQL text of a message, even if it was prepared earlier."""
        if message[:1] == PARSE:
            name, text = message[5:].split(b"\0")[:2]
            self._prepared[name] = text
        elif message[:1] == BIND:
            _portal, name = message[5:].split(b"\0")[:2]
            return self._prepared[name] + b"\n"
        elif message[:1] == QUERY:
            return message[5:-1] + b"\n"
        return b""

    def pass_replies(self) -> None:
        try:
            while head := _read(self._server, 5):
                message = head + _read(self._server, int.from_bytes(head[1:]) - 4)
                if not self.is_muted:
                    self._client.sendall(message)
                if message[:1] == READY:
                    self._has_replied.set()
        finally:
            if not self.is_muted:
                self.cut_client()
            self._server.close()


class RoundTrip(NamedTuple):
    """Everything a client sends before it waits for a reply."""

    link: Link
    content: bytes
    statements: bytes
    """The SQL texts, one after the other."""


Act: TypeAlias = Callable[[RoundTrip], None]


def pass_on(trip: RoundTrip) -> None:
    trip.link.deliver(trip.content)


def cut(trip: RoundTrip) -> None:
    """Nothing of it arrives."""
    trip.link.cut()


def cut_in_the_middle(trip: RoundTrip) -> None:
    """Half of it arrives."""
    trip.link.deliver(trip.content[: len(trip.content) // 2])
    trip.link.cut()


def cut_at_once(trip: RoundTrip) -> None:
    """All of it arrives; the server may or may not be done when the client asks again."""
    trip.link.deliver(trip.content)
    trip.link.cut()


def lose_the_reply(trip: RoundTrip) -> None:
    """The server has done it, and the client gets an error."""
    trip.link.deliver_without_reply(trip.content)
    trip.link.cut()


def swallow(trip: RoundTrip) -> None:
    """Nothing arrives, now or later, and neither side notices."""
    trip.link.mute()


def swallow_the_reply(trip: RoundTrip) -> None:
    """The server has done it, the client gets no reply, and neither side notices."""
    trip.link.deliver_without_reply(trip.content)


def cut_unnoticed(trip: RoundTrip) -> None:
    """Nothing of it arrives, and the server keeps waiting."""
    trip.link.cut_client()


def cut_unnoticed_after(part: float) -> Act:
    """This part of it arrives, and the server keeps waiting for the rest."""

    def act(trip: RoundTrip) -> None:
        trip.link.deliver(trip.content[: round(part * len(trip.content))])
        trip.link.cut_client()

    return act


def deliver_when(event: threading.Event) -> Act:
    """It arrives long after its client was cut off."""

    def act(trip: RoundTrip) -> None:
        trip.link.cut_client()
        assert event.wait(PATIENCE_SECONDS)
        with suppress(OSError):
            trip.link.deliver_without_reply(trip.content)
        trip.link.cut()

    return act


class PgProxy:
    """A proxy for the store at this URL, reachable by its own `url` until the block ends."""

    def __init__(self, url: str) -> None:
        place = parse_address(url)
        self._upstream = conninfo_to_dict(place.url)
        self.trips: list[bytes] = []
        """The statements of each round trip, including those for connecting."""
        self._acts: list[tuple[bytes, Act]] = []
        self._links: list[Link] = []
        self._is_silent = False
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        options = urlencode({"sslmode": "disable", "gssencmode": "disable", "schema": place.schema})
        self.url = f"postgresql://{self._upstream['user']}@127.0.0.1:{port}/{self._upstream['dbname']}?{options}"
        self._start(self._accept)

    def when(self, text: bytes, *acts: Act) -> None:
        """Apply these to the next round trips that contain `text`; pass on all others."""
        self._acts += [(text, act) for act in acts]

    def forget(self) -> None:
        """Pass on everything again."""
        self._acts.clear()

    @property
    def is_idle(self) -> bool:
        """Whether every act has been applied."""
        return not self._acts

    def fall_silent(self) -> None:
        """Keep connections and accept new ones, but pass on nothing in either direction."""
        self._is_silent = True
        for link in self._links:
            link.mute()

    def speak(self) -> None:
        """Serve new connections again."""
        self._is_silent = False

    def cut_all(self) -> None:
        for link in self._links:
            link.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self.cut_all()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        self._listener.close()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=_quietly, args=(target, *args), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            client = self._listener.accept()[0]
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(client, self._reach_server())
            self._links.append(link)
            if self._is_silent:
                link.mute()
            self._start(self._pass_on, link)
            self._start(link.pass_replies)

    def _reach_server(self) -> socket.socket:
        host, port = str(self._upstream["host"]), self._upstream.get("port", 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, int(str(port))), PATIENCE_SECONDS)
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _pass_on(self, link: Link) -> None:
        try:
            first = link.read_message(is_first=True)
            if not link.is_muted:
                link.deliver(first)
            while not link.is_cut and (trip := self._read_trip(link)) is not None:
                self._act_for(trip)(trip)
        except OSError:
            link.cut()
        if not link.is_cut:
            link.cut()  # the client is gone

    def _read_trip(self, link: Link) -> RoundTrip | None:
        content = statements = b""
        while message := link.read_message(is_first=False):
            content += message
            statements += link.statement_of(message)
            if message[:1] in {SYNC, QUERY}:
                return RoundTrip(link, content, statements)
            if message[:1] not in b"PBDEC":
                # Passwords and other messages outside of round trips.
                link.deliver(content)
                content = b""
        return None

    def _act_for(self, trip: RoundTrip) -> Act:
        if self._is_silent or trip.link.is_muted:
            return swallow
        if not trip.statements:
            return pass_on  # an extra Sync from psycopg
        self.trips.append(trip.statements)
        if self._acts and self._acts[0][0] in trip.statements:
            return self._acts.pop(0)[1]
        return pass_on


def _read(one: socket.socket, length: int) -> bytes:
    """Return nothing if the connection has ended."""
    content = b""
    while len(content) < length:
        part = one.recv(length - len(content))
        if not part:
            return b""
        content += part
    return content


def _quietly(target: Callable[..., None], *args: object) -> None:
    with suppress(OSError):  # one side is gone, possibly on purpose
        target(*args)
