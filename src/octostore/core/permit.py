"""The right by which a command runs, which may end before its turn comes."""

import msgspec

from octostore.core.errors import NotAllowed
from octostore.core.model import Token
from octostore.core.same_secret import is_same_secret
from octostore.core.secret_free import SecretFree


class Permit(SecretFree, msgspec.Struct, frozen=True):
    """The token that authorised a command, and the secret it had at that time.

    Only the store knows whether it still has that secret: another process may have revoked it.
    """

    token_id: str
    digest: bytes

    def is_issued_by(self, token: Token | None, now: int) -> bool:
        return token is not None and token.is_valid(now) and is_same_secret(token.digest, self.digest)


class TokenOver(NotAllowed):
    """The token was valid when the call was made, and is no longer."""

    code = "authentication_failed"

    def __init__(self) -> None:
        super().__init__("this token is no longer valid")
