"""Opening a server's live page from a terminal."""

from contextlib import closing, suppress
from datetime import datetime
from typing import TypeVar

import msgspec

from octostore.client.http.calls import HttpCall
from octostore.client.http.connections import Connections
from octostore.client.http.responses import read_response
from octostore.client.http.retry_budget import RESPONSE_SECONDS
from octostore.client.http.server_url import ServerUrl, left_servers
from octostore.core.errors import InvalidInput, Unreachable
from octostore.core.secret_free import SecretFree
from octostore.stores.base import TryAgain
from octostore.wire.failures import Failure
from octostore.wire.responses import About, Health, LoginLink

T = TypeVar("T")
NOT_FOUND = 404


class PageLink(SecretFree, msgspec.Struct, frozen=True, kw_only=True):
    """`link` opens `page` logged in, once, until `expires_at`."""

    page: str
    link: str
    expires_at: datetime


def serving(store_id: str) -> list[tuple[ServerUrl, str]]:
    """Find this user's servers for this store on this machine, newest first, with the tokens they left."""
    found = [
        (server_url, token) for server_url, token in left_servers(store_id) if _serves(server_url, token, store_id)
    ]
    if not found:
        raise no_server()
    return found


def _serves(server_url: ServerUrl, token: str, store_id: str) -> bool:
    with closing(Connections(server_url, token)) as connections, suppress(Unreachable):
        return _ask(connections, "GET", "/health", Health).store_id == store_id
    return False


def no_server() -> Unreachable:
    return Unreachable("none of your servers on this machine serves this store", reason="no_server")


def make_link(server_url: ServerUrl, token: str) -> PageLink:
    """Asks once, without retries: a person is waiting."""
    with closing(Connections(server_url, token)) as connections:
        page = server_url.origin + _ask(connections, "GET", "/", About).page
        link = _ask(connections, "POST", "/auth/link", LoginLink)
    return PageLink(page=page, link=f"{page}#login={link.code}", expires_at=link.expires_at)


def _ask(connections: Connections, method: str, path: str, kind: type[T]) -> T:
    where = connections.server_url.origin
    call = HttpCall(method, path, None, msgspec.json.Decoder(kind).decode)
    try:
        response, body = connections.call(method, path, None, RESPONSE_SECONDS)
        if response.status == NOT_FOUND and _lacks_route(body):
            raise InvalidInput(
                "url", f"names a server without a live page ({where}): it runs with --no-ui, or is an older version"
            )
        reply: T = read_response(call, where, response.status, body, response.headers.get("retry-after"))
    except TryAgain as failed:
        raise failed.fault from None
    return reply


def _lacks_route(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=Failure).code == "no_such_route"
    except (msgspec.DecodeError, ValueError):
        return False
