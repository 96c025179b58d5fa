"""Which store a command uses, and which setting named it: the first question if it cannot be reached."""

import os
import re
from typing import TYPE_CHECKING

import msgspec

from octostore.core.errors import InvalidInput
from octostore.stores.opening import URL_VARIABLE, default_path, is_server

if TYPE_CHECKING:
    from octostore.client.reader import Reader
    from octostore.client.store import OctoStore


class StoreAddress(msgspec.Struct, frozen=True):
    url: str | None
    source: str
    """The setting that named it; empty for the default."""
    is_interactive: bool = False
    """Whether to tell a person at a terminal what a slow call is waiting for."""

    @property
    def is_server(self) -> bool:
        return is_server(self.url)

    def __str__(self) -> str:
        """Without any password or token."""
        return default_path() if self.url is None else _redact(self.url)

    @property
    def with_source(self) -> str:
        return f"{self} ({f'from {self.source}' if self.source else f'the default: {URL_VARIABLE} is not set'})"

    def check_lasts(self) -> None:
        """Each command would have an empty store in memory to itself, and succeed."""
        if self.url is not None and self.url.lower().startswith("memory:"):
            raise InvalidInput(
                "url", "is `memory:`, a store that ends with the command; use a file, a database or a server"
            )

    def open(self) -> "OctoStore":
        self.check_lasts()
        from octostore.cli.visible_log import escape_log_lines  # noqa: PLC0415  # as late as possible
        from octostore.client.connect import connect  # noqa: PLC0415  # most of what a command has to wait for

        escape_log_lines()
        if not self.is_interactive:
            return connect(self.url)
        from octostore.cli import slow_calls  # noqa: PLC0415  # only for people

        if self.is_server:
            slow_calls.watch_server_calls(str(self))
            return connect(self.url)
        return slow_calls.open_watched(self.url, str(self))

    def open_reader(self) -> "Reader":
        """Open it for reading only, which imports much less."""
        self.check_lasts()
        if self.is_server:
            return self.open()
        from octostore.client.read_only import open_read_only  # noqa: PLC0415

        return open_read_only(self.url)


def resolve_store(url: str | None, *, is_interactive: bool = False) -> StoreAddress:
    if url is not None:
        return StoreAddress(url, "--url", is_interactive)
    if named := os.environ.get(URL_VARIABLE):
        return StoreAddress(named, URL_VARIABLE, is_interactive)
    return StoreAddress(None, "", is_interactive)


_PORT = re.compile(r"(://(?:\[[^]]*\]|[^/:[]*):)(?!\d*(?:[,/?]|$))[^/?]*")
"""Of an address, unless it starts with a number: a password, if the user forgot the host."""


def _redact(url: str) -> str:
    """Works on invalid URLs too: error messages show those most often."""
    from octostore.wire.tokens import PREFIX  # noqa: PLC0415  # only if a URL is shown

    scheme, colon, _ = url.partition(":")
    before, at, after = url.rpartition("@")
    if at and scheme.lower() != "sqlite":
        # After a question mark, the @ may be part of anything.
        url = f"{scheme if colon else ''}://***" + ("" if "?" in before else f"@{after}")
    shown, question, _ = url.partition("?")
    shown = _PORT.sub(r"\1***", shown)
    return re.sub(rf"{PREFIX}\w+", f"{PREFIX}***", shown + (question and "?***"))
