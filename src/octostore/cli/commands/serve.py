"""Serve a store over HTTP. The store is --url, else OCTOSTORE_URL, else your own file.

The server writes its first token, an admin token, to a file that only you can read, and prints the path. Your own
clients on this machine find it there automatically.
"""

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from octostore.cli.options import integer_from, positive_integer, seconds
from octostore.cli.subcommands import Arguments, Context
from octostore.core.errors import InvalidInput
from octostore.server.addresses import check_trusted
from octostore.server.log_formats import LOG_FORMATS
from octostore.server.settings import Settings

if TYPE_CHECKING:
    from octostore.server.tools import Tools

EXAMPLES = [
    "octostore serve",
    "octostore serve --host 0.0.0.0 --allow-host locks.example.org",
    "octostore serve --base-path /octo --trusted-proxy 127.0.0.1  # behind nginx, at https://example.org/octo/",
    "OCTOSTORE_URL=sqlite:////var/lib/octostore/jobs.db octostore serve --port 8080",
]
TOKENS_FILE_VARIABLE = "OCTOSTORE_SERVER_TOKENS_FILE"
PORT_MAX = 65_535


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", help="the address to listen on (default: %(default)s)")
    add(
        "--port",
        type=integer_from(0, PORT_MAX),
        help="the port to listen on; 0 picks a free one (default: %(default)s)",
    )
    add("--uds", type=Path, metavar="FILE", help="listen on this Unix socket instead")
    add(
        "--tokens-file",
        type=Path,
        metavar="FILE",
        help=f"file of preconfigured tokens, readable only by you (default: {TOKENS_FILE_VARIABLE})",
    )
    add(
        "--allow-host",
        action="append",
        dest="allow_hosts",
        metavar="NAME",
        help="also accept requests for this host name",
    )
    add(
        "--allow-origin",
        type=_origin,
        action="append",
        dest="allow_origins",
        metavar="URL",
        help="allow requests from web pages with this origin",
    )
    add(
        "--trusted-proxy",
        action="append",
        type=_proxy,
        dest="trusted_proxies",
        metavar="CIDR",
        help="trust Forwarded and X-Forwarded-For from this network, e.g. 10.0.0.0/8, or unix for the Unix socket",
    )
    add("--base-path", metavar="PATH", help="path at which a proxy serves this server, if not /, e.g. /octo")
    add("--no-ui", action="store_false", dest="has_page", help="do not serve the live page")
    for option, what in _LIMITS.items():
        add(option, type=positive_integer, metavar="N", help=f"maximum {what}")
    add("--log-format", choices=LOG_FORMATS, help="format of the log on stderr (default: %(default)s)")
    add("--access-log", action="store_true", help="also log each request: who, what, status and duration")
    for options, what in _SECONDS.items():
        add(*options.split(), type=_seconds, metavar="S", help=f"{what} (default: %(default)s)")
    defaults = msgspec.structs.asdict(Settings()) | {"allow_hosts": [], "allow_origins": [], "trusted_proxies": []}
    del defaults["url"]  # every command has this option
    parser.set_defaults(**defaults)


_LIMITS = {
    "--max-locks": "locks per principal (default: %(default)s)",
    "--max-claims": "live claims per principal, locks excluded (default: %(default)s)",
    "--max-sessions": "open sessions per principal (default: %(default)s)",
    "--max-queued": "queued jobs per principal (default: %(default)s)",
    "--requests-per-second": "requests per second per principal (default: %(default)s)",
    "--max-streams": "open event streams per principal (default: %(default)s)",
    "--max-connections": "connections (default: %(default)s)",
    "--max-connections-per-address": "connections from one address; unlimited from this machine (default: 1000)",
}
_SECONDS = {
    "--request-seconds": "how long a client may take to send a request",
    "--idle-seconds": "how long an idle connection stays open",
    "--write-seconds --stream-seconds": "how long a client may take to read a response",
    "--keepalive-seconds": "interval between keepalives on an idle stream",
    "--slow-batch-seconds": "log transactions that take longer than this",
}


def run(arguments: Arguments, context: Context) -> None:
    try:
        from octostore.server import listen  # noqa: PLC0415  # clients need not have it installed
    except ImportError as missing:
        from octostore.extras import how_to_add  # noqa: PLC0415

        raise InvalidInput("serve", f"needs {missing.name}; to install it: {how_to_add('server')}") from None
    given = {name: value for name, value in vars(arguments).items() if name in Settings.__struct_fields__}
    named = os.environ.get(TOKENS_FILE_VARIABLE)
    given["tokens_file"] = arguments.tokens_file or (Path(named) if named else None)
    given["allow_hosts"] = tuple(arguments.allow_hosts)
    given["allow_origins"] = tuple(arguments.allow_origins)
    given["base_path"] = arguments.base_path.rstrip("/")
    given["trusted_proxies"] = tuple(arguments.trusted_proxies)
    given["url"] = context.address.url
    default = Settings()
    if arguments.uds is not None and (arguments.host, arguments.port) != (default.host, default.port):
        raise InvalidInput("--uds", "cannot be combined with --host or --port: a server listens on one address")
    listen.main(
        Settings(**given), lambda greeting: context.console.print_result(greeting, *greeting.lines), _load_tools
    )


def _load_tools() -> "Tools":
    from octostore.mcp.http.app import HttpTools  # noqa: PLC0415  # imported with the first request to /mcp

    return HttpTools()


def _origin(text: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@]+/?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an origin; use the form https://example.org")
    return text.rstrip("/")


def _proxy(text: str) -> str:
    try:
        return check_trusted(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"{problem}; use a network like 10.0.0.0/8, or unix") from None


def _seconds(text: str) -> float:
    number = seconds(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is too short")
    return number
