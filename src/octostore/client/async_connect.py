"""`connect()` for asyncio, by itself because asyncio takes long to import."""

from octostore.client.async_embedded import AsyncEmbeddedPort
from octostore.client.async_store import AsyncOctoStore
from octostore.client.connect import refuse_token
from octostore.client.http.server_url import find_server
from octostore.client.threads import in_thread
from octostore.core.errors import InvalidInput
from octostore.core.retry import RetryPolicy
from octostore.stores.opening import chosen_url, is_server
from octostore.stores.store import open_store


async def connect_async(
    url: str | None = None,
    *,
    token: str | None = None,
    retry: RetryPolicy | None = None,
    allow_clear_text: bool = False,
) -> AsyncOctoStore:
    """`connect()` for asyncio: the same methods, awaited. Servers need the extra `octostore[async]`."""
    url = chosen_url(url)
    if not is_server(url):
        refuse_token(token)
        return AsyncOctoStore(AsyncEmbeddedPort(await in_thread(open_store, url, retry)))
    try:
        # Here, because only those who use it have it installed.
        from octostore.client.http.async_port import AsyncHttpPort  # noqa: PLC0415
    except ImportError:
        raise InvalidInput("url", "names a server, which needs aiohttp for asyncio: install octostore[async]") from None
    return AsyncOctoStore(AsyncHttpPort(*find_server(url, token, retry, allow_clear_text=allow_clear_text)))
