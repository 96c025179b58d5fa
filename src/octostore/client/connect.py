"""One URL decides where ownership lives."""

from octostore.client.async_store import AsyncOctoStore
from octostore.client.embedded import AsyncEmbeddedPort, EmbeddedPort
from octostore.client.http.port import HttpPort
from octostore.client.http.server_url import ServerUrl, find_token, parse_server_url
from octostore.client.store import OctoStore
from octostore.client.threads import in_thread
from octostore.core.errors import InvalidInput
from octostore.core.retry import RetryPolicy
from octostore.stores.opening import chosen_url, open_store


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    retry: RetryPolicy | None = None,
    allow_clear_text: bool = False,
) -> OctoStore:
    """Open the store that `url` names; without one, that of `OCTOSTORE_URL`, else the file of this user.

    - `sqlite:///relative.db` and `sqlite:////absolute.db` name a file, `memory:` a store that ends with this object.
      `retry` is how jobs that fail through this connection are retried.
    - `http://` and `https://` name a server. `token` is what it asks for; by default `OCTOSTORE_TOKEN`, the file that
      `OCTOSTORE_TOKEN_FILE` names, or what a server of the same user on this machine has left for its clients. It is
      not sent in clear text to another machine unless `allow_clear_text`.

    Raises `InvalidInput` for a URL or token that cannot be understood, and `Unreachable` for a file that cannot be
    used. A server is not asked before the first call.
    """
    url = chosen_url(url)
    if not _is_server(url):
        _refuse_token(token)
        return OctoStore(EmbeddedPort(open_store(url, retry)))
    return OctoStore(HttpPort(*_server(url, token, retry, allow_clear_text=allow_clear_text)))


async def connect_async(
    url: str | None = None,
    *,
    token: str | None = None,
    retry: RetryPolicy | None = None,
    allow_clear_text: bool = False,
) -> AsyncOctoStore:
    """`connect()` for asyncio: the same methods, awaited. Servers need the extra `octostore[async]`."""
    url = chosen_url(url)
    if not _is_server(url):
        _refuse_token(token)
        return AsyncOctoStore(AsyncEmbeddedPort(await in_thread(open_store, url, retry)))
    try:
        # Here, because only those who use it have it installed.
        from octostore.client.http.async_port import AsyncHttpPort  # noqa: PLC0415
    except ImportError:
        raise InvalidInput("url", "is a server's, for which asyncio needs aiohttp: install octostore[async]") from None
    return AsyncOctoStore(AsyncHttpPort(*_server(url, token, retry, allow_clear_text=allow_clear_text)))


def _is_server(url: str | None) -> bool:
    return url is not None and url.partition(":")[0].lower() in {"http", "https"}


def _refuse_token(token: str | None) -> None:
    if token is not None:
        raise InvalidInput("token", "is for a server (http:// or https://); whoever can write a file needs none")


def _server(
    url: str | None, token: str | None, retry: RetryPolicy | None, *, allow_clear_text: bool
) -> tuple[ServerUrl, str]:
    if retry is not None:
        raise InvalidInput("retry", "is the server's to choose, not that of its clients")
    place = parse_server_url(url or "", allow_clear_text=allow_clear_text)
    return place, find_token(place, token)
