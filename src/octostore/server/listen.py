"""Running the server: from settings to a process that listens, and that stops without losing anything."""

import asyncio
import gc
import logging
import shlex
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import IPv6Address, ip_address
from os import getpid
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import msgspec

from octostore._version import __version__
from octostore.core.errors import InvalidInput, Unreachable
from octostore.server.app import App
from octostore.server.connection_limits import raise_file_limit
from octostore.server.connections import Connections
from octostore.server.log import log_event, throttled
from octostore.server.log_formats import log_to_stderr
from octostore.server.metrics import Metrics
from octostore.server.routes import check_base_path
from octostore.server.services import Services
from octostore.server.settings import Settings
from octostore.server.streams import CHUNK_BYTES
from octostore.server.tools import LoadTools
from octostore.stores.opening import chosen_url, default_path, make_data_folder, sqlite_path
from octostore.stores.store import open_store
from octostore.wire.token_files import OWN_TOKEN_LINK, address_file, link_token_file

GC_THRESHOLD = 10_000
"""How many objects are made and not gone again before those are looked for that keep each other alive."""


async def run(settings: Settings, greet: Callable[["Greeting"], None], load_tools: LoadTools | None = None) -> None:
    metrics = Metrics()
    if urlsplit(chosen_url(settings.url) or "").scheme in {"http", "https"}:
        raise InvalidInput("the store's URL", "is the URL of a server; unset OCTOSTORE_URL, or name a store with --url")
    check_base_path(settings.base_path)
    store = open_store(settings.url, on_batch=partial(_on_batch, metrics, settings.slow_batch_seconds))
    services = Services(settings, store, metrics, Path(make_data_folder()), load_tools)

    def welcome(listener: socket.socket) -> None:
        greeting = _greeting(services, listener)
        log_event(
            logging.INFO, "start", "listening", url=greeting.url, store=greeting.data, version=__version__, pid=getpid()
        )
        greet(greeting)

    await serve(services, welcome)


def _on_batch(metrics: Metrics, slow_seconds: float, size: int, seconds: float) -> None:
    metrics.on_batch(size, seconds)
    if seconds >= slow_seconds:
        throttled.warning("slow_batch", "a transaction took long", seconds=round(seconds, 3), commands=size)


async def serve(services: Services, on_ready: Callable[[socket.socket], None]) -> None:
    """Until a signal says otherwise. `on_ready` is called once the server can be reached."""
    settings = services.settings
    room = raise_file_limit(settings.max_connections)
    listener = _listen(settings, room.backlog)
    is_hurried = False
    try:
        await services.start()
        if settings.uds is None:
            _link_address_token(services, listener)
        _link_default_token(services)
        limits = msgspec.structs.replace(settings, max_connections=room.connections)
        connections = Connections(limits, App(services).answer)
        connections.tick()
        accepting = await connections.loop.create_server(connections.accept, sock=listener, backlog=room.backlog)
        _freeze_startup_objects()
        with _signals() as received:
            on_ready(listener)
            sign = signal.Signals(await received.get())
            log_event(logging.INFO, "stop", "finishing open requests", signal=sign.name)
            accepting.close()
            services.stop()
            ending, again = asyncio.create_task(connections.end()), asyncio.create_task(received.get())
            await asyncio.wait((ending, again), return_when=asyncio.FIRST_COMPLETED)
            is_hurried = again.done()
    finally:
        if settings.uds is not None:
            settings.uds.unlink(missing_ok=True)
        if not is_hurried:
            await services.close()
    log_event(logging.INFO, "stopped", "cut short by a second signal" if is_hurried else "all requests were answered")


def _link_default_token(services: Services) -> None:
    """Under one name, whatever its id and address: the token of the store that is in this folder."""
    link = services.data_folder / OWN_TOKEN_LINK
    is_own = sqlite_path(chosen_url(services.settings.url)) == default_path()
    if is_own and services.settings.tokens_file is None and (link.is_symlink() or not link.exists()):
        link_token_file(link, services.admin_file)


def _link_address_token(services: Services, listener: socket.socket) -> None:
    """Those of the same user on this machine: which token is good at this address."""
    host, port = listener.getsockname()[:2]
    address = ip_address(host)
    if address.is_unspecified:
        host = "::1" if isinstance(address, IPv6Address) else "127.0.0.1"
    elif not address.is_loopback:
        return
    link = address_file(services.data_folder, host, port)
    if services.settings.tokens_file is None:
        link_token_file(link, services.admin_file)
    else:
        link.unlink(missing_ok=True)  # whoever had the address before is gone


def _freeze_startup_objects() -> None:
    """What is there now stays, and what a claim leaves behind is gone when it is answered: the collector may rest."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


@contextmanager
def _signals() -> "Iterator[asyncio.Queue[int]]":
    """Those that mean that the server is to stop."""
    loop = asyncio.get_running_loop()
    received: asyncio.Queue[int] = asyncio.Queue()

    def on_signal(sign: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(received.put_nowait, sign)

    before = {sign: signal.signal(sign, on_signal) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def _listen(settings: Settings, backlog: int) -> socket.socket:
    try:
        if settings.uds is not None:
            return _listen_on_file(settings.uds, backlog)
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=backlog)
        # For each connection: the system keeps no more than this of what cannot be sent yet.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, CHUNK_BYTES)
        # Only by its number it knows that it is TCP, where asyncio lets nothing wait for what was sent to be confirmed.
        return socket.socket(fileno=listener.detach())
    except OSError as error:
        where = settings.uds or f"{settings.host}:{settings.port}"
        raise Unreachable(
            f"cannot listen on {where}: {error.strerror or error}; choose another with --host, --port or --uds",
            reason="address",
        ) from error


def _listen_on_file(path: Path, backlog: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as other, suppress(OSError):
            other.connect(str(path))
            raise InvalidInput("--uds", f"{path} is in use by another server")
        path.unlink()  # left by one that was killed
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(backlog)
    return listener


class Greeting(msgspec.Struct, frozen=True):
    """What whoever started a server needs to know. `token_file` has the secret; this does not."""

    url: str
    data: str
    token_file: str
    page: str | None
    """None if there is none, or if no browser can reach it."""
    api_page: str
    example: str

    @property
    def lines(self) -> list[str]:
        page = [] if self.page is None else [f"its live page is      {self.page} (`octostore ui` opens it, logged in)"]
        return [
            f"OctoStore listens on  {self.url}",
            f"its data is in        {self.data}",
            f"its token is in       {self.token_file}",
            *page,
            f"its API page is       {self.api_page}",
            "",
            f"try: {self.example}",
        ]


def _greeting(services: Services, listener: socket.socket) -> Greeting:
    settings, curl = services.settings, "curl"
    if settings.uds is not None:
        where, address = str(settings.uds), "http://localhost"
        curl = f"curl --unix-socket {shlex.quote(str(settings.uds))}"
    else:
        host, port = listener.getsockname()[:2]
        where = address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    base = address + settings.base_path
    if settings.tokens_file is None:
        token, example = str(services.admin_file), f"$(cat {shlex.quote(str(services.admin_file))})"
    else:
        token, example = f"{settings.tokens_file} (tokens are set there)", "$OCTOSTORE_TOKEN"
    return Greeting(
        url=where,
        data=services.store.local.place,
        token_file=token,
        page=f"{base}/" if settings.has_page and settings.uds is None else None,
        api_page=f"{base}/docs",
        example=f'{curl} -H "Authorization: Bearer {example}" -d \'{{"owner": "me"}}\' {base}/jobs/hello/claim',
    )


def main(settings: Settings, greet: Callable[[Greeting], None], load_tools: LoadTools | None = None) -> None:
    """Serve until a signal ends it; `greet` is called once the server can be reached. `load_tools` brings `/mcp`."""
    log_to_stderr(settings.log_format)
    try:
        import uvloop  # noqa: PLC0415  # not there on every system
    except ImportError:
        asyncio.run(run(settings, greet, load_tools))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(settings, greet, load_tools))
