"""A real PostgreSQL for the tests: one for each process of the run, started when first needed, gone at its end."""

import atexit
import os
import shutil
import signal
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from subprocess import Popen
from urllib.parse import urlencode

import psycopg
from psycopg import sql

from octostore.stores.postgres.connection import Place
from tests.support.pg_programs import NEWEST, programs
from tests.support.processes import PATIENCE_SECONDS, until

_numbers = count(1)


def postgres_url(version: int = NEWEST) -> str:
    return _started(version)


@cache
def _started(version: int) -> str:
    # Not pytest's folder: as root the server runs as another user, who could not get there.
    folder = Path(tempfile.mkdtemp(prefix="octostore-pg-"))
    os.chown(folder, *programs(version).owner)
    data = folder / "data"
    programs(version).init(data)
    # It may be killed, and then its disk is still there.
    options = ("-c", "listen_addresses=", "-k", folder, "-c", "fsync=off")
    with (folder / "log").open("wb") as log:
        server = programs(version).start("postgres", "-D", data, *options, stdout=log, stderr=log, cwd=folder)
    atexit.register(_end, server, folder)
    url = f"postgresql://postgres:@/postgres?host={folder}"
    until(lambda: _answers(url))
    return url


def _answers(url: str) -> bool:
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
    """The URL of a store of one's own, in the same database."""
    return f"{postgres_url(version)}&{urlencode({'schema': f'octostore_{next(_numbers)}'})}"


def drop_schema(place: Place) -> None:
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(place.schema)))
