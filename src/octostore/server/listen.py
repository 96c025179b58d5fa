"""Runs the server: opens the store, listens, and shuts down after the open requests have their responses."""

import asyncio
import gc
import logging
import shlex
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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
from octostore.server.guard import is_loopback
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
"""The number of new objects after which Python looks for garbage cycles."""


async def run(settings: Settings, greet: Callable[["Greeting"], None], load_tools: LoadTools | None = None) -> None:
    metrics = Metrics()
    if urlsplit(chosen_url(settings.url) or "").scheme in {"http", "https"}:
        raise InvalidInput("the store's URL", "is that of a server; unset OCTOSTORE_URL, or pass a store with --url")
    check_base_path(settings.base_path)
    store = open_store(settings.url, on_batch=partial(_on_batch, metrics, settings.slow_batch_seconds))
    services = Services(settings, store, metrics, Path(make_data_folder()), load_tools)

    def welcome(listener: socket.socket) -> None:
        greeting = _greeting(services, listener)
        log_event(
            logging.INFO, "start", "listening", url=greeting.url, store=greeting.data, version=__version__, pid=getpid()
        )
        _warn_of_plain_http(settings, greeting.url)
        greet(greeting)

    await serve(services, welcome)


def _warn_of_plain_http(settings: Settings, url: str) -> None:
    if settings.uds is None and not is_loopback(settings.host) and not settings.trusted_proxies:
        message = (
            "other machines can reach this server, and tokens travel unencrypted: put a TLS proxy in front and name it "
            "with --trusted-proxy, or use --host 127.0.0.1"
        )
        log_event(logging.WARNING, "plain_http", message, url=url)


def _on_batch(metrics: Metrics, slow_seconds: float, size: int, seconds: float) -> None:
    metrics.on_batch(size, seconds)
    if seconds >= slow_seconds:
        throttled.warning("slow_batch", "slow transaction", seconds=round(seconds, 3), commands=size)


async def serve(services: Services, on_ready: Callable[[socket.socket], None]) -> None:
    """Serve until a signal arrives. `on_ready` is called once the server is listening."""
    settings = services.settings
    room = raise_file_limit(settings.max_connections)
    listener = _listen(settings, room.backlog)
    address = ExitStack()
    if settings.uds is not None:
        address.callback(settings.uds.unlink, missing_ok=True)
    was_cut_short = False
    try:
        await services.start()
        if settings.uds is None:
            _link_address_token(services, listener)
        _link_default_token(services)
        limits = msgspec.structs.replace(settings, max_connections=room.connections)
        connections = Connections(limits, App(services).handle_request)
        connections.tick()
        accepting = await connections.loop.create_server(connections.accept, sock=listener, backlog=room.backlog)
        _freeze_startup_objects()
        with _signals() as received:
            on_ready(listener)
            sign = signal.Signals(await received.get())
            log_event(logging.INFO, "stop", "finishing open requests", signal=sign.name)
            address.close()  # now, because the next server may use the same path before we have finished
            accepting.close()
            services.stop()
            ending, again = asyncio.create_task(connections.end()), asyncio.create_task(received.get())
            await asyncio.wait((ending, again), return_when=asyncio.FIRST_COMPLETED)
            was_cut_short = again.done()
    finally:
        address.close()
        if not was_cut_short:
            await services.close()
    log_event(
        logging.INFO, "stopped", "cut short by a second signal" if was_cut_short else "all connections are closed"
    )


def _link_default_token(services: Services) -> None:
    """Give scripts a fixed path to the token of the store in the data folder, whatever its id and address."""
    link = services.data_folder / OWN_TOKEN_LINK
    is_own = sqlite_path(chosen_url(services.settings.url)) == default_path()
    if is_own and services.settings.tokens_file is None and (link.is_symlink() or not link.exists()):
        link_token_file(link, services.admin_file)


def _link_address_token(services: Services, listener: socket.socket) -> None:
    """Let clients of the same user on this machine find the token for this address."""
    host, port = listener.getsockname()[:2]
    host = _reachable(host)
    if not is_loopback(host):
        return
    link = address_file(services.data_folder, host, port)
    if services.settings.tokens_file is None:
        link_token_file(link, services.admin_file)
    else:
        link.unlink(missing_ok=True)  # left by the server that had this address before


def _freeze_startup_objects() -> None:
    """Keep the garbage collector idle: what exists now stays, and a claim leaves no cycles behind."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


@contextmanager
def _signals() -> "Iterator[asyncio.Queue[int]]":
    """Receive the signals that stop the server."""
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
        # Limits how much unsent data the system buffers for each connection.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, CHUNK_BYTES)
        # Reopened by its descriptor, the socket knows that it is TCP; only then does asyncio set TCP_NODELAY.
        return socket.socket(fileno=listener.detach())
    except OSError as error:
        where = settings.uds or f"{settings.host}:{settings.port}"
        problem = (error.strerror or str(error)).partition(" (while attempting")[0]
        raise Unreachable(
            f"cannot listen on {where}: {problem}; choose another address with --host, --port or --uds",
            reason="address",
        ) from error


def _listen_on_file(path: Path, backlog: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as other, suppress(OSError):
            other.connect(str(path))
            raise InvalidInput("--uds", f"{path} is in use by another server")
        path.unlink()  # left by a server that was killed
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(backlog)
    return listener


class Greeting(msgspec.Struct, frozen=True):
    """What the user needs to know about a new server. It names the token file, and never contains the token."""

    url: str
    data: str
    token_file: str
    page: str | None
    """None if the server has no page, or no browser can reach it."""
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


def _http_url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _reachable(host: str) -> str:
    """The address to use on this machine: loopback if the server listens on all interfaces."""
    address = ip_address(host)
    if not address.is_unspecified:
        return host
    return "::1" if isinstance(address, IPv6Address) else "127.0.0.1"


def _greeting(services: Services, listener: socket.socket) -> Greeting:
    settings, curl = services.settings, "curl"
    if settings.uds is not None:
        where, address = str(settings.uds), "http://localhost"
        curl = f"curl --unix-socket {shlex.quote(str(settings.uds))}"
    else:
        host, port = listener.getsockname()[:2]
        where, address = _http_url(host, port), _http_url(_reachable(host), port)
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
    """Serve until a signal arrives. `greet` is called once the server is listening; `load_tools` provides `/mcp`."""
    log_to_stderr(settings.log_format)
    try:
        import uvloop  # noqa: PLC0415  # not available on every system
    except ImportError:
        asyncio.run(run(settings, greet, load_tools))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(settings, greet, load_tools))
