"""What belongs in one file of a client, and how to put it there. Text in, text out; None means there is no file."""

import tomllib
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from octostore.agents.setup.blocks import Block
from octostore.agents.setup.json_edits import (
    Entry,
    Misfit,
    has_any,
    has_theirs,
    put_all,
    take_all,
    written_from_scratch,
)
from octostore.agents.setup.jsonc import Unreadable

T = TypeVar("T")
SKILL_MARK = "Written by `octostore setup`"
WHITE = " \t\r\n"
"""JSON's white space."""
MCP_TABLE, MCP_NAME = "mcp_servers", "octostore"


class Unsafe(Exception):
    """The file cannot be edited without risking its contents; the message says why."""


class Part(Protocol):
    @property
    def path(self) -> str: ...

    @property
    def what(self) -> str:
        """For people to read."""

    def has(self, text: str) -> bool:
        """Whether it contains something we wrote, of any version."""

    def has_theirs(self, text: str) -> bool:
        """Whether someone else's entry, which we leave alone, is where ours belongs."""

    def put(self, text: str | None) -> str | None: ...

    def take(self, text: str) -> str | None: ...

    def paste(self) -> str:
        """What to add by hand."""


class JsonPart(msgspec.Struct, frozen=True):
    path: str
    what: str
    entries: tuple[Entry, ...]
    around: dict[str, Any] = {}
    """What else the client expects in a file that we create."""

    def has(self, text: str) -> bool:
        return not _is_blank(text) and _safely(has_any, text, self.entries)

    def has_theirs(self, text: str) -> bool:
        return not _is_blank(text) and _safely(has_theirs, text, self.entries)

    def put(self, text: str | None) -> str:
        if text is None:
            return self.paste() + "\n"
        if _is_blank(text):
            return text + self.paste()
        changed = _safely(put_all, text, self.entries)
        if not self.has(text) and take_all(changed, self.entries) != text:
            raise Unsafe("removing our entries later would not restore it exactly")
        return changed

    def take(self, text: str) -> str | None:
        if not self.has(text):
            return text
        text = put_all(text, self.entries)  # an earlier version may have laid it out differently
        rest = take_all(text, self.entries)
        if rest is not None and text.strip(WHITE).replace("\r\n", "\n") != self.paste():
            return rest
        before = text[: len(text) - len(text.lstrip(WHITE))]
        return None if before == "" and text.endswith("\n") else before

    def paste(self) -> str:
        return written_from_scratch(self.entries, self.around)


def _is_blank(text: str) -> bool:
    return text.strip(WHITE) == ""


def _safely(edit: Callable[[str, tuple[Entry, ...]], T], text: str, entries: tuple[Entry, ...]) -> T:
    try:
        return edit(text, entries)
    except Unreadable as error:
        raise Unsafe(f"it is not valid JSON: {error}") from None
    except Misfit as error:
        raise Unsafe(str(error)) from None


class MarkdownPart(msgspec.Struct, frozen=True):
    path: str
    what: str
    block: Block
    only_if_there: bool = False

    def has(self, text: str) -> bool:
        return self.block.find(text) is not None

    def has_theirs(self, text: str) -> bool:  # noqa: ARG002  # a block never replaces anything
        return False

    def put(self, text: str | None) -> str | None:
        if text is None:
            return None if self.only_if_there else self.block.text() + "\n"
        if self.only_if_there and set(self.block.lines) <= set(self.block.take(text).splitlines()):
            return text  # someone wrote the same
        return self.block.put(text)

    def take(self, text: str) -> str | None:
        return None if self.block.is_all(text) and not self.only_if_there else self.block.take(text)

    def paste(self) -> str:
        return self.block.text()


class TomlPart(msgspec.Struct, frozen=True):
    """The table of an MCP server, in Codex's settings."""

    path: str
    what: str
    block: Block

    def has(self, text: str) -> bool:
        return self.block.find(text) is not None

    def has_theirs(self, text: str) -> bool:
        servers = _read(self.block.take(text)).get(MCP_TABLE)
        return isinstance(servers, dict) and MCP_NAME in servers

    def put(self, text: str | None) -> str:
        if text is None:
            return self.block.text() + "\n"
        if self.has_theirs(text):
            return text
        changed = self.block.put(text)
        self._check(_read(self.block.take(text)), changed)
        return changed

    def take(self, text: str) -> str | None:
        if self.block.is_all(text):
            return None
        if not self.has(text):
            return text
        rest = self.block.take(text)
        self._check(_read(rest), text)
        return rest

    def _check(self, without: dict[str, Any], text: str) -> None:
        """Check that our table is the only difference."""
        ours = tomllib.loads("\n".join(self.block.lines))[MCP_TABLE]
        found = _read(text)
        if without | {MCP_TABLE: {**without.get(MCP_TABLE, {}), **found.get(MCP_TABLE, {})}} != found or (
            found[MCP_TABLE].keys() - without.get(MCP_TABLE, {}).keys() != ours.keys()
        ):
            raise Unsafe(f"other settings depend on the lines of [{MCP_TABLE}.{MCP_NAME}]; edit the file by hand")

    def paste(self) -> str:
        return self.block.text()


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise Unsafe(f"it is not valid TOML: {error}") from None


class WholePart(msgspec.Struct, frozen=True):
    """A file that is ours alone."""

    path: str
    what: str
    content: str

    def has(self, text: str) -> bool:
        return SKILL_MARK in text

    def has_theirs(self, text: str) -> bool:  # noqa: ARG002  # `put` refuses such a file
        return False

    def put(self, text: str | None) -> str:
        if text is None or text.replace("\r\n", "\n") == self.content:
            return self.content if text is None else text
        if not self.has(text):
            raise Unsafe("it was not written by octostore setup; move it away first")
        return self.content

    def take(self, text: str) -> str | None:
        return None if self.has(text) else text

    def paste(self) -> str:
        return self.content
