"""Statements that are sent together, in one round trip."""

from collections.abc import Generator, Iterable, Sequence
from typing import Any

import psycopg
from psycopg import Connection, Cursor
from psycopg.waiting import Ready, Wait

from octostore.stores.rows import Row


class Answer:
    """What a statement gives, once its pipeline has run; nothing where it was not asked."""

    def __init__(self, cursor: "Cursor[Any] | None" = None) -> None:
        self._cursor = cursor
        self._rows: list[Row] | None = None if cursor else []

    @property
    def rows(self) -> list[Row]:
        if self._rows is None:
            if self._cursor is None:
                raise LookupError("its pipeline has not run yet")
            self._rows = self._cursor.fetchall()
        return self._rows

    def give(self, cursor: "Cursor[Any]") -> None:
        self._cursor = cursor


class Pipeline:
    """Collects statements by their names; `run` sends them all, and waits once."""

    def __init__(self, connection: Connection[Any], sql: dict[str, str]) -> None:
        self._connection = connection
        self._sql = sql
        self._statements: list[tuple[str, Any, Answer | None]] = []

    def ask(self, query: str, **values: Any) -> Answer:
        answer = Answer()
        answer._rows = None  # noqa: SLF001  # to be given by `run`
        self._statements.append((self._sql[query], values, answer))
        return answer

    def when(self, condition: object, query: str, **values: Any) -> Answer:
        return self.ask(query, **values) if condition else Answer()

    def unless_empty(self, query: str, **values: Any) -> Answer:
        """Where the first value is a collection that is empty, there is nothing to ask."""
        first = next(iter(values.values()))
        if not first:
            return Answer()
        lists = {name: list(value) if isinstance(value, set) else value for name, value in values.items()}
        return self.ask(query, **lists)

    def write(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Of any number of rows, one statement: it takes each column as an array."""
        columns = [array(column) for column in zip(*rows, strict=True)]
        if columns:
            self._statements.append((self._sql[query], columns, None))

    def tell(self, statement: str) -> None:
        """Something that has no answer, such as BEGIN."""
        self._statements.append((statement, None, None))

    def run(self) -> None:
        """Send all in one piece, and nothing after it.

        While PostgreSQL waits for the rest of what we send, or was asked to flush after it, it does not count us as
        idle. A process that is stopped at such a moment would keep the lock for as long as it likes. psycopg does both;
        where it can no longer be kept from it, this still works, but for that.
        """
        if not self._statements:
            return
        fault: psycopg.Error | None = None
        try:
            with self._connection.pipeline() as pipeline:
                try:
                    self._collect(pipeline)
                    self._connection.wait(_send(pipeline))
                    pipeline.sync()
                except psycopg.Error as error:
                    fault = error  # and what follows from it is not worth a line in somebody's log
                if not pipeline.result_queue:
                    # There is nothing left to wait for. psycopg would sync once more, and flush.
                    pipeline._exit_gen = _nothing  # type: ignore[method-assign]  # noqa: SLF001
        except psycopg.Error as error:
            fault = fault or error
        if fault is not None:
            raise fault

    def _collect(self, pipeline: psycopg.Pipeline) -> None:
        pipeline._communicate_gen = _nothing  # type: ignore[method-assign]  # noqa: SLF001  # not yet
        try:
            for statement, values, answer in self._statements:
                cursor = self._connection.cursor(binary=True)
                cursor.execute(statement, values)
                if answer is not None:
                    answer.give(cursor)
        finally:
            del pipeline._communicate_gen  # noqa: SLF001


def _nothing() -> Generator[Any, Any, None]:
    return
    yield


def _send(pipeline: psycopg.Pipeline) -> Generator[Wait, Ready | int, None]:
    """All of it; with a sync at its end, before the one that psycopg sends by itself."""
    for command in (*pipeline.command_queue, pipeline.pgconn.pipeline_sync):
        command()
    pipeline.command_queue.clear()
    pipeline.result_queue.append(None)
    while pipeline.pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pipeline.pgconn.consume_input()


def array(values: Iterable[str | bytes | int | None]) -> str:
    """An array as PostgreSQL writes it. psycopg does that, too, but in two fifths of the CPU time of a large batch."""
    return "{" + ",".join(map(_item, values)) + "}"


def _item(value: str | bytes | int | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bytes):
        return '"\\\\x' + value.hex() + '"'
    return str(value)
