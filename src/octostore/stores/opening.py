"""One URL says where the rows are. Server URLs are the client's business."""

import os
from collections.abc import Callable
from functools import partial

import msgspec

from octostore.core.errors import InvalidInput, Unreachable
from octostore.stores.base import Backend
from octostore.stores.clock import Clock, SystemClock, as_stored
from octostore.stores.identity import Identity
from octostore.stores.permissions import check_folder

URL_VARIABLE = "OCTOSTORE_URL"
HOME_VARIABLE = "OCTOSTORE_HOME"


def chosen_url(url: str | None) -> str | None:
    """The URL passed in, else the one in the environment; None for the user's own file."""
    if url is None:
        return os.environ.get(URL_VARIABLE) or None
    if not isinstance(url, str):
        raise InvalidInput("url", f"must be text like sqlite:///jobs.db, not {type(url).__name__}")
    return url


class Where(msgspec.Struct, frozen=True):
    """What a URL names."""

    open_backend: Callable[[], Backend]
    clock: Clock
    place: str
    """For people to read."""
    open_alone: Callable[[], Backend] | None = None
    """Opens a file on a full disk, for one read."""


def find_store(url: str | None) -> Where:
    """Where the rows are. The driver for a kind of store is imported only if that kind is used."""
    url = chosen_url(url)
    scheme = _scheme_of(url)
    if scheme == "memory":
        from octostore.stores.memory import MemoryBackend, MemoryRows  # noqa: PLC0415

        rows = MemoryRows()
        return Where(lambda: MemoryBackend(rows), SystemClock(), "memory")
    path = sqlite_path(url)
    if path is not None:
        if url is None:
            make_data_folder()
        from octostore.stores.sqlite.backend import SqliteBackend  # noqa: PLC0415

        open_backend = partial(SqliteBackend, path, Identity())
        return Where(open_backend, SystemClock(), path, partial(open_backend, is_alone=True))
    if scheme in {"postgresql", "postgres"} and url is not None:
        return _find_postgres(url)
    # Never the whole URL: it may contain a password.
    what = f"begins with {scheme!r}" if scheme else "has no scheme"
    raise InvalidInput(
        "url",
        f"{what}; use sqlite:///relative.db, sqlite:////absolute.db (four slashes), postgresql://user@host/database, "
        "memory:, or https:// for a server",
    )


def is_server(url: str | None) -> bool:
    return _scheme_of(url) in {"http", "https"}


def _find_postgres(url: str) -> Where:
    try:
        from octostore.stores.postgres.backend import PostgresBackend  # noqa: PLC0415
        from octostore.stores.postgres.connection import parse_address  # noqa: PLC0415
    except ImportError:
        from octostore.extras import how_to_add  # noqa: PLC0415

        raise InvalidInput(
            "url", f"names a PostgreSQL database, which needs psycopg; to install it: {how_to_add('postgres')}"
        ) from None
    address = parse_address(url)
    # The time is the database's, and arrives with the counters.
    return Where(partial(PostgresBackend, address, identity=Identity()), as_stored, str(address))


def sqlite_path(url: str | None) -> str | None:
    """The file `url` names (None: the default file); None if it names something else."""
    if url is None:
        return default_path()
    return _sqlite_path(url) if _scheme_of(url) == "sqlite" else None


def _scheme_of(url: str | None) -> str:
    """Only the scheme; the rest is parsed by the code that handles it."""
    scheme, colon, _ = (url or "").partition(":")
    return scheme.lower() if colon else ""


def default_path() -> str:
    """The path of the user's own store."""
    return os.path.join(data_folder(), "octostore.db")


def data_folder() -> str:
    """The user's data folder, which may not exist."""
    folder = os.environ.get(HOME_VARIABLE)
    if folder:
        return os.path.abspath(folder)  # absolute, as in `_sqlite_path`
    shared = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.abspath(os.path.join(shared, "octostore"))


def keeping_root(url: str | None) -> str:
    """The folder for this user's kept leases: next to a file store, else in the user's data folder.

    It may not exist. Every command checks for it, so the check must not cost more than a `stat`.
    """
    path = sqlite_path(url)
    if path is None:
        return os.path.join(data_folder(), "kept")
    return f"{os.path.realpath(path)}-kept-{os.geteuid()}"  # users who share the file keep their leases apart


def make_data_folder() -> str:
    """Create the data folder if needed. A new one is private; an existing one must not be writable by others."""
    folder = data_folder()
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise Unreachable(
            f"the folder {folder} cannot be created: {error.strerror or error}; set {HOME_VARIABLE} or {URL_VARIABLE}",
            reason="io",
        ) from error
    check_folder(folder)
    return folder


def _sqlite_path(url: str) -> str:
    path = url.removeprefix("sqlite:///")
    if path in {url, ""} or "?" in path or "#" in path:
        raise InvalidInput("url", "must look like sqlite:///relative.db or sqlite:////absolute.db")
    if path == ":memory:":
        raise InvalidInput("url", "does not name a file; use `memory:` for an in-memory store")
    if "%" in path:
        from urllib.parse import unquote  # noqa: PLC0415  # few paths need it

        path = unquote(path)
    # Absolute, because a process may change its folder, or fork and reopen.
    return os.path.join(os.getcwd(), path)
