"""One URL decides where ownership lives."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from octostore.client.async_store import AsyncOctoStore
from octostore.client.embedded import AsyncEmbeddedPort, EmbeddedPort
from octostore.client.store import OctoStore
from octostore.client.threads import in_thread
from octostore.core.errors import InvalidInput, Unreachable
from octostore.core.retry import RetryPolicy
from octostore.stores.engine import OnBatch
from octostore.stores.memory import MemoryBackend, MemoryRows
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore, usual_given

URL_VARIABLE = "OCTOSTORE_URL"
HOME_VARIABLE = "OCTOSTORE_HOME"


def connect(url: str | None = None, *, retry: RetryPolicy | None = None) -> OctoStore:
    """Open the store that `url` names; without one, that of `OCTOSTORE_URL`, else the file of this user.

    `sqlite:///relative.db` and `sqlite:////absolute.db` name a file, `memory:` a store that ends with this object.
    `retry` is how jobs that fail through this connection are retried. Raises `InvalidInput` for a URL that cannot be
    understood, and `Unreachable` for a store that cannot be used.
    """
    return OctoStore(EmbeddedPort(open_store(url, retry)))


async def connect_async(url: str | None = None, *, retry: RetryPolicy | None = None) -> AsyncOctoStore:
    """`connect()` for asyncio: the same methods, awaited."""
    return AsyncOctoStore(AsyncEmbeddedPort(await in_thread(open_store, url, retry)))


def open_store(url: str | None = None, retry: RetryPolicy | None = None, on_batch: OnBatch | None = None) -> LocalStore:
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise InvalidInput("retry", f"must be a RetryPolicy, not {type(retry).__name__}")
    given = usual_given(retry)
    if url is None:
        url = os.environ.get(URL_VARIABLE) or None
    if url is None:
        path = default_path()
        return LocalStore(lambda: SqliteBackend(path), given=given, on_batch=on_batch, place=str(path))
    if not isinstance(url, str):
        raise InvalidInput("url", f"must be text such as sqlite:///jobs.db, not {type(url).__name__}")
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        path = _sqlite_path(url)
        return LocalStore(lambda: SqliteBackend(path), given=given, on_batch=on_batch, place=str(path))
    if scheme == "memory":
        rows = MemoryRows()
        return LocalStore(lambda: MemoryBackend(rows), given=given, on_batch=on_batch)
    # Never the whole URL: it may carry a password.
    what = f"begins with {scheme!r}" if scheme else "has no scheme"
    raise InvalidInput("url", f"{what}; use sqlite:///relative.db, sqlite:////absolute.db (four slashes) or memory:")


def default_path() -> Path:
    """Where the store of this user is."""
    return data_folder() / "octostore.db"


def data_folder() -> Path:
    """The folder of this user's data. It is made if need be, for nobody else to read."""
    home = os.environ.get(HOME_VARIABLE)
    if home:
        folder = Path(home)
    else:
        folder = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "octostore"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unreachable(
            f"the folder {folder} cannot be made: {error}; set {HOME_VARIABLE} or {URL_VARIABLE}", reason="io"
        ) from error
    return folder


def _sqlite_path(url: str) -> Path:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if not url.startswith("sqlite:///") or path == "/" or parts.query or parts.fragment:
        raise InvalidInput("url", "must look like sqlite:///relative.db or sqlite:////absolute.db")
    if path == "/:memory:":
        raise InvalidInput("url", "names no file; use memory: for a store without one")
    # Absolute from now on, because a process may change its folder, or fork and reopen.
    return Path(path[1:]).absolute()
