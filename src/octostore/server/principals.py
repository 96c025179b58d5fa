"""Principals: who sent a request, and what it may do."""

import time

import msgspec

from octostore.core.encoding import shorten
from octostore.core.limits import TEXT_BYTES
from octostore.core.model import Scope
from octostore.core.permit import Permit
from octostore.core.replies import TokenView
from octostore.core.session_keys import SessionKey, no_such_session, session_key, whose
from octostore.server.refusals import name_not_allowed, prefix_limited


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a token. Every permission is decided here and nowhere else."""

    name: str
    """Its name in claims, sessions, limits and the log."""
    scopes: frozenset[Scope]
    prefix: str = ""
    token_id: str | None = None
    """None for a token from the tokens file, which cannot be rotated here."""
    expires_at_ms: int | None = None
    permit: Permit | None = None
    """Goes with every command, so that the store can check the token again; None for one from the tokens file."""

    @property
    def owner(self) -> str:
        """The owner of claims that name none. A prefix can make the principal's name longer than an owner may be."""
        return shorten(self.name, TEXT_BYTES)

    @property
    def has_expired(self) -> bool:
        """Whether its token has expired. This does not know about revoked tokens."""
        return self.expires_at_ms is not None and self.expires_at_ms <= time.time() * 1_000

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or "admin" in self.scopes

    def require_name(self, job_id: str) -> None:
        if not job_id.startswith(self.prefix):
            raise name_not_allowed(self.prefix)

    def require_unlimited(self) -> None:
        """For calls that are not about a name, like a queue's limit."""
        if self.prefix:
            raise prefix_limited()

    @property
    def sees_all(self) -> bool:
        return self.may("admin") and not self.prefix

    def session(self, name: str) -> SessionKey:
        """The session this principal calls `name`. Only operators can name another principal's session."""
        key = session_key(self.name, name)
        if whose(key) != self.name and not self.sees_all:
            raise no_such_session(key)
        return key

    def restrict_prefix(self, prefix: str | None) -> str:
        """Narrow `prefix` to the names this principal may see."""
        requested = prefix or ""
        if requested.startswith(self.prefix):
            return requested
        if self.prefix.startswith(requested):
            return self.prefix
        raise name_not_allowed(self.prefix)


def principal_name(name: str, prefix: str) -> str:
    """Tokens of the same name and prefix share a principal.

    The prefix is part of it because sessions and request ids belong to the principal: without it, a limited token could
    reach names that it may not see.
    """
    return f"{name}[{prefix}]" if prefix else name


def principal_of(token: TokenView, digest: bytes) -> Principal:
    return Principal(
        name=principal_name(token.name, token.prefix),
        scopes=frozenset(token.scopes),
        prefix=token.prefix,
        token_id=token.token_id,
        permit=Permit(token.token_id, digest),
        expires_at_ms=None if token.expires_at is None else round(token.expires_at.timestamp() * 1_000),
    )
