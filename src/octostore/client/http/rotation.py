"""Replace the token that a client uses."""

from contextlib import closing

import msgspec

from octostore.client.http.calls import HttpCall
from octostore.client.http.connections import Connections
from octostore.client.http.responses import read_response
from octostore.client.http.retry_budget import RESPONSE_SECONDS
from octostore.client.http.server_url import ServerUrl
from octostore.stores.base import TryAgain
from octostore.wire.responses import RotatedToken

PATH = "/auth/token/rotate"


def rotate_token(server_url: ServerUrl, token: str) -> RotatedToken:
    """Call once, without a retry: if the reply is lost, the old token may already be invalid."""
    call = HttpCall("POST", PATH, b"{}", msgspec.json.Decoder(RotatedToken).decode, is_repeatable=False)
    with closing(Connections(server_url, token)) as connections:
        try:
            response, body = connections.call(call.method, call.path, call.body, RESPONSE_SECONDS)
            rotated: RotatedToken = read_response(
                call, server_url.origin, response.status, body, response.headers.get("retry-after")
            )
        except TryAgain as failed:
            raise failed.fault from None
    return rotated
