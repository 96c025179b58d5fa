"""Which store a command is about, and who said so: when it cannot be reached, that is the first question."""

import os
import re
from typing import TYPE_CHECKING

import msgspec

from octostore.stores.opening import URL_VARIABLE, default_path, is_server

if TYPE_CHECKING:
    from octostore.client.reader import Reader
    from octostore.client.store import OctoStore


class Place(msgspec.Struct, frozen=True):
    url: str | None
    setting: str
    """What named it."""
    is_watched: bool = False
    """Whether somebody sits at a terminal, and should know what they are waiting for."""

    @property
    def is_server(self) -> bool:
        return is_server(self.url)

    def __str__(self) -> str:
        """Without a password or token that may be in it."""
        return default_path() if self.url is None else _without_secrets(self.url)

    def open(self) -> "OctoStore":
        from octostore.cli.log_lines import show_what_hides  # noqa: PLC0415  # as late as possible
        from octostore.client.connect import connect  # noqa: PLC0415  # most of what a command has to wait for

        show_what_hides()
        if not self.is_watched:
            return connect(self.url)
        from octostore.cli import awaiting  # noqa: PLC0415  # only for people

        if self.is_server:
            awaiting.tell_of_silence(str(self))
            return connect(self.url)
        return awaiting.watched(self.url, str(self))

    def look(self) -> "Reader":
        """Only to ask, which takes far less than all that can be done with a store."""
        if self.is_server:
            return self.open()
        from octostore.client.read_only import open_read_only  # noqa: PLC0415

        return open_read_only(self.url)


def chosen_place(url: str | None, *, is_watched: bool = False) -> Place:
    if url is not None:
        return Place(url, "--url", is_watched)
    if named := os.environ.get(URL_VARIABLE):
        return Place(named, URL_VARIABLE, is_watched)
    return Place(None, f"the default, since {URL_VARIABLE} is not set", is_watched)


def _without_secrets(url: str) -> str:
    """Also of a URL that is not a valid one: those are shown most often."""
    from octostore.wire.tokens import PREFIX  # noqa: PLC0415  # only for those who are shown a URL

    scheme, colon, _ = url.partition(":")
    before, at, behind = url.rpartition("@")
    if at and scheme.lower() != "sqlite":
        # Behind a question mark it may be part of anything.
        url = f"{scheme if colon else ''}://***" + ("" if "?" in before else f"@{behind}")
    shown, question, _ = url.partition("?")
    return re.sub(rf"{PREFIX}\w+", f"{PREFIX}***", shown + (question and "?***"))
