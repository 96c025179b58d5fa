"""Files with many jobs and events, like a store in use.

The library's own types build the rows, for the real schema. For speed, indexes and triggers are dropped first and
created again at the end. There is no ANALYZE, because the library runs none.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import apsw

from bench.sample_rows import SampleRows
from octostore.stores.rows import COLUMNS, job_to_row, to_row
from octostore.stores.sqlite.connection import connect, make, migrations

CACHE_PREFIX = "octostore-bench-"


class SampleFile(NamedTuple):
    path: Path
    jobs: int
    events: int


def build(path: Path, jobs: int, events: int, rows: SampleRows | None = None) -> SampleFile:
    rows = rows or SampleRows(jobs, events)
    started = perf_counter()
    make(str(path))
    connection = connect(path)
    try:
        # Nobody uses a half-built file, so it need not be durable.
        connection.pragma("journal_mode", "off")
        connection.pragma("synchronous", "off")
        connection.pragma("cache_size", -1_000_000)
        connection.execute("BEGIN IMMEDIATE")
        later = _drop_indexes_and_triggers(connection)
        _fill(connection, rows, events)
        for sql in later:
            connection.execute(sql)
        connection.execute("COMMIT")
        connection.pragma("journal_mode", "wal")
    finally:
        connection.close()
    size_mb = path.stat().st_size / 1e6
    print(f"Built {jobs:,} jobs and {events:,} events ({size_mb:,.0f} MB) in {perf_counter() - started:.1f} s")
    return SampleFile(path, jobs, events)


def cached_copy(path: Path, jobs: int, events: int) -> SampleFile:
    """A writable copy of a file that is cached for the next run. Outdated cached files are deleted."""
    folder = Path(tempfile.gettempdir()) / f"{CACHE_PREFIX}{_fingerprint(jobs, events)}"
    for other in folder.parent.glob(f"{CACHE_PREFIX}*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    kept = folder / "large.db"
    if not kept.exists():
        # Moved there once complete, so an interrupted run leaves nothing behind.
        build(path, jobs, events)
        folder.mkdir(mode=0o700, exist_ok=True)
        path.replace(kept)
    started = perf_counter()
    shutil.copyfile(kept, path)
    print(f"Copied {kept} in {perf_counter() - started:.1f} s", end="\n\n")
    return SampleFile(path, jobs, events)


def _fingerprint(jobs: int, events: int) -> str:
    sources = [Path(__file__), Path(__file__).with_name("sample_rows.py")]
    parts = [*migrations(), *(source.read_text(encoding="utf-8") for source in sources), f"{jobs} {events}"]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _drop_indexes_and_triggers(connection: apsw.Connection) -> list[str]:
    """Return the statements that create them again."""
    query = "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    found = connection.execute(query).fetchall()
    for kind, name, _ in found:
        connection.execute(f"DROP {kind} {name}")
    return [str(sql) for _, _, sql in found]


def _fill(connection: apsw.Connection, rows: SampleRows, events: int) -> None:
    _insert(connection, "session", map(to_row, rows.sessions()))
    _insert(connection, "job", map(job_to_row, rows.jobs()))
    _insert(connection, "document", rows.documents())
    _insert(connection, "event", map(to_row, rows.events()))
    connection.execute("UPDATE counters SET seq = ?, now = ?", (events, rows.built_at))


def _insert(connection: apsw.Connection, what: str, rows: Iterable[tuple[Any, ...]]) -> None:
    columns = COLUMNS[what]
    places = ", ".join("?" for _ in columns)
    connection.executemany(f"INSERT INTO {what}s ({', '.join(columns)}) VALUES ({places})", rows)
