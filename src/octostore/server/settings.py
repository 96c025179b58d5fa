"""How a server is set up."""

from pathlib import Path

import msgspec

from octostore.core import limits
from octostore.server.log_formats import LogFormat

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
    trusted_proxies: tuple[str, ...] = ()
    """Networks, or `unix`: the proxies that are believed when they tell whose request it is."""

    base_path: str = ""
    """What clients see in front of our own paths, behind a proxy that serves more than us: `/octo`."""
    has_page: bool = True
    """Whether there is a live page."""

    log_format: LogFormat = "text"
    access_log: bool = False
    """Whether each request is logged."""
    slow_batch_seconds: float = 1
    """How long a transaction may take before the log says so."""

    max_locks: int = limits.LOCKS_PER_PRINCIPAL
    max_claims: int = limits.CLAIMS_PER_PRINCIPAL
    max_sessions: int = limits.SESSIONS_PER_PRINCIPAL
    max_queued: int = limits.QUEUED_PER_PRINCIPAL
    requests_per_second: float = 5_000
    max_connections: int = 10_000
    max_connections_per_address: int | None = None
    """By default a number for those of other machines, and none for those of this one: see `connection_limits.py`."""
    max_streams: int = 100
    """Of events, per principal."""
    max_body_bytes: int = 320 * KIB
    max_batch_bytes: int = 4 * KIB * KIB
    """Of a batch, whose commands are still no larger than they may be by themselves."""
    max_head_bytes: int = 16 * KIB
    max_headers: int = 64
    request_seconds: float = 20
    """How long a client may take to send one request."""
    idle_seconds: float = 75
    """How long a connection may be open without a request."""
    write_seconds: float = 20
    """How long a client may take to read what it was sent."""
    keepalive_seconds: float = 15
    """How long a stream may be silent: then a comment is sent, for those in between who close what is idle."""
    sweep_seconds: float = 1
    """How soon expiries are written down by a server that has nothing else to do."""
    stop_seconds: float = 20
    """How long requests may take to finish when the server stops."""
