"""Two real PostgreSQL servers: a primary, and a standby that has to have everything before it is answered."""

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
    "fsync": "off",  # processes are killed here, and machines are not: what they have written is there
    "dynamic_shared_memory_type": "mmap",  # in the folder, which is removed: nobody else tidies up after the killed
    "wal_retrieve_retry_interval": "50ms",
    "max_connections": "100",
}


class Node:
    """One server, with data and a port of its own."""

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
            until(self._answers)
        except AssertionError:
            raise AssertionError(f"the server did not start: {self._log.read_text()}") from None

    def kill(self) -> None:
        """All of its processes at once, as if it were the machine."""
        if self._process is None:
            return
        with self._stopped() as pids:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)
        until(lambda: not any(map(is_alive, pids)))
        self._process = None
        # Otherwise a few bytes stay with the machine for good.
        shared_memory = (self.data / "postmaster.pid").read_text().splitlines()[6].split()[1]
        subprocess.run(["ipcrm", "-m", shared_memory], check=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While the block runs, none of its processes does anything."""
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
        """Whether a transaction is on this disk, and waits to be on the standby's."""
        return bool(self.ask("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))

    def send_nothing(self) -> None:
        """From now on the standby gets nothing, as long as this server lives."""
        ((pid,),) = self.ask("SELECT pid FROM pg_stat_replication")
        os.kill(pid, signal.SIGSTOP)

    def copy_to(self, other: "Node") -> None:
        """`other` is going to be a standby of this one."""
        shutil.rmtree(other.data, ignore_errors=True)
        programs().run("pg_basebackup", "-D", other.data, "-d", self._url, "-R", "-Xstream", "-cfast", "--no-sync")

    @property
    def _url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?connect_timeout=5"

    @property
    def _log(self) -> Path:
        return self.data.with_suffix(".log")

    def _answers(self) -> bool:
        try:
            return bool(self.ask("SELECT 1"))
        except psycopg.OperationalError:
            return False

    @contextmanager
    def _stopped(self) -> Iterator[list[int]]:
        """Its processes. The one that starts all others is stopped first, so that none is missed."""
        assert self._process is not None
        postmaster = self._process.pid
        os.kill(postmaster, signal.SIGSTOP)
        yield [*children_of(postmaster), postmaster]


class Cluster:
    """The primary waits for the standby before it answers a COMMIT. All is gone when the block ends."""

    def __init__(self) -> None:
        # Not pytest's folder: as root the servers run as another user, and every folder above theirs is opened to it.
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
        """It names both, now the primary first, and leads to the one that can be written to."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in (self.primary, self.standby))
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write&schema={schema}"

    def heal(self) -> None:
        """A primary and a standby, whatever has happened."""
        if not self.primary.is_running:
            self.promote()
        if not self.standby.is_running:
            self.attach()

    def promote(self) -> None:
        """The standby takes over from a primary that is dead. It has nobody to wait for."""
        self.primary, self.standby = self.standby, self.primary
        self.primary.ask("SELECT pg_promote()")

    def attach(self) -> None:
        """A dead server becomes the standby. From now on, nothing is answered that it does not have."""
        self.primary.copy_to(self.standby)
        self.standby.start()
        self.primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.ask("SELECT pg_reload_conf()")
        until(lambda: self.primary.ask("SELECT sync_state FROM pg_stat_replication") == [("sync",)])
        # The setting is made known to all by the process that writes checkpoints; then this commit waits, and after
        # it everything before it is there, too.
        self.primary.ask("CHECKPOINT")
        self.primary.ask("SELECT pg_logical_emit_message(true, '', '')")
