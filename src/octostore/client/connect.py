"""One URL decides where ownership lives."""

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
    """Open the store that `url` names; without one, that of `OCTOSTORE_URL`, else the file of this user.

    - `sqlite:///relative.db` and `sqlite:////absolute.db` name a file, `memory:` a store that ends with this object.
      `retry` is how jobs that fail through this connection are retried.
    - `http://` and `https://` name a server. `token` is what it asks for; by default `OCTOSTORE_TOKEN`, the file that
      `OCTOSTORE_TOKEN_FILE` names, or what a server of the same user has left for clients of this very address. It is
      not sent in clear text to another machine unless `allow_clear_text`.

    With `tracing`, calls make OpenTelemetry spans, which needs `octostore[otel]`: True for the global tracer provider,
    or a provider. By default `OCTOSTORE_TRACING` decides: 1 or 0.

    Raises `InvalidInput` for a URL or token that cannot be understood, and `Unreachable` for a file that cannot be
    used. A server is not asked before the first call.
    """
    url, spans = chosen_url(url), choose_spans(tracing)
    if not is_server(url):
        refuse_token(token)
        return OctoStore(with_spans(EmbeddedPort(open_store(url, retry)), spans))
    # Here, because HTTP and TLS take long to import, and a file needs neither.
    from octostore.client.http.port import HttpPort  # noqa: PLC0415
    from octostore.client.http.server_url import find_server  # noqa: PLC0415

    port = HttpPort(*find_server(url, token, retry, allow_clear_text=allow_clear_text))
    return OctoStore(with_spans(port, spans))


def refuse_token(token: str | None) -> None:
    if token is not None:
        raise InvalidInput("token", "is only for servers (http:// or https://); a file or a database needs none")
