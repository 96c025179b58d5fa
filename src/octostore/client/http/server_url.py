"""Where a server is, and the token for it."""

import os
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from octostore.core.errors import InvalidInput
from octostore.core.retry import RetryPolicy
from octostore.stores.opening import data_folder
from octostore.stores.permissions import check_folder
from octostore.wire.token_files import address_file, admin_token_file, read_token_file
from octostore.wire.tokens import check_token, is_well_formed

TOKEN_VARIABLE = "OCTOSTORE_TOKEN"  # noqa: S105  # a variable's name
TOKEN_FILE_VARIABLE = "OCTOSTORE_TOKEN_FILE"  # noqa: S105
CLEAR_TEXT_VARIABLE = "OCTOSTORE_ALLOW_CLEAR_TEXT"
LEFT_MAX = 20
"""How many of the tokens left by servers to try: each server that picks its own port leaves one."""
LOCALHOST = ("127.0.0.1", "::1")


class ServerUrl(NamedTuple):
    is_secure: bool
    host: str
    port: int
    base_path: str
    left_by: int | None = None
    """The user who left the token that was found: it is only for that user's servers."""

    @property
    def address(self) -> str:
        """For the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host.encode("idna").decode()
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://{self.address}"

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, where plain HTTP is safe."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


def find_server(
    url: str | None, token: str | None, retry: RetryPolicy | None, *, allow_clear_text: bool
) -> tuple[ServerUrl, str]:
    """Find the server and its token from the arguments of `connect()`."""
    if retry is not None:
        raise InvalidInput("retry", "is decided by the server; clients cannot set it")
    server_url = parse_server_url(url or "", allow_clear_text=allow_clear_text)
    configured = _configured_token(token)
    return (server_url, configured) if configured is not None else _left_token(server_url)


def parse_server_url(url: str, *, allow_clear_text: bool = False) -> ServerUrl:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput("url", "is not a valid URL; it must look like https://host:port") from None
    if not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput("url", "must look like https://host:port, without a query")
    if parts.username or parts.password:
        raise InvalidInput("url", "must not contain a user name or password; pass the token separately")
    if not _can_be_sent(parts.hostname, parts.path) or port == 0:
        raise InvalidInput("url", "has an invalid host, port or path; percent-encode special characters")
    is_secure = parts.scheme == "https"
    server_url = ServerUrl(is_secure, parts.hostname, port or (443 if is_secure else 80), parts.path.rstrip("/"))
    if (
        not is_secure
        and not server_url.is_local
        and not (allow_clear_text or os.environ.get(CLEAR_TEXT_VARIABLE) == "1")
    ):
        raise InvalidInput(
            "url",
            f"would send the token in clear text to {parts.hostname}; use https://, or allow_clear_text=True (or "
            f"{CLEAR_TEXT_VARIABLE}=1) on a trusted network",
        )
    return server_url


def _can_be_sent(host: str, path: str) -> bool:
    """Otherwise every call would fail with an obscure error."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return path.isascii() and (host + path).isprintable() and " " not in host + path


def _configured_token(token: str | None) -> str | None:
    """The argument, else from the environment, else from the file it names."""
    if token is not None:
        if not isinstance(token, str):
            raise InvalidInput("token", f"must be text, not {type(token).__name__}")
        check_token("token", token)
        return token
    value = os.environ.get(TOKEN_VARIABLE)
    if value:
        check_token(TOKEN_VARIABLE, value)
        return value
    named = os.environ.get(TOKEN_FILE_VARIABLE)
    return _from_file(Path(named), TOKEN_FILE_VARIABLE) if named else None


def _left_token(server_url: ServerUrl) -> tuple[ServerUrl, str]:
    """The token that a server of this user has left for exactly this address, which must then be used."""
    hosts = LOCALHOST if server_url.host == "localhost" else (server_url.host,)
    for host in hosts if server_url.is_local and not server_url.is_secure else ():
        left = address_file(Path(data_folder()), host, server_url.port)
        if left.exists():
            check_folder(data_folder())
            token = _from_file(left, "the local server's token")
            return server_url._replace(host=host, left_by=left.stat().st_uid), token
    where = (
        f" (no server that you started has left a token for {server_url.origin}; is the server running?)"
        if server_url.is_local
        else ""
    )
    raise InvalidInput(
        "token", f"is required: set {TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}, or pass token= in Python{where}"
    )


def left_servers(store_id: str) -> Iterator[tuple[ServerUrl, str]]:
    """Addresses at which this user's servers have served a store, newest first. They may be gone."""
    folder = Path(data_folder())
    name = admin_token_file(folder, store_id).name
    links = [link for link in folder.glob("*:*.token") if link.is_symlink() and str(link.readlink()) == name]
    links.sort(key=lambda link: link.lstat().st_mtime, reverse=True)
    for link in links[:LEFT_MAX]:
        yield _left_token(parse_server_url(f"http://{link.name.removesuffix('.token')}"))


def _from_file(path: Path, what: str) -> str:
    try:
        token = read_token_file(path, what)
    except OSError as error:
        raise InvalidInput(what, f"({path}) cannot be read: {error.strerror}") from None
    if not is_well_formed(token):
        problem = "does not contain an OctoStore token" if token else "is empty"
        raise InvalidInput(what, f"({path}) {problem}; copy the token again")
    return token
