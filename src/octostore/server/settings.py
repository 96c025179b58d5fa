"""How a server is set up: from the command line, each option also from the environment where contract or custom say."""

import argparse
import math
import os
from pathlib import Path

import msgspec

from octostore.core import limits

KIB = 1_024


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 3000
    uds: Path | None = None
    url: str | None = None
    """The store; by default `OCTOSTORE_URL`, else the file in the data folder."""
    tokens_file: Path | None = None

    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()

    max_locks: int = limits.LOCKS_PER_PRINCIPAL
    max_claims: int | None = None
    requests_per_second: float = 5_000
    max_connections: int = 10_000
    max_body_bytes: int = 320 * KIB
    max_head_bytes: int = 16 * KIB
    max_headers: int = 64
    request_seconds: float = 20
    """How long a client may take to send one request."""
    idle_seconds: float = 75
    """How long a connection may be open without a request."""
    stream_seconds: float = 20
    """How long a reader of a stream may take until there is room for more."""
    keepalive_seconds: float = 15
    """How long a stream may be silent: then a comment is sent, for those in between who close what is idle."""
    sweep_seconds: float = 1
    """How soon expiries are written down by a server that has nothing else to do."""
    stop_seconds: float = 20
    """How long requests may take to finish when the server stops."""


def from_command_line(arguments: list[str] | None = None) -> Settings:
    parser = argparse.ArgumentParser(
        prog="octostore serve",
        description="Serve a store over HTTP. The store is OCTOSTORE_URL, by default the embedded file of this user.",
        epilog="Example: octostore serve --host 0.0.0.0 --allow-host locks.example.org",
    )
    usual = Settings()
    add = parser.add_argument
    add("--host", default=usual.host, help="the address to listen on (%(default)s)")
    add("--port", type=_port, default=usual.port, help="the port to listen on; 0 for any that is free (%(default)s)")
    add("--uds", type=Path, help="listen on this Unix socket instead")
    add("--url", help="the store to serve (OCTOSTORE_URL, else the embedded file)")
    add(
        "--tokens-file",
        type=Path,
        default=_path_from("OCTOSTORE_SERVER_TOKENS_FILE"),
        help="tokens that are set from outside; only its owner may be able to read it (OCTOSTORE_SERVER_TOKENS_FILE)",
    )
    add("--allow-host", action="append", default=[], metavar="NAME", help="also answer for this host name")
    add("--allow-origin", action="append", default=[], metavar="URL", help="let web pages of this site call (CORS)")
    add("--max-locks", type=_positive, default=usual.max_locks, help="locks per principal (%(default)s)")
    add("--max-claims", type=_positive, help="other claims per principal (no limit)")
    add(
        "--requests-per-second",
        type=_positive,
        default=usual.requests_per_second,
        help="per principal (%(default)s)",
    )
    add("--max-connections", type=_positive, default=usual.max_connections, help="at once (%(default)s)")
    add(
        "--request-seconds",
        type=_seconds,
        default=usual.request_seconds,
        metavar="SECONDS",
        help="how long a client may take to send a request (%(default)s)",
    )
    add(
        "--idle-seconds",
        type=_seconds,
        default=usual.idle_seconds,
        metavar="SECONDS",
        help="how long a connection may be open without a request (%(default)s)",
    )
    add(
        "--stream-seconds",
        type=_seconds,
        default=usual.stream_seconds,
        metavar="SECONDS",
        help="how long a reader of a stream may be behind before it has to resume (%(default)s)",
    )
    add(
        "--keepalive-seconds",
        type=_seconds,
        default=usual.keepalive_seconds,
        metavar="SECONDS",
        help="how long a stream may be silent (%(default)s)",
    )
    given = parser.parse_args(arguments)
    return Settings(
        host=given.host,
        port=given.port,
        uds=given.uds,
        url=given.url,
        tokens_file=given.tokens_file,
        allow_hosts=tuple(given.allow_host),
        allow_origins=tuple(origin.rstrip("/") for origin in given.allow_origin),
        max_locks=given.max_locks,
        max_claims=given.max_claims,
        requests_per_second=given.requests_per_second,
        max_connections=given.max_connections,
        request_seconds=given.request_seconds,
        idle_seconds=given.idle_seconds,
        stream_seconds=given.stream_seconds,
        keepalive_seconds=given.keepalive_seconds,
    )


def _path_from(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65_535:  # noqa: PLR2004  # what a port is
        raise argparse.ArgumentTypeError(f"{text} is no port; ports are from 0 to 65535")
    return number
