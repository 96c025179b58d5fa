"""A real PostgreSQL for the tests: one per test process, started when first needed and stopped at the end."""

import atexit
import os
import shutil
import signal
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from subprocess import Popen
from typing import Any
from urllib.parse import urlencode

import psycopg
from psycopg import sql

from octostore.stores.postgres.connection import parse_address
from octostore.stores.store import open_store
from tests.support.pg_programs import NEWEST, programs
from tests.support.processes import PATIENCE_SECONDS, until

_numbers = count(1)
_emptied: list[str] = []
_EMPTY = sql.SQL("""
    DO $$ DECLARE name text; BEGIN
        PERFORM set_config('session_replication_role', 'replica', true);  -- a trigger protects the log otherwise
        FOR name IN
            SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
            WHERE schemaname = {} AND tablename NOT IN ('counters', 'migrations', 'store_key')
        LOOP
            EXECUTE 'DELETE FROM ' || name;
        END LOOP;
        UPDATE {} SET seq = 0, now = 0;
    END $$
""")


def postgres_url(version: int = NEWEST) -> str:
    return _started(version)


@cache
def _started(version: int) -> str:
    # Not pytest's folder: for root, the server runs as another user, which cannot enter it.
    folder = Path(tempfile.mkdtemp(prefix="octostore-pg-"))
    os.chown(folder, *programs(version).owner)
    data = folder / "data"
    programs(version).init(data)
    # No fsync: tests kill the server, not the machine. No vacuum: their tables are small, and emptied instead.
    options = ("-c", "listen_addresses=", "-k", folder, "-c", "fsync=off", "-c", "autovacuum=off")
    with (folder / "log").open("wb") as log:
        server = programs(version).start("postgres", "-D", data, *options, stdout=log, stderr=log, cwd=folder)
    atexit.register(_end, server, folder)
    url = f"postgresql://postgres:@/postgres?host={folder}"
    until(lambda: _accepts_connections(url))
    return url


def _accepts_connections(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def _end(server: "Popen[bytes]", folder: Path) -> None:
    server.send_signal(signal.SIGINT)
    server.wait(PATIENCE_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def new_schema(version: int = NEWEST) -> str:
    """The URL of a new store in the same database, not created yet."""
    return f"{postgres_url(version)}&{urlencode({'schema': f'octostore_{next(_numbers)}'})}"


def made(url: str) -> str:
    """Create the store at this URL, and return the URL."""
    store = open_store(url)
    store.create()
    store.close()
    return url


def empty_store() -> str:
    """The URL of an empty store, recycled if possible: creating one takes ten times as long."""
    return _emptied.pop() if _emptied else made(new_schema())


def put_back(url: str) -> None:
    """Empty the store for another test. Nothing may be connected to it."""
    place = parse_address(url)
    _connection(place.url).execute(_EMPTY.format(sql.Literal(place.schema), sql.Identifier(place.schema, "counters")))
    _emptied.append(url)


@cache
def _connection(url: str) -> "psycopg.Connection[Any]":
    connection = psycopg.connect(url, autocommit=True)
    atexit.register(connection.close)
    return connection
