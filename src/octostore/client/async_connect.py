"""`connect()` for asyncio, in its own module because asyncio is slow to import."""

from importlib.util import find_spec

from octostore.client.async_embedded import AsyncEmbeddedPort
from octostore.client.async_store import AsyncOctoStore
from octostore.client.connect import refuse_token
from octostore.client.http.server_url import find_server
from octostore.client.threads import in_thread
from octostore.client.tracing import Tracing, choose_spans, with_spans
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
    tracing: Tracing = None,
) -> AsyncOctoStore:
    """Open a store for asyncio, like `connect`. Connecting to a server needs the `async` extra.

    Args:
        url: See `connect` for this and the other arguments.
        token: The access token for a server.
        retry: How to retry jobs that fail through this connection.
        allow_clear_text: Allow sending the token over plain HTTP to another machine.
        tracing: Create OpenTelemetry spans.

    Returns:
        The store, for use in this event loop.

    Raises:
        InvalidInput: The URL or the token is malformed, or an extra is missing.
        Unreachable: The file or the database cannot be used; `reason` says why.

    Example:
        >>> async def main():
        ...     async with await octostore.connect_async("memory:") as store:
        ...         return (await store.claim_job("nightly-report")).status
        >>> asyncio.run(main())
        'claimed'
    """
    url, spans = chosen_url(url), choose_spans(tracing)
    require_client(url, "async")
    if not is_server(url):
        refuse_token(token)
        return AsyncOctoStore(with_spans(AsyncEmbeddedPort(await in_thread(open_store, url, retry)), spans))
    # Imported here: only the extras install what it needs.
    from octostore.client.http.async_port import AsyncHttpPort  # noqa: PLC0415

    port = AsyncHttpPort(*find_server(url, token, retry, allow_clear_text=allow_clear_text))
    return AsyncOctoStore(with_spans(port, spans))


def require_client(url: str | None, extra: str) -> None:
    """Raise `InvalidInput` if `url` names a server and what asyncio needs for that is missing: `extra` brings it."""
    if is_server(url) and find_spec("aiohttp") is None:
        from octostore.extras import how_to_add  # noqa: PLC0415

        problem = f"names a server; asyncio needs aiohttp for that; to install it: {how_to_add(extra)}"
        raise InvalidInput("url", problem)
