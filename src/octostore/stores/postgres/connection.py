"""Connect to the database: parse its URL, find our schema, and check that its version is one we know."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.abc import Transformer as TransformerProtocol
from psycopg.adapt import Transformer
from psycopg.conninfo import conninfo_to_dict, make_conninfo, timeout_from_conninfo
from psycopg.pq import Conninfo
from psycopg.pq.abc import PGresult

from octostore.core.errors import InvalidInput, Unreachable
from octostore.stores.identity import no_store
from octostore.stores.rows import Row

T = TypeVar("T")

SCHEMA_DEFAULT = "octostore"
LISTEN_VARIABLE = "OCTOSTORE_LISTEN_URL"
MIGRATION_LOCK = 0x4F637453  # "OctS"
MIGRATION_LIMITS = {"idle_in_transaction_session_timeout": "5s", "lock_timeout": "60s"}
"""How long a process may stall while creating tables, and how long others wait for it."""
MIGRATION_TIMEOUT_SECONDS = 600.0
"""How long a migration's statement may take: tables can be large."""
TIMEOUT_SECONDS = 15.0
"""A connection that is silent for this long counts as lost. Statements are cancelled a little earlier."""
DEFAULTS: dict[str, Any] = {
    "target_session_attrs": "read-write",  # if there are several hosts, the others are standbys
    "application_name": "octostore",
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
"""Defaults; the URL takes precedence. The last four let the system notice a dead network."""
ENCODING = {"client_encoding": "UTF8"}
"""Independent of the database's encoding: we encode and decode text ourselves."""
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SCHEMA = re.compile(r"(?<=[?&])schema=([^&]*)(?:&|$)")
_USER = re.compile(r"//[^@/]*@")
_SCHEME = re.compile(r"\w+://")
_AUTHORITY = re.compile(r"\w+://([^@/?]*@)?[^@/?]*(/[^@?]*)?(\?.*)?", re.DOTALL)
_PORTS = re.compile(r"[\d,]*", re.ASCII)
_ESCAPES = "in a user name or password, write @ as %40, / as %2F, : as %3A, ? as %3F and % as %25"


class DatabaseAddress(NamedTuple):
    """A database and a schema in it. `listen_url` bypasses the pooler that `url` may go through."""

    url: str
    schema: str
    listen_url: str

    def __str__(self) -> str:
        """For people; without the password."""
        known = conninfo_to_dict(self.url)
        hosts, ports = str(known.get("host", "")).split(","), str(known.get("port", "")).split(",")
        ports += [ports[-1]] * (len(hosts) - len(ports))
        where = ",".join(f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False))
        return f"PostgreSQL at {where or 'its default address'}, database {_database(known)}, schema {self.schema}"


def _database(known: dict[str, Any]) -> str:
    """Which database libpq uses: by default, the one named after the user."""
    if "service" in known and "dbname" not in known:
        return f"of service {known['service']}"
    # All of them, also the password, which need not be UTF-8.
    defaults = {one.keyword.decode(): one.val.decode(errors="replace") for one in Conninfo.get_defaults() if one.val}
    given = defaults | known
    return str(given.get("dbname") or given.get("user", ""))


def parse_address(url: str) -> DatabaseAddress:
    """The `schema` parameter of the URL is ours; all others are libpq's."""
    rest, schema = _parse(url, "url")
    listen_url = os.environ.get(LISTEN_VARIABLE)
    return DatabaseAddress(rest, schema, _parse(listen_url, LISTEN_VARIABLE)[0] if listen_url else rest)


def _parse(url: str, field: str) -> tuple[str, str]:
    schema = unquote((_SCHEMA.findall(url) or [SCHEMA_DEFAULT])[-1])
    if not _NAME.fullmatch(schema):
        raise InvalidInput(
            field, f"names the schema {schema!r}; use at most 63 lower-case letters, digits and _, with no digit first"
        )
    rest = _SCHEMA.sub("", url)
    if not _SCHEME.match(rest):
        raise InvalidInput(field, "must start with postgresql://, as in postgresql://user@host/database")
    if not _AUTHORITY.fullmatch(rest):
        raise InvalidInput(field, f"has an @ where there should be none; {_ESCAPES}")
    try:
        _check(rest)
    except psycopg.ProgrammingError:
        raise InvalidInput(field, f"is not valid for PostgreSQL's client{_what_is_wrong(rest)}") from None
    if not _PORTS.fullmatch(str(conninfo_to_dict(rest).get("port", ""))):  # perhaps a password, so do not quote it
        raise InvalidInput(field, "has a port that is not a number; after user and password, write @ and the host")
    return rest, schema


def _check(url: str) -> None:
    """Other values are checked by libpq when it connects."""
    timeout_from_conninfo(conninfo_to_dict(url))


def _what_is_wrong(url: str) -> str:
    """What libpq complains about. It quotes what it does not understand, so user and password are removed first."""
    try:
        _check(_USER.sub("//", url, count=1))
    except psycopg.ProgrammingError as error:
        if "password" not in url:
            return f": {str(error).strip()}"
    return f"; {_ESCAPES}"


class Connection(psycopg.Connection[Any]):
    """A connection that never waits forever: a network, proxy or process that stops may not say so."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.timeout_seconds = TIMEOUT_SECONDS
        self.prepared: set[bytes] | None = None
        """Names of prepared statements; None if a pooler may send us to another backend, which does not know them."""
        self._loaders: TransformerProtocol = Transformer(self)

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        return super().wait(self._in_time(gen), *args, **options)

    def note_prepared(self, name: bytes) -> None:
        if self.prepared is not None:
            self.prepared.add(name)

    def rows_of(self, result: PGresult) -> list[Row]:
        if not result.ntuples:
            return []  # avoid looking up the column types for nothing
        self._loaders.set_pgresult(result)
        return self._loaders.load_rows(0, result.ntuples, tuple)

    def _in_time(self, gen: PQGen[T]) -> PQGen[T]:
        """Runs psycopg's waiting, which looks in several times a second, against a deadline."""
        try:
            wanted = next(gen)
            heard_at = time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    heard_at = time.monotonic()
                elif time.monotonic() - heard_at > self.timeout_seconds:
                    self.close()  # does not wait for the server
                    raise psycopg.OperationalError(f"no answer within {self.timeout_seconds:g} seconds")
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


def connect(url: str) -> Connection:
    connection = Connection.connect(
        make_conninfo("", **DEFAULTS | conninfo_to_dict(url) | ENCODING),
        autocommit=True,  # our own pipelines begin and end transactions
        prepare_threshold=None,
    )
    if is_direct(connection):
        connection.prepared = set()  # planning is most of what a small batch costs the database
    return connection


def is_direct(connection: psycopg.Connection[Any]) -> bool:
    """Whether it leads to one server process that keeps session state, and not to a pooler.

    Poolers report process ids of their own, because the process behind them changes.
    """
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] == connection.info.backend_pid


def disown(connection: psycopg.Connection[Any]) -> None:
    """In a forked child: the connection is the parent's, and closing it properly would end the parent's session."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    with suppress(psycopg.OperationalError, OSError):
        os.dup2(nowhere, connection.fileno())
    os.close(nowhere)


def migrations(schema: str) -> list[str]:
    """The scripts that build the current schema; a schema's version is the number of scripts it has run."""
    scripts = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
    return [script.read_text(encoding="utf-8").replace("{schema}", schema) for script in scripts]


def prepare(connection: Connection, address: DatabaseAddress) -> None:
    """Migrate the store if it exists. The first process to arrive does it."""
    version = _version(connection, address.schema)
    if version == 0:
        raise no_store(address)
    if version != len(migrations(address.schema)):
        migrate(connection, address)


def migrate(connection: Connection, address: DatabaseAddress) -> None:
    """Migrate the store, or create it."""
    connection.timeout_seconds = MIGRATION_TIMEOUT_SECONDS
    _migrate(connection, address)
    connection.timeout_seconds = TIMEOUT_SECONDS


def _migrate(connection: Connection, address: DatabaseAddress) -> None:
    scripts = migrations(address.schema)
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # to see what others did while we waited
    with connection.transaction():
        for limit in MIGRATION_LIMITS.items():
            connection.execute("SELECT set_config(%s, %s, true)", limit)
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        version = _version(connection, address.schema)
        if version > len(scripts):
            _check_older(connection, address, known=len(scripts))
            return
        if version == 0:
            name = sql.Identifier(address.schema)
            if not _has_schema(connection, address.schema):
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
            connection.execute(
                sql.SQL("CREATE TABLE {}.migrations (version integer PRIMARY KEY, reads_from integer NOT NULL)").format(
                    name
                )
            )
        for number, script in enumerate(scripts[version:], version + 1):
            connection.execute(script)
            connection.execute(
                sql.SQL("INSERT INTO {}.migrations VALUES (%s, %s)").format(sql.Identifier(address.schema)),
                (number, OLDEST_READER.get(number, number)),
            )


OLDEST_READER: dict[int, int] = {1: 1, 2: 1, 3: 3, 4: 3, 5: 3, 6: 6}
"""Version -> the oldest version whose code still works with it, so that servers can be upgraded one by one."""


def _check_older(connection: psycopg.Connection[Any], address: DatabaseAddress, *, known: int) -> None:
    """A newer schema is fine if it declares that it works with our version."""
    row = connection.execute(
        sql.SQL("SELECT reads_from FROM {}.migrations ORDER BY version DESC LIMIT 1").format(
            sql.Identifier(address.schema)
        )
    ).fetchone()
    if row is None or row[0] > known:
        raise Unreachable(
            f"{address} was written by a newer version of OctoStore; upgrade OctoStore. Nothing was changed",
            reason="newer_schema",
        )


def _has_schema(connection: psycopg.Connection[Any], schema: str) -> bool:
    """Query first: IF NOT EXISTS needs the right to create a schema even if an administrator has created it."""
    query = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s"
    return connection.execute(query, (schema,)).fetchone() is not None


def _version(connection: psycopg.Connection[Any], schema: str) -> int:
    query = "SELECT FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'migrations'"
    # Not to_regclass(): within a transaction, it may miss what others have created since.
    if connection.execute(query, (schema,)).fetchone() is None:
        return 0
    newest = sql.SQL("SELECT coalesce(max(version), 0) FROM {}.migrations").format(sql.Identifier(schema))
    row = connection.execute(newest).fetchone()
    return int(row[0]) if row else 0
