"""Creates or opens a store, and stops before a chosen SQL statement until the test lets it continue.

With -1 it does not stop, and reports all statements.
"""

import sys
from pathlib import Path
from typing import Any

import apsw

import octostore
from octostore.stores.sqlite import SqliteBackend
from tests.processes.workers.talk import hear, say

statements: list[str] = []


def stop_at(number: int) -> None:
    def trace(_cursor: apsw.Cursor, sql: str, _bindings: Any) -> bool:
        if len(statements) == number:
            say({"before": sql})
            hear()
        statements.append(sql)
        return True

    def on_connect(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    apsw.connection_hooks.append(on_connect)


if __name__ == "__main__":
    stop_at(int(sys.argv[2]))
    try:
        backend = SqliteBackend(Path(sys.argv[1]))
        backend.create()
        with backend.reading():
            pass
        backend.close()
    except octostore.Unreachable as fault:
        say({"fault": str(fault)})
    else:
        say({"opened": statements})
