"""A server's settings."""

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
    """The proxies whose headers about the client we trust: networks, or `unix`."""

    base_path: str = ""
    """The path prefix that clients use behind a proxy that serves other things too, for example `/octo`."""
    has_page: bool = True
    """Whether to serve the live page."""

    log_format: LogFormat = "text"
    access_log: bool = False
    """Whether to log each request."""
    slow_batch_seconds: float = 1
    """Transactions that take longer are logged."""

    max_locks: int = limits.LOCKS_PER_PRINCIPAL
    max_claims: int = limits.CLAIMS_PER_PRINCIPAL
    max_sessions: int = limits.SESSIONS_PER_PRINCIPAL
    max_queued: int = limits.QUEUED_PER_PRINCIPAL
    requests_per_second: float = 5_000
    max_connections: int = 10_000
    max_connections_per_address: int | None = None
    """By default, only other machines have a limit: see `connection_limits.py`."""
    max_streams: int = 100
    """Event streams per principal."""
    max_body_bytes: int = 320 * KIB
    max_batch_bytes: int = 4 * KIB * KIB
    """For a batch. Each of its commands still has the limits of a single call."""
    max_head_bytes: int = 16 * KIB
    max_headers: int = 64
    request_seconds: float = 20
    """How long a client may take to send one request."""
    idle_seconds: float = 75
    """How long a connection may be open without a request."""
    write_seconds: float = 20
    """How long a client may take to read its response."""
    keepalive_seconds: float = 15
    """How long a stream may be silent before it sends a comment, so that proxies do not close it as idle."""
    sweep_seconds: float = 1
    """How often an idle server records expiries."""
    stop_seconds: float = 20
    """How long requests may take to finish when the server stops."""
