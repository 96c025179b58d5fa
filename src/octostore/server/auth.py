"""Authentication: tokens from the store, or from a tokens file."""

import hashlib
from collections.abc import Iterable
from hmac import compare_digest
from pathlib import Path
from typing import get_args

import msgspec

from octostore.core.checks import check_token_name
from octostore.core.commands import CreateToken, RotateToken
from octostore.core.errors import Conflict, InvalidInput, NotFound, OctoStoreError
from octostore.core.events import LogEntry, TokenChanged, decode_details
from octostore.core.model import SERVER, Scope
from octostore.core.names import check_prefix
from octostore.core.questions import FindToken
from octostore.core.replies import TokenView
from octostore.server.addresses import client_network
from octostore.server.http import Request
from octostore.server.log import log, throttled
from octostore.server.logins import Logins
from octostore.server.principals import Principal, principal_name, principal_of
from octostore.server.rate_limiter import RateLimiter
from octostore.server.refusals import Refusal, bad_token, no_token, not_bearer, too_fast
from octostore.server.store import ServedStore
from octostore.server.token_lookups import TokenLookups
from octostore.stores.ids import new_token_id
from octostore.wire.token_files import (
    OWN_TOKEN_LINK,
    link_token_file,
    read_token_file,
    write_token_file,
)
from octostore.wire.tokens import check_token, is_well_formed, new_token, token_digest

FAILURES_PER_SECOND = 20
"""How many wrong tokens an address may send per second before it is rate-limited. Valid tokens still work."""
CACHED_TOKENS = 10_000
ALL_SCOPES: tuple[Scope, ...] = get_args(Scope)
CHANGES = {"token_rotated", "token_revoked"}
"""Events that invalidate a token. Expiry and a restored backup do so as well."""


class Auth:
    def __init__(self, store: ServedStore, static: dict[bytes, Principal], logins: Logins) -> None:
        self._static = static
        self._logins = logins
        self._cache: dict[bytes, Principal] = {}
        """By the digest of the token."""
        self._digests: dict[str, bytes] = {}
        """The digest of each cached token, by token id."""
        self._lookups = TokenLookups(store)
        self._changes = 0
        self._failures = RateLimiter(FAILURES_PER_SECOND)

    async def principal(self, request: Request) -> Principal:
        """Who sent the request. Raises a refusal."""
        principal = self.cached_principal(request)
        if principal is not None:
            return principal
        digest, ends_at_ms = self.read_credentials(request)
        if ends_at_ms is None:
            check_token_format(request, _bearer_token(request).decode("latin-1"))
        return _until(request, await self._find(request, digest), ends_at_ms)

    def cached_principal(self, request: Request) -> Principal | None:
        """Who sent the request, without asking the store; None if the token is not cached. Raises a refusal."""
        digest, ends_at_ms = self.read_credentials(request)
        principal = self._static.get(digest) or self._cache.get(digest)
        if principal is None or (principal.expires_at_ms is None and ends_at_ms is None):
            return principal
        return _until(request, principal, ends_at_ms)

    def read_credentials(self, request: Request) -> tuple[bytes, int | None]:
        """Return the digest of its token, and when its login ends if it comes from the live page. Raises a refusal.

        The page sends a cookie, everyone else `Authorization`. Where one counts, the other is ignored.
        """
        if request.route is not None and request.route.is_page:
            return self._logins.read_login(request)
        headers = request.headers
        if headers.token_digest is None:
            headers.token_digest = hashlib.sha256(_bearer_token(request)).digest()
        return headers.token_digest, None

    async def find_principal(self, request: Request, digest: bytes) -> Principal:
        """Whose token this is. Raises a refusal if it is not valid."""
        principal = self._static.get(digest) or self._cache.get(digest) or await self._find(request, digest)
        return _until(request, principal, None)

    def slow_down(self, request: Request, refusal: Refusal) -> Refusal:
        """Count a failure, and return `refusal`, or a rate limit if the address may be guessing."""
        pause_ms = self._failures.take(client_network(request.client_address))
        return too_fast(pause_ms) if pause_ms else refusal

    async def is_current(self, request: Request, principal: Principal) -> bool:
        """Whether the request would still be let in: streams and waiting claims can outlive their token."""
        changes = self._changes
        if request.token_changes_seen == changes and not principal.has_expired:
            return True  # no token has changed since
        try:
            is_current = await self.principal(request) == principal
        except Refusal:
            return False
        except OctoStoreError:
            return True  # the store is unavailable; the next call asks again
        request.token_changes_seen = changes
        return is_current

    def forget(self, token_ids: Iterable[str]) -> None:
        """These tokens have changed, here or in another process."""
        for token_id in token_ids:
            self._cache.pop(self._digests.pop(token_id, b""), None)
        self._changes += 1

    def forget_all(self) -> None:
        self._cache.clear()
        self._digests.clear()
        self._changes += 1

    async def _find(self, request: Request, digest: bytes) -> Principal:
        changes = self._changes
        view = await self._lookups.find(digest)
        if changes != self._changes:
            # The token may have been revoked meanwhile. Look once more, and not until nothing changes: other tokens may
            # change all the time.
            changes = self._changes
            view = await self._lookups.find(digest)
        if view is None:
            raise self.slow_down(request, log_refusal(request, "unknown"))
        if view.revoked_at is not None:
            raise log_refusal(request, "revoked", view.name, view.token_id)
        principal = principal_of(view, digest)
        if changes == self._changes:  # otherwise we may have missed the event that invalidates it
            if len(self._cache) >= CACHED_TOKENS:
                self.forget_all()
            self._cache[digest], self._digests[view.token_id] = principal, digest
        return principal


def changed_tokens(entries: Iterable[LogEntry]) -> set[str]:
    changes = (decode_details(entry) for entry in entries if entry.type in CHANGES)
    return {change.token_id for change in changes if isinstance(change, TokenChanged)}


def _bearer_token(request: Request) -> bytes:
    header = request.headers.get(b"authorization")
    if header is None:
        raise no_token()
    kind, _, token = header.partition(b" ")
    if kind.lower() != b"bearer":
        raise log_refusal(request, "malformed", refusal=not_bearer())
    return token.strip()


def check_token_format(request: Request, token: str) -> None:
    if not is_well_formed(token):
        raise log_refusal(request, "malformed")


def _until(request: Request, principal: Principal, ends_at_ms: int | None) -> Principal:
    """Limit `principal` to the time of the login. Raises a refusal if it has expired."""
    if principal.has_expired:
        raise log_refusal(request, "expired", principal.name, principal.token_id)
    if ends_at_ms is None or (principal.expires_at_ms is not None and principal.expires_at_ms <= ends_at_ms):
        return principal
    return msgspec.structs.replace(principal, expires_at_ms=ends_at_ms)


def log_refusal(
    request: Request,
    reason: str,
    principal: str | None = None,
    token_id: str | None = None,
    *,
    refusal: Refusal | None = None,
) -> Refusal:
    """Log why a token was refused, and return the refusal, which by default does not say why."""
    address = request.client_address
    throttled.warning(
        "token_refused",
        "a token was refused",
        source=token_id or client_network(address),
        reason=reason,
        principal=principal,
        token_id=token_id,
        address=address,
    )
    return refusal or bad_token()


async def ensure_admin_token(store: ServedStore, path: Path) -> None:
    """Make sure that the file at `path` contains a valid admin token."""
    earlier = path.with_name(OWN_TOKEN_LINK)
    if await _has_valid_token(store, path):
        return
    if await _has_valid_token(store, earlier):
        earlier.replace(path)
        link_token_file(earlier, path)  # for scripts that use the old name
        return
    token = new_token()
    await store.execute(
        CreateToken(
            token_id=new_token_id(), name="admin", digest=token_digest(token), scopes=ALL_SCOPES, principal=SERVER
        )
    )
    write_token_file(path, token)


async def _has_valid_token(store: ServedStore, path: Path) -> bool:
    view = await _token_in_file(store, path)
    return view is not None and view.revoked_at is None


async def _token_in_file(store: ServedStore, path: Path) -> TokenView | None:
    try:
        return await store.ask(FindToken(digest=token_digest(read_token_file(path))))
    except FileNotFoundError:
        return None
    except NotFound:
        log.warning("the token in %s is not valid in this store", path)
        return None


async def rotate(
    store: ServedStore, principal: Principal, digest: bytes | None, admin_file: Path
) -> tuple[TokenView, str | None]:
    """Return the token and its new secret, or None if the caller made the secret."""
    if principal.token_id is None:
        raise Conflict("this token comes from the server's tokens file; change it there")
    token = new_token() if digest is None else None
    command = RotateToken(
        token_id=principal.token_id,
        digest=token_digest(token) if token else digest or b"",
        principal=principal.name,
        permit=principal.permit,
    )
    is_ours = token is not None and await _is_in_file(store, admin_file, principal)
    view = await store.execute(command)
    if token is not None and is_ours:
        write_token_file(admin_file, token)
    return view, token


async def _is_in_file(store: ServedStore, path: Path, principal: Principal) -> bool:
    """Whether this is the token that clients on this machine find without being configured."""
    try:
        view = await _token_in_file(store, path)
    except InvalidInput:
        return False
    return view is not None and compare_digest(view.token_id, principal.token_id or "")


def read_static_tokens(path: Path) -> dict[bytes, Principal]:
    """Read lines of `NAME SCOPES TOKEN [PREFIX]`, with scopes separated by commas; `#` begins a comment."""
    principals = {}
    try:
        text = read_token_file(path, "the tokens file")
    except FileNotFoundError:
        raise InvalidInput("the tokens file", f"({path}) does not exist") from None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"line {number} of {path}"
        if len(words) not in {3, 4}:
            raise InvalidInput(where, "must be NAME SCOPES TOKEN [PREFIX], for example: ci read,claim octo_...")
        name, scopes, token, prefix = *words, *[""] * (4 - len(words))
        check_token_name(where, name)
        check_token(where, token)
        if not set(scopes.split(",")) <= set(ALL_SCOPES):
            raise InvalidInput(where, f"has an unknown scope; use {', '.join(ALL_SCOPES)}")
        try:
            check_prefix("prefix", prefix)
        except InvalidInput as error:
            raise InvalidInput(where, f"has an invalid prefix: {error}") from None
        granted = frozenset(scope for scope in ALL_SCOPES if scope in scopes.split(","))
        principals[token_digest(token)] = Principal(name=principal_name(name, prefix), scopes=granted, prefix=prefix)
    return principals
