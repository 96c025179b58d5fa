"""PgBouncer in transaction mode, in front of the tests' PostgreSQL. It is Debian's, and may be missing."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support.pg_programs import programs
from tests.support.processes import PATIENCE_SECONDS, free_port, until
from tests.support.starting import start

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
POOL_SIZE = 2

INI = """
[databases]
postgres = host={host} port={port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = {pool_size}
query_wait_timeout = 1
logfile = {folder}/pgbouncer.log
"""


class PgBouncer:
    """Has fewer connections to the database than clients. It is stopped when the block ends."""

    def __init__(self, database_url: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="octostore-pgbouncer-"))
        os.chown(self._folder, *programs().owner)
        self._port = free_port()
        known = conninfo_to_dict(database_url)
        text = INI.format(
            host=known["host"],
            port=known.get("port", 5432),
            own_port=self._port,
            pool_size=POOL_SIZE,
            folder=self._folder,
        )
        (self._folder / "pgbouncer.ini").write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        assert PROGRAM is not None
        command = [PROGRAM, "-q", str(self._folder / "pgbouncer.ini")]
        self._process = start(command, user=programs().user, cwd=self._folder)
        until(self._is_open)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(PATIENCE_SECONDS)

    def clients_and_servers(self) -> tuple[int, int]:
        """The number of clients, and the number of connections to the database."""
        with psycopg.connect(self.url, dbname="pgbouncer", autocommit=True) as connection:
            clients = connection.execute("SHOW CLIENTS").fetchall()
            servers = connection.execute("SHOW SERVERS").fetchall()
        return len(clients) - 1, len(servers)

    @property
    def log(self) -> str:
        return (self._folder / "pgbouncer.log").read_text()

    def _is_open(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self._port)) == 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder)
