"""How a server is set up: from the command line, each option also from the environment where contract or custom say."""

import argparse
import math
import os
import sys
from pathlib import Path
from typing import NoReturn

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


BAD_INPUT = 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(BAD_INPUT, f"{self.prog}: {message}\n")


def from_command_line(arguments: list[str] | None = None) -> Settings:
    """Exits with 64 for options that cannot be understood. The names of options are those of the settings."""
    parser = _Parser(
        prog="octostore serve",
        description="Serve a store over HTTP. The store is OCTOSTORE_URL, by default the embedded file of this user.",
        epilog="Example: octostore serve --host 0.0.0.0 --allow-host locks.example.org",
    )
    add = parser.add_argument
    add("--host", help="the address to listen on (%(default)s)")
    add("--port", type=_port, help="the port to listen on; 0 for any that is free (%(default)s)")
    add("--uds", type=Path, metavar="FILE", help="listen on this Unix socket instead")
    add("--url", help="the store to serve, instead of OCTOSTORE_URL")
    add(
        "--tokens-file",
        type=Path,
        metavar="FILE",
        help="tokens that are set from outside (OCTOSTORE_SERVER_TOKENS_FILE); nobody else may be able to read it",
    )
    add("--allow-host", action="append", dest="allow_hosts", metavar="NAME", help="also answer for this host name")
    add("--allow-origin", action="append", dest="allow_origins", metavar="URL", help="let pages of this site call")
    add("--max-locks", type=_positive, metavar="N", help="locks per principal (%(default)s)")
    add("--max-claims", type=_positive, metavar="N", help="other claims per principal; no limit by default")
    add("--requests-per-second", type=_positive, metavar="N", help="requests per second and principal (%(default)s)")
    add("--max-connections", type=_positive, metavar="N", help="connections at once (%(default)s)")
    add(
        "--request-seconds",
        type=_seconds,
        metavar="S",
        help="how long a client may take to send a request (%(default)s)",
    )
    add(
        "--idle-seconds",
        type=_seconds,
        metavar="S",
        help="how long a connection may be open without a request (%(default)s)",
    )
    add(
        "--stream-seconds",
        type=_seconds,
        metavar="S",
        help="how long a reader of a stream may keep us waiting (%(default)s)",
    )
    add("--keepalive-seconds", type=_seconds, metavar="S", help="how long a stream may be silent (%(default)s)")
    usual = Settings(tokens_file=_path_from("OCTOSTORE_SERVER_TOKENS_FILE"))
    parser.set_defaults(**msgspec.structs.asdict(usual) | {"allow_hosts": [], "allow_origins": []})
    given = vars(parser.parse_args(arguments))
    origins = tuple(origin.rstrip("/") for origin in given["allow_origins"])
    return Settings(**given | {"allow_hosts": tuple(given["allow_hosts"]), "allow_origins": origins})


def _path_from(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return number


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:  # noqa: PLR2004  # what a port is
        raise argparse.ArgumentTypeError(f"{text!r} is no port; ports are from 0 to 65535")
    return int(text)
