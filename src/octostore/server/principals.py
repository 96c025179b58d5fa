"""Who asks, and what they may do."""

import time

import msgspec

from octostore.core.model import Scope
from octostore.core.permit import Permit
from octostore.core.replies import TokenView
from octostore.core.session_keys import SessionKey, no_such_session, session_key, whose
from octostore.server.refusals import name_not_allowed, prefix_limited


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """What a token says. Everything that one may do is decided here and nowhere else."""

    name: str
    """Who it is, in claims, sessions, limits and the log."""
    scopes: frozenset[Scope]
    prefix: str = ""
    token_id: str | None = None
    """None for a token that was set from outside: it cannot be rotated here."""
    expires_at_ms: int | None = None
    permit: Permit | None = None
    """By which all that it asks is carried out; None for a token that was set from outside."""

    @property
    def is_over(self) -> bool:
        """Whether its time has come. Whether its token has been revoked, it does not know."""
        return self.expires_at_ms is not None and self.expires_at_ms <= time.time() * 1_000

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or "admin" in self.scopes

    def require_name(self, job_id: str) -> None:
        if not job_id.startswith(self.prefix):
            raise name_not_allowed()

    def require_unlimited(self) -> None:
        """For what is not about a name, such as a queue's limit."""
        if self.prefix:
            raise prefix_limited()

    @property
    def sees_all(self) -> bool:
        return self.may("admin") and not self.prefix

    def session(self, name: str) -> SessionKey:
        """The session that it calls `name`; that of anybody else is as good as none, except to operators."""
        key = session_key(self.name, name)
        if whose(key) != self.name and not self.sees_all:
            raise no_such_session(key)
        return key

    def restrict_prefix(self, prefix: str | None) -> str:
        """The names that this principal may see of those with `prefix`, as a prefix."""
        wanted = prefix or ""
        if wanted.startswith(self.prefix):
            return wanted
        if self.prefix.startswith(wanted):
            return self.prefix
        raise name_not_allowed()


def principal_name(name: str, prefix: str) -> str:
    """Tokens of one name are one principal, but not across prefixes.

    Sessions and repeated requests belong to a principal, and would lead a limited token to what it may not see.
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
