"""By what right a command is carried out, where that can end before the command's turn has come."""

from hmac import compare_digest

import msgspec

from octostore.core.errors import NotAllowed
from octostore.core.model import Token
from octostore.core.secret_free import SecretFree


class Permit(SecretFree, msgspec.Struct, frozen=True):
    """The token with which a command was let in, and the secret that it had then.

    Only the store can tell whether it still has it: it may have been revoked in another process.
    """

    token_id: str
    digest: bytes

    def is_given_by(self, token: Token | None, now: int) -> bool:
        return token is not None and token.is_valid(now) and compare_digest(token.digest, self.digest)


class TokenOver(NotAllowed):
    """The token with which this was asked was valid then, and is not any more."""

    code = "authentication_failed"

    def __init__(self) -> None:
        super().__init__("this token is not valid any more")
