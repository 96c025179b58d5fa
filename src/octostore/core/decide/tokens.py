"""Tokens: who may act on a store that a server shares. Their secrets never arrive here, only digests."""

from octostore.core import views
from octostore.core.commands import CreateToken, RevokeToken, RotateToken
from octostore.core.decide import needs
from octostore.core.decide.rules import decides
from octostore.core.errors import Conflict, NotFound
from octostore.core.events import TokenChanged, TokenCreated
from octostore.core.model import Token
from octostore.core.replies import TokenView
from octostore.core.same_secret import is_same_secret
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet


@decides(CreateToken, needs.token, needs.digest)
def create_token(ws: WorkingSet, command: CreateToken, _sources: Sources) -> TokenView:
    known = ws.token(command.token_id)
    if known is not None:
        if is_same_secret(known.digest, command.digest) and _is_as_asked(known, command):
            return views.token_view(known)
        raise Conflict(f"a token with the id {command.token_id!r} already exists")
    _check_is_new(ws, command)
    details = TokenCreated(
        token_id=command.token_id,
        name=command.name,
        scopes=command.scopes,
        prefix=command.prefix,
        expires_at=None if command.expires_in is None else ws.now + round(command.expires_in * 1_000),
    )
    ws.record("token_created", details, actor=command.principal)
    token = _known(ws, command.token_id)
    token.digest = command.digest
    return views.token_view(token)


@decides(RotateToken, needs.token, needs.digest)
def rotate_token(ws: WorkingSet, command: RotateToken, _sources: Sources) -> TokenView:
    token = _known(ws, command.token_id)
    if not token.is_valid(ws.now):
        raise Conflict(f"token {token.token_id!r} is revoked or has expired, so it cannot be rotated")
    if not is_same_secret(token.digest, command.digest):
        _check_is_new(ws, command)
        ws.record("token_rotated", TokenChanged(token.token_id, token.principal), actor=command.principal)
        token.digest = command.digest
    return views.token_view(token)


@decides(RevokeToken, needs.token)
def revoke_token(ws: WorkingSet, command: RevokeToken, _sources: Sources) -> TokenView:
    token = _known(ws, command.token_id)
    if token.revoked_at is None:
        ws.record("token_revoked", TokenChanged(token.token_id, token.principal), actor=command.principal)
    return views.token_view(token)


def _is_as_asked(token: Token, command: CreateToken) -> bool:
    return (token.principal, token.scopes, token.prefix) == (command.name, command.scopes, command.prefix)


def _check_is_new(ws: WorkingSet, command: CreateToken | RotateToken) -> None:
    """A secret identifies one principal, so only one token can have it."""
    if any(token is not None and is_same_secret(token.digest, command.digest) for token in ws.tokens.values()):
        raise Conflict("another token already has this secret")


def _known(ws: WorkingSet, token_id: str) -> Token:
    token = ws.token(token_id)
    if token is None:
        raise NotFound(f"no token has the id {token_id!r}; ids begin with tok-, and the list of tokens shows them")
    return token
