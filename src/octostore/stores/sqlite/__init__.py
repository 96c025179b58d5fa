"""The store in a SQLite file, shared by any number of threads and processes on one machine."""

import apsw

from octostore.stores.sqlite.backend import SqliteBackend

SQLITE_VERSION = apsw.sqlite_lib_version()

__all__ = ["SQLITE_VERSION", "SqliteBackend"]
