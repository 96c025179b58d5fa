"""The embedded store: one SQLite file, shared by any number of processes on one machine."""

from octostore.stores.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
