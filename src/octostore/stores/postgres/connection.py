"""Opening the database: where it is, which schema is ours, and that it is of a version we know."""

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
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq.abc import PGresult

from octostore.core.errors import InvalidInput, Unreachable
from octostore.stores.identity import no_store
from octostore.stores.rows import Row

T = TypeVar("T")

SCHEMA_DEFAULT = "octostore"
LISTEN_VARIABLE = "OCTOSTORE_LISTEN_URL"
MIGRATION_LOCK = 0x4F637453  # "OctS"
MIGRATION_LIMITS = {"idle_in_transaction_session_timeout": "5s", "lock_timeout": "60s"}
"""Whoever stands still in the middle of making tables, and whoever waits for it, does so for a while, not for ever."""
MIGRATION_ANSWER_SECONDS = 600.0
"""How long to wait for an answer in the middle of that: large tables may take a while."""
ANSWER_SECONDS = 15.0
"""After so long without a word a connection counts as lost. A statement may take a little less, and is then ended."""
DEFAULTS: dict[str, Any] = {
    "target_session_attrs": "read-write",  # of several hosts, the others stand by
    "application_name": "octostore",
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
"""Unless the URL says otherwise. With the last four the system notices a network that is gone."""
ENCODING = {"client_encoding": "UTF8"}
"""Whatever the database's is: we write and read it ourselves."""
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SCHEMA = re.compile(r"(?<=[?&])schema=([^&]*)(?:&|$)")
_USER = re.compile(r"//[^@/]*@")
_AUTHORITY = re.compile(r"\w+://([^@/?]*@)?[^@/?]*(/[^@?]*)?(\?.*)?", re.DOTALL)
_ESCAPES = "in a user or password, write @ as %40, / as %2F, : as %3A, ? as %3F and % as %25"


class DatabaseAddress(NamedTuple):
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


def parse_address(url: str) -> DatabaseAddress:
    """`schema` among the parameters of a URL is ours; all others are libpq's."""
    rest, schema = _parse(url, "url")
    listen_url = os.environ.get(LISTEN_VARIABLE)
    return DatabaseAddress(rest, schema, _parse(listen_url, LISTEN_VARIABLE)[0] if listen_url else rest)


def _parse(url: str, field: str) -> tuple[str, str]:
    schema = unquote((_SCHEMA.findall(url) or [SCHEMA_DEFAULT])[-1])
    if not _NAME.fullmatch(schema):
        raise InvalidInput(field, f"names the schema {schema!r}; use at most 63 lower-case letters, digits and _")
    rest = _SCHEMA.sub("", url)
    if not _AUTHORITY.fullmatch(rest):
        raise InvalidInput(field, f"has an @ where there should be none; {_ESCAPES}")
    try:
        conninfo_to_dict(rest)
    except psycopg.ProgrammingError:
        raise InvalidInput(field, f"is not valid for PostgreSQL's client{_what_is_wrong(rest)}") from None
    return rest, schema


def _what_is_wrong(url: str) -> str:
    """What libpq says. It repeats what it does not understand, so it is asked without user and password."""
    try:
        conninfo_to_dict(_USER.sub("//", url, count=1))
    except psycopg.ProgrammingError as error:
        if "password" not in url:
            return f": {str(error).strip()}"
    return f"; {_ESCAPES}"


class Connection(psycopg.Connection[Any]):
    """One that does not wait for ever. A network, a proxy or a process that has stopped need not say so."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.answer_seconds = ANSWER_SECONDS
        self.prepared: set[bytes] | None = None
        """The statements that it knows by name. None where it may lead to somebody else next time, who knows none."""
        self._loaders: TransformerProtocol = Transformer(self)

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        return super().wait(self._in_time(gen), *args, **options)

    def note_prepared(self, name: bytes) -> None:
        if self.prepared is not None:
            self.prepared.add(name)

    def rows_of(self, result: PGresult) -> list[Row]:
        if not result.ntuples:
            return []  # nothing to find the types of all columns for
        self._loaders.set_pgresult(result)
        return self._loaders.load_rows(0, result.ntuples, tuple)

    def _in_time(self, gen: PQGen[T]) -> PQGen[T]:
        """What psycopg waits for; it looks in several times a second, with nothing in its hands."""
        try:
            wanted = next(gen)
            heard_at = time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    heard_at = time.monotonic()
                elif time.monotonic() - heard_at > self.answer_seconds:
                    self.close()  # which waits for nobody
                    raise psycopg.OperationalError(f"no answer within {self.answer_seconds:g} seconds")
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer


def connect(url: str) -> Connection:
    connection = Connection.connect(
        make_conninfo("", **DEFAULTS | conninfo_to_dict(url) | ENCODING),
        autocommit=True,  # transactions begin and end in our own pipelines
        prepare_threshold=None,
    )
    if is_direct(connection):
        connection.prepared = set()  # most of what a small batch costs the database is planning
    return connection


def is_direct(connection: psycopg.Connection[Any]) -> bool:
    """Whether it leads to one process of the server, which keeps what is said to it, and not to a pooler.

    Poolers tell their clients process numbers of their own, because there is none that stays the same.
    """
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] == connection.info.backend_pid


def disown(connection: psycopg.Connection[Any]) -> None:
    """In the child of a fork: the connection is the parent's, and saying goodbye on it would end that one's."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    with suppress(psycopg.OperationalError, OSError):
        os.dup2(nowhere, connection.fileno())
    os.close(nowhere)


def migrations(schema: str) -> list[str]:
    """The scripts that lead from nothing to the current schema; its version is how many it has had."""
    scripts = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
    return [script.read_text(encoding="utf-8").replace("{schema}", schema) for script in scripts]


def prepare(connection: Connection, address: DatabaseAddress) -> None:
    """Bring the store up to date, where there is one. Whoever comes first does it."""
    version = _version(connection, address.schema)
    if version == 0:
        raise no_store(address)
    if version != len(migrations(address.schema)):
        migrate(connection, address)


def migrate(connection: Connection, address: DatabaseAddress) -> None:
    """The same, and a new store where there is none."""
    connection.answer_seconds = MIGRATION_ANSWER_SECONDS
    _migrate(connection, address)
    connection.answer_seconds = ANSWER_SECONDS


def _migrate(connection: Connection, address: DatabaseAddress) -> None:
    scripts = migrations(address.schema)
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # to see what was done while we waited
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
"""Version -> the oldest one whose code can still work with it; so that servers can be replaced one by one."""


def _check_older(connection: psycopg.Connection[Any], address: DatabaseAddress, *, known: int) -> None:
    """A newer schema is fine if whoever made it said so."""
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
    """Asked, because IF NOT EXISTS needs the right to create one also where somebody has done so for us."""
    query = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s"
    return connection.execute(query, (schema,)).fetchone() is not None


def _version(connection: psycopg.Connection[Any], schema: str) -> int:
    query = "SELECT FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'migrations'"
    # Not to_regclass(): within a transaction it may not know yet what others have made since.
    if connection.execute(query, (schema,)).fetchone() is None:
        return 0
    newest = sql.SQL("SELECT coalesce(max(version), 0) FROM {}.migrations").format(sql.Identifier(schema))
    row = connection.execute(newest).fetchone()
    return int(row[0]) if row else 0
