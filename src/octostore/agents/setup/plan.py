"""What a setup changes: check everything first, then write all of it, or nothing."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from octostore.agents.setup.clients import CLIENTS, Client
from octostore.agents.setup.files import BOM, delete, read_safely, write_in_one_step
from octostore.agents.setup.parts import MCP_NAME, MarkdownPart, Part, Unsafe
from octostore.core.errors import InvalidInput

Status = Literal["current", "outdated", "absent"]
Edit = Callable[["Scope", Part, str | None], str | None]


class Change(msgspec.Struct, frozen=True):
    """To one file; None is a file that does not exist."""

    path: Path
    what: str
    before: str | None
    after: str | None
    note: str | None = None
    """What people should know about it."""

    @property
    def done(self) -> Literal["unchanged", "created", "changed", "deleted"]:
        if self.before == self.after:
            return "unchanged"
        if self.before is None:
            return "created"
        return "changed" if self.after is not None else "deleted"


class Problem(msgspec.Struct, frozen=True):
    part: Part
    path: Path
    why: str


class CannotEdit(InvalidInput):
    """At least one file cannot be edited safely, so none was."""

    def __init__(self, problems: list[Problem]) -> None:
        unsafe = "; ".join(f"{problem.path} ({problem.why})" for problem in problems)
        super().__init__("setup", f"changed nothing: it cannot safely edit {unsafe}")
        self.problems = problems


class Scope(msgspec.Struct, frozen=True):
    """Where a client is set up."""

    client: Client
    base: Path
    is_global: bool

    def parts(self) -> list[Part]:
        return self.client.parts(self.is_global)

    def path(self, part: Part) -> Path:
        return self.base / part.path

    def root(self, path: Path) -> Path:
        """What must not stay, and is not deleted."""
        return self.base if path.is_relative_to(self.base) else path.parent


def set_up(scope: Scope) -> list[Change]:
    return _carried_out(scope, _changes(scope, _put))


def removed(scope: Scope) -> list[Change]:
    return _carried_out(scope, list(reversed(_changes(scope, _take))))


def status_of(scope: Scope) -> tuple[Status, list[tuple[Change, Status]]]:
    """Overall, and per file."""
    looked_at = [(part, change, _status(part, change)) for part, change in _looked_at(scope, _put)]
    found = [(change, status) for _, change, status in looked_at if change.after is not None]
    if all(status == "current" for _, status in found):
        return "current", found
    # The lines for AGENTS.md may be there for another client.
    is_absent = all(status == "absent" for part, _, status in looked_at if not isinstance(part, MarkdownPart))
    return "absent" if is_absent else "outdated", found


def _status(part: Part, change: Change) -> Status:
    if change.done == "unchanged":
        return "current"
    return "outdated" if change.before is not None and part.has(change.before.removeprefix(BOM)) else "absent"


def _put(_scope: Scope, part: Part, text: str | None) -> str | None:
    return part.put(text)


def _take(scope: Scope, part: Part, text: str | None) -> str | None:
    if text is None or (isinstance(part, MarkdownPart) and _is_shared(scope, part)):
        return text
    return part.take(text)


def _is_shared(scope: Scope, part: Part) -> bool:
    """Whether another client that is set up here needs the same lines."""
    others = [Scope(client, scope.base, scope.is_global) for client in CLIENTS.values() if client != scope.client]
    return any(part in other.parts() and _is_set_up(other) for other in others)


def _is_set_up(scope: Scope) -> bool:
    for part in scope.parts():
        try:
            text = read_safely(scope.path(part), scope.root(scope.path(part)))
            if not isinstance(part, MarkdownPart) and text is not None and part.has(text.removeprefix(BOM)):
                return True
        except Unsafe:
            continue
    return False


def _changes(scope: Scope, edit: Edit) -> list[Change]:
    return [change for _, change in _looked_at(scope, edit)]


def _looked_at(scope: Scope, edit: Edit) -> Iterator[tuple[Part, Change]]:
    problems, found, seen = [], [], set()
    for part in scope.parts():
        path = scope.path(part)
        real = os.path.realpath(path)
        if real in seen:
            continue  # for example a CLAUDE.md that links to AGENTS.md
        seen.add(real)
        try:
            before = read_safely(path, scope.root(path))
            after = _edited(scope, part, before, edit)
            found.append((part, Change(path, part.what, before, after, _note(part, before))))
        except Unsafe as error:
            problems.append(Problem(part, path, str(error)))
    if problems:
        raise CannotEdit(problems)
    yield from found


def _note(part: Part, text: str | None) -> str | None:
    with suppress(Unsafe):  # no reason to stop if it was not one for the edit
        if text is not None and part.has_theirs(text.removeprefix(BOM)):
            return f"your own entry {MCP_NAME} is left alone"
    return None


def _edited(scope: Scope, part: Part, text: str | None, edit: Edit) -> str | None:
    if text is None or not text.startswith(BOM):
        return edit(scope, part, text)
    after = edit(scope, part, text.removeprefix(BOM))
    return after if after is None else BOM + after


def _carried_out(scope: Scope, changes: list[Change]) -> list[Change]:
    done: list[Change] = []
    for change in changes:
        try:
            if _write(scope, change.path, change.before, change.after):
                done.append(change)
        except (OSError, Unsafe) as error:
            for earlier in reversed(done):
                with suppress(Unsafe):  # someone has changed it meanwhile, and that stays
                    _write(scope, earlier.path, earlier.after, earlier.before)
            why = error.strerror if isinstance(error, OSError) else error
            raise InvalidInput("setup", f"changed nothing: {change.path} cannot be written: {why}") from error
    return changes


def _write(scope: Scope, path: Path, before: str | None, after: str | None) -> bool:
    """Whether there was anything to do. Raises `Unsafe` if the file has changed since it was checked."""
    if after == before:
        return False
    found = read_safely(path, scope.root(path))
    if found == after:
        return False  # another process is doing the same setup
    if found != before:
        raise Unsafe("it was changed just now; run this again")
    if after is None:
        delete(path, scope.root(path))
    else:
        write_in_one_step(path, after)
    return True
