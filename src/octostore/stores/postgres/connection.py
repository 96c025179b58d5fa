"""Opening the database: where it is, which schema is ours, and that it is of a version we know."""

import os
import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from octostore.core.errors import InvalidInput, Unreachable
from octostore.stores.named_sql import load_queries

SCHEMA_DEFAULT = "octostore"
LISTEN_VARIABLE = "OCTOSTORE_LISTEN_URL"
MIGRATION_LOCK = 0x4F637453  # "OctS"
CONNECT_SECONDS = 5
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Place(NamedTuple):
    """Which database, and which schema in it. `listen_url` leads there directly where `url` goes through a pooler."""

    url: str
    schema: str
    listen_url: str

    def __str__(self) -> str:
        """For people; without a password."""
        known = conninfo_to_dict(self.url)
        hosts, ports = str(known.get("host", "")).split(","), str(known.get("port", "")).split(",")
        ports += [ports[-1]] * (len(hosts) - len(ports))
        where = ",".join(f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False))
        return f"PostgreSQL at {where or 'its usual place'}, database {known.get('dbname', '')}, schema {self.schema}"


def parse_place(url: str) -> Place:
    """`schema` among the parameters of the URL is ours; all others are libpq's."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise InvalidInput("url", "is no valid URL; it must look like postgresql://user@host/database") from None
    schema = dict(query).get("schema", SCHEMA_DEFAULT)
    if not _NAME.fullmatch(schema):
        raise InvalidInput("url", f"names the schema {schema!r}; use lower-case letters, digits and _, at most 63")
    rest = urlencode([(name, value) for name, value in query if name != "schema"])
    url = urlunsplit(parts._replace(query=rest))
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise InvalidInput("url", f"cannot be understood by PostgreSQL's client: {error}") from None
    return Place(url, schema, os.environ.get(LISTEN_VARIABLE) or url)


def connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(
        url,
        autocommit=True,  # transactions begin and end in our own pipelines
        prepare_threshold=None,  # nothing that stays with the connection: behind a pooler it may be another one
        connect_timeout=CONNECT_SECONDS,
        application_name="octostore",
        tcp_user_timeout=10_000,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
    )


def load_sql(schema: str) -> dict[str, str]:
    return load_queries(Path(__file__).with_name("queries.sql"), schema=schema)


def migrations(schema: str) -> list[str]:
    """The scripts that lead from nothing to the current schema; its version is how many it has had."""
    scripts = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
    return [script.read_text(encoding="utf-8").replace("{schema}", schema) for script in scripts]


def prepare(connection: psycopg.Connection[Any], place: Place) -> None:
    """Create the schema if there is none, and bring it up to date. Whoever comes first does it."""
    scripts = migrations(place.schema)
    version = _version(connection, place.schema)
    if version == len(scripts):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        version = _version(connection, place.schema)
        if version > len(scripts):
            _check_older(connection, place, known=len(scripts))
            return
        if version == 0:
            name = sql.Identifier(place.schema)
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
            connection.execute(
                sql.SQL("CREATE TABLE {}.migrations (version integer PRIMARY KEY, reads_from integer NOT NULL)").format(
                    name
                )
            )
        for number, script in enumerate(scripts[version:], version + 1):
            connection.execute(script)
            connection.execute(
                sql.SQL("INSERT INTO {}.migrations VALUES (%s, %s)").format(sql.Identifier(place.schema)),
                (number, OLDEST_READER.get(number, number)),
            )


OLDEST_READER: dict[int, int] = {1: 1}
"""Version -> the oldest one whose code can still work with it; so that servers can be replaced one by one."""


def _check_older(connection: psycopg.Connection[Any], place: Place, *, known: int) -> None:
    """A newer schema is fine if whoever made it said so."""
    row = connection.execute(
        sql.SQL("SELECT reads_from FROM {}.migrations ORDER BY version DESC LIMIT 1").format(
            sql.Identifier(place.schema)
        )
    ).fetchone()
    if row is None or row[0] > known:
        raise Unreachable(
            f"{place} is of a newer version than this OctoStore knows; upgrade OctoStore. It was left as it is",
            reason="newer_schema",
        )


def _version(connection: psycopg.Connection[Any], schema: str) -> int:
    exists = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{schema}.migrations",)).fetchone()
    if exists is None or not exists[0]:
        return 0
    query = sql.SQL("SELECT coalesce(max(version), 0) FROM {}.migrations").format(sql.Identifier(schema))
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0
