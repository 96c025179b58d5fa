"""Two real PostgreSQL servers: a primary and a synchronous standby."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.support.pg_programs import programs
from tests.support.processes import PATIENCE_SECONDS, free_port, until
from tests.support.running import children_of, is_alive

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "synchronous_commit": "on",
    "fsync": "off",  # tests kill processes, not machines, so what was written survives
    "dynamic_shared_memory_type": "mmap",  # in the folder, which is removed: killed servers do not clean up
    "wal_retrieve_retry_interval": "50ms",
    "max_connections": "100",
}


class Node:
    """One server, with its own data and port."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        with self._log.open("ab") as log:
            self._process = programs().start(
                "postgres", "-D", self.data, "-p", self.port, *options, stdout=log, stderr=log, cwd=self.data
            )
        try:
            until(self._accepts_connections)
        except AssertionError:
            raise AssertionError(f"the server did not start: {self._log.read_text()}") from None

    def kill(self) -> None:
        """Kill all of its processes at once, as if the machine failed."""
        if self._process is None:
            return
        with self._stopped() as pids:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)
        until(lambda: not any(map(is_alive, pids)))
        self._process = None
        # Otherwise a few bytes of shared memory leak.
        shared_memory = (self.data / "postmaster.pid").read_text().splitlines()[6].split()[1]
        subprocess.run(["ipcrm", "-m", shared_memory], check=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all of its processes during the block."""
        with self._stopped() as pids:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                yield
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)

    def ask(self, query: str) -> list[Any]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def has_waiting_commit(self) -> bool:
        """Whether a transaction is on this disk and waits for the standby."""
        return bool(self.ask("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))

    def send_nothing(self) -> None:
        """Send nothing more to the standby while this server lives."""
        ((pid,),) = self.ask("SELECT pid FROM pg_stat_replication")
        os.kill(pid, signal.SIGSTOP)

    def copy_to(self, other: "Node") -> None:
        """Make `other` a copy, to become a standby of this one."""
        shutil.rmtree(other.data, ignore_errors=True)
        programs().run("pg_basebackup", "-D", other.data, "-d", self._url, "-R", "-Xstream", "-cfast", "--no-sync")

    @property
    def _url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?connect_timeout=5"

    @property
    def _log(self) -> Path:
        return self.data.with_suffix(".log")

    def _accepts_connections(self) -> bool:
        try:
            return bool(self.ask("SELECT 1"))
        except psycopg.OperationalError:
            return False

    @contextmanager
    def _stopped(self) -> Iterator[list[int]]:
        """Stop and return its processes. The parent is stopped first, so that none is missed."""
        assert self._process is not None
        postmaster = self._process.pid
        os.kill(postmaster, signal.SIGSTOP)
        yield [*children_of(postmaster), postmaster]


class Cluster:
    """The primary waits for the standby at each COMMIT. Both are removed when the block ends."""

    def __init__(self) -> None:
        # Not pytest's folder: for root, the servers run as another user, which cannot enter it.
        self._folder = Path(tempfile.mkdtemp(prefix="octostore-cluster-"))
        os.chown(self._folder, *programs().owner)
        self.primary, self.standby = Node(self._folder / "one"), Node(self._folder / "two")

    def __enter__(self) -> Self:
        programs().init(self.primary.data)
        self.primary.start()
        self.attach()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        for node in (self.primary, self.standby):
            node.kill()
        shutil.rmtree(self._folder)

    def url(self, schema: str) -> str:
        """Names both, the current primary first, and leads to the one that accepts writes."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in (self.primary, self.standby))
        return f"postgresql://postgres@{hosts}/postgres?schema={schema}"

    def heal(self) -> None:
        """Restore a primary and a standby, whatever has happened."""
        if not self.primary.is_running:
            self.promote()
        if not self.standby.is_running:
            self.attach()

    def promote(self) -> None:
        """Make the standby the primary, after the primary died. It has no standby to wait for."""
        self.primary, self.standby = self.standby, self.primary
        self.primary.ask("SELECT pg_promote()")

    def attach(self) -> None:
        """Make a dead server the standby. Every later COMMIT waits for it."""
        self.primary.copy_to(self.standby)
        self.standby.start()
        self.primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.ask("SELECT pg_reload_conf()")
        until(lambda: self.primary.ask("SELECT sync_state FROM pg_stat_replication") == [("sync",)])
        # Once the checkpointer has applied the setting, this commit waits for the standby, which then has everything.
        self.primary.ask("CHECKPOINT")
        self.primary.ask("SELECT pg_logical_emit_message(true, '', '')")
