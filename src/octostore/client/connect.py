"""`connect()`: open the store that a URL names."""

from octostore.client.embedded import EmbeddedPort
from octostore.client.store import OctoStore
from octostore.client.tracing import Tracing, choose_spans, with_spans
from octostore.core.errors import InvalidInput
from octostore.core.retry import RetryPolicy
from octostore.stores.opening import chosen_url, is_server
from octostore.stores.store import open_store


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    retry: RetryPolicy | None = None,
    allow_clear_text: bool = False,
    tracing: Tracing = None,
) -> OctoStore:
    """Open the store that a URL names.

    Args:
        url: `sqlite:///relative.db` or `sqlite:////absolute.db` for a file, `memory:` for a store that lives as long
            as this object, `postgresql://...` for a database, `https://...` for a server. Defaults to `OCTOSTORE_URL`,
            or to your own file.
        token: The access token for a server. Defaults to `OCTOSTORE_TOKEN`, the file that `OCTOSTORE_TOKEN_FILE` names,
            or the token that your own server on this machine has left.
        retry: How to retry jobs that fail through this connection. Not for a server, which has its own policy.
        allow_clear_text: Allow sending the token over plain HTTP to another machine. For trusted networks only.
        tracing: Create OpenTelemetry spans, with the global tracer provider (True) or your own. Needs the
            `otel` extra. Defaults to `OCTOSTORE_TRACING`, 1 or 0.

    Returns:
        The store. A server is not contacted until the first call.

    Raises:
        InvalidInput: The URL or the token is malformed, or an extra is missing.
        Unreachable: The file or the database cannot be used; `reason` says why.

    Example:
        >>> store = octostore.connect("memory:")
        >>> store.claim_job("nightly-report").status
        'claimed'
    """
    url, spans = chosen_url(url), choose_spans(tracing)
    if not is_server(url):
        refuse_token(token)
        return OctoStore(with_spans(EmbeddedPort(open_store(url, retry)), spans))
    # Imported here: HTTP and TLS are slow to import, and a file needs neither.
    from octostore.client.http.port import HttpPort  # noqa: PLC0415
    from octostore.client.http.server_url import find_server  # noqa: PLC0415

    port = HttpPort(*find_server(url, token, retry, allow_clear_text=allow_clear_text))
    return OctoStore(with_spans(port, spans))


def refuse_token(token: str | None) -> None:
    if token is not None:
        raise InvalidInput("token", "is only for servers (http:// or https://); a file or a database needs none")
