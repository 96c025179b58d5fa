"""Statements sent together, in one round trip.

This uses libpq directly: psycopg's cursors and pipelines take longer for a small statement than PostgreSQL does. They
also request a flush after what they send, and PostgreSQL does not count a session as idle while a flush is pending. A
process that is paused at such a moment would keep the lock indefinitely.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from octostore.stores.postgres.connection import Connection
from octostore.stores.rows import Row

_as_json = msgspec.json.Encoder().encode
_PARAMETER = re.compile(r"%(?:\((\w+)\))?s")


class Statement(NamedTuple):
    name: bytes
    text: bytes
    parameters: Sequence[str]
    """In order: their names, or `#` and a number if they have none."""


def compiled(sql: dict[str, str]) -> dict[str, Statement]:
    return {name: _compile(name, text) for name, text in sql.items()}


def _compile(name: str, text: str) -> Statement:
    """Number the parameters as PostgreSQL does; a statement has named parameters, or takes rows."""
    numbers: dict[str, int] = {}
    for found in _PARAMETER.finditer(text):
        numbers.setdefault(found[1] or f"#{len(numbers)}", len(numbers) + 1)
    in_order = iter(numbers.values())
    numbered = _PARAMETER.sub(lambda found: f"${numbers[found[1]] if found[1] else next(in_order)}", text)
    return Statement(name.encode(), numbered.encode(), tuple(numbers))


class PipelinedResult:
    """A statement's rows, once its pipeline has run."""

    rows: list[Row]


class Pipeline:
    """Collects named statements; `run` sends them all in one write, and waits once."""

    def __init__(self, connection: Connection, sql: dict[str, Statement]) -> None:
        self._connection = connection
        self._sql = sql
        self._pending: list[tuple[Statement, list[bytes | None], PipelinedResult]] = []

    def query(self, query: str, **values: Any) -> PipelinedResult:
        statement = self._sql[query]
        result = PipelinedResult()
        self._pending.append((statement, [_parameter(values[name]) for name in statement.parameters], result))
        return result

    def query_each(self, query: str, rows: Sequence[Row]) -> PipelinedResult:
        """One statement for any number of rows: each column is passed as an array."""
        result = PipelinedResult()
        self._pending.append((self._sql[query], [array(column) for column in zip(*rows, strict=True)], result))
        return result

    def write(self, query: str, rows: Sequence[Row]) -> None:
        self.query_each(query, rows)

    def run(self) -> None:
        """Raises the first error; later statements were not run then. The connection stays usable."""
        if not self._pending:
            return
        pgconn = self._connection.pgconn
        try:
            pgconn.enter_pipeline_mode()
            unprepared = self._send(pgconn)
            results = self._connection.wait(_results(pgconn))
            pgconn.exit_pipeline_mode()
        except BaseException:
            self._connection.close()  # its protocol state is unknown
            raise
        self._take(results, unprepared)

    def _send(self, pgconn: PGconn) -> set[bytes]:
        """Returns the names of statements prepared along the way."""
        prepared = self._connection.prepared
        new: set[bytes] = set()
        for (name, text, _), values, _ in self._pending:
            if prepared is None:
                pgconn.send_query_params(text, values, result_format=Format.BINARY)
                continue
            if name not in prepared and name not in new:
                pgconn.send_prepare(name, text)
                new.add(name)
            pgconn.send_query_prepared(name, values, result_format=Format.BINARY)
        pgconn.pipeline_sync()
        return new

    def _take(self, results: Iterable[PGresult], unprepared: set[bytes]) -> None:
        remaining = iter(results)
        for (name, _, _), _, result in self._pending:
            if name in unprepared:
                _check(next(remaining))
                unprepared.remove(name)
                self._connection.note_prepared(name)
            result.rows = self._connection.rows_of(_check(next(remaining)))
        self._pending.clear()


def _results(pgconn: PGconn) -> PQGen[list[PGresult]]:
    """One result per statement, once all have arrived."""
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()
    results: list[PGresult] = []
    while True:
        while pgconn.is_busy():
            if (yield Wait.R):
                pgconn.consume_input()
        result = pgconn.get_result()
        if pgconn.status == ConnStatus.BAD:
            raise psycopg.OperationalError(pgconn.get_error_message())
        if result is not None:
            if result.status == ExecStatus.PIPELINE_SYNC:
                return results
            results.append(result)


def _check(result: PGresult) -> PGresult:
    if result.status == ExecStatus.FATAL_ERROR:
        raise error_from_result(result)
    return result


def _parameter(value: Any) -> bytes | None:
    """A value in PostgreSQL's text format."""
    if value is None:
        return None
    return array(value) if isinstance(value, list | tuple | set) else _without_nul(str(value).encode())


def array(values: Collection[Any]) -> bytes:
    """An array of texts, bytes or numbers, with None. Most columns are plain, and are encoded in one go."""
    kinds = set(map(type, values))
    if kinds == {bytes}:
        return ('{"\\\\x' + '","\\\\x'.join(map(bytes.hex, values)) + '"}').encode()
    if bytes not in kinds:
        # Same as JSON, except for the brackets and escapes.
        encoded = _as_json(values)
        if b"\\" not in encoded:
            return b"{" + encoded[1:-1] + b"}"
    return _without_nul(("{" + ",".join(map(_item, values)) + "}").encode())


def _without_nul(encoded: bytes) -> bytes:
    if b"\0" in encoded:
        raise psycopg.DataError("text in PostgreSQL cannot have a NUL in it")
    return encoded


def _item(value: str | bytes | int | None) -> str:
    if value is None:
        return "NULL"
    text = "\\x" + value.hex() if isinstance(value, bytes) else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
