"""Add entries to a JSON document and remove them again, restoring its bytes exactly.

An entry becomes the first child of its container, right after the opening bracket: everything else stays in one piece
after it. Its spacing records what was there before:

- a container that was empty has nothing between its bracket and our entry: `{"octostore": …}`
- a container that did not exist has space inside its brackets, and is removed with its last entry.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from octostore.agents.setup.blocks import end_of_line_in
from octostore.agents.setup.jsonc import Child, Node, after_blank, parse

DEFAULT_INDENT = "  "


class Entry(msgspec.Struct, frozen=True):
    """What belongs in a document: a member of an object, or an item of an array if it has no `key`."""

    path: tuple[str, ...]
    """The keys that lead to its container."""
    value: Any
    is_ours: Callable[[Any], bool]
    """Whether an existing value is ours, from this version or an earlier one."""
    key: str | None = None


class Misfit(Exception):
    """The document has something else where an entry belongs."""


def put_all(text: str, entries: Sequence[Entry]) -> str:
    """With every entry up to date; unchanged if they are. Raises `Misfit`, or the parser's `Unreadable`."""
    for entry in reversed(entries):
        text = _put(text, entry)
    return text


def take_all(text: str, entries: Sequence[Entry]) -> str | None:
    """Without the entries; None if nothing else is in the document."""
    for entry in entries:
        for _ in _ours(parse(text), entry):
            shorter = _take(text, entry)
            if shorter is None:
                return None
            text = shorter
    return text


def has_any(text: str, entries: Sequence[Entry]) -> bool:
    root = parse(text)
    return any(True for entry in entries for _ in _ours(root, entry))


def has_theirs(text: str, entries: Sequence[Entry]) -> bool:
    """Whether someone has chosen their own value where one of the entries belongs."""
    root = parse(text)
    return any(_is_theirs(root, entry) for entry in entries)


def written_from_scratch(entries: Sequence[Entry], around: dict[str, Any]) -> str:
    """A document of nothing but the entries and their containers."""
    document: dict[str, Any] = json.loads(json.dumps(around))
    for entry in entries:
        container: Any = document
        for step, following in zip(entry.path, (*entry.path[1:], None), strict=True):
            container = container.setdefault(step, [] if following is None and entry.key is None else {})
        if entry.key is None:
            container.append(entry.value)
        else:
            container[entry.key] = entry.value
    return json.dumps(document, indent=DEFAULT_INDENT, ensure_ascii=False)


# Adding


def _put(text: str, entry: Entry) -> str:
    root = parse(text)
    if not root.is_object:
        raise Misfit("the document is not an object")
    container, missing = _walk(root, entry)
    if missing:
        return _inserted(text, container, _nested(missing[1:], entry), missing[0], len(entry.path) - len(missing))
    if _is_theirs(root, entry):
        return text
    ours = list(_ours(root, entry))
    if not ours:
        return _inserted(text, container, entry.value, entry.key, len(entry.path))
    for child in reversed(ours):
        if not _contains(child.node.value, entry.value):
            rendered = _rendered(text, entry.value, container, len(entry.path) + 1)
            text = text[: child.node.start] + rendered + text[child.end :]
    return text


def _walk(root: Node, entry: Entry) -> tuple[Node, tuple[str, ...]]:
    """The innermost existing container, and the keys that are missing in it."""
    node = root
    for depth, step in enumerate(entry.path):
        found = node.child(step)
        if found is None:
            return node, entry.path[depth:]
        is_last = depth + 1 == len(entry.path)
        wants_object = not is_last or entry.key is not None
        if found.children is None or found.is_object != wants_object:
            raise Misfit(f"{'.'.join(entry.path[: depth + 1])} is not {'an object' if wants_object else 'an array'}")
        node = found
    return node, ()


def _is_theirs(root: Node, entry: Entry) -> bool:
    container, missing = _walk(root, entry)
    found = None if missing or entry.key is None else container.child(entry.key)
    return found is not None and not entry.is_ours(found.value)


def _ours(root: Node, entry: Entry) -> Iterator[Child]:
    container, missing = _walk(root, entry)
    if missing:
        return
    for child in container.children or []:
        if child.key == entry.key and entry.is_ours(child.node.value):
            yield child


def _contains(found: Any, wanted: Any) -> bool:
    """Whether it is up to date; a member may have more, like an `env` that someone added."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found | wanted == found
    return bool(found == wanted)


def _nested(path: Sequence[str], entry: Entry) -> Any:
    value = [entry.value] if entry.key is None else {entry.key: entry.value}
    for step in reversed(path):
        value = {step: value}
    return value


def _inserted(text: str, container: Node, value: Any, key: str | None, depth: int) -> str:
    inside = container.start + 1
    label = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    rendered = label + _rendered(text, value, container, depth + 1)
    if container.children:
        return text[:inside] + _gap(text, container) + rendered + "," + text[inside:]
    return text[:inside] + rendered + text[inside:]


def _gap(text: str, container: Node) -> str:
    """The space between the bracket and the first child."""
    inside = text[container.start + 1 : _first(container).start]
    if "\n" in inside:
        return end_of_line_in(text) + _margin_of(text, container)
    return inside[: len(inside) - len(inside.lstrip())]


def _rendered(text: str, value: Any, container: Node, depth: int) -> str:
    """In the layout of the surrounding text."""
    if container.children and not _is_laid_out(text, container):
        return _on_one_line(value)
    indent, end_of_line = _indent_of(text), end_of_line_in(text)
    margin = _margin_of(text, container) if container.children else indent * depth
    lines = json.dumps(value, indent=indent, ensure_ascii=False).split("\n")
    return (end_of_line + margin).join(lines)


def _on_one_line(value: Any) -> str:
    """With space inside the brackets, to mark a container that did not exist before."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)}: {_on_one_line(one)}' for key, one in value.items())} }}"
    if isinstance(value, list):
        return f"[ {', '.join(map(_on_one_line, value))} ]"
    return json.dumps(value, ensure_ascii=False)


def _is_laid_out(text: str, container: Node) -> bool:
    return "\n" in text[container.start : container.end]


def _margin_of(text: str, container: Node) -> str:
    """What precedes its first child on the same line."""
    line = text[text.rfind("\n", 0, _first(container).start) + 1 : _first(container).start]
    return line if line.isspace() else ""


def _first(container: Node) -> Child:
    return (container.children or [])[0]


def _indent_of(text: str) -> str:
    root = parse(text)
    return (_margin_of(text, root) if root.children else "") or DEFAULT_INDENT


# Removing


def _take(text: str, entry: Entry) -> str | None:
    """Without our first entry, and the containers created for it."""
    root = parse(text)
    containers = [root]
    for step in entry.path:
        containers += [child.node for child in containers[-1].children or [] if child.key == step]
    child = next(_ours(root, entry))
    for container, outer in zip(reversed(containers), [*reversed(containers[:-1]), None], strict=True):
        if not _is_made_for(text, container, child):
            return _without(text, container, child)
        if outer is not None:
            child = next(one for one in outer.children or [] if one.node is container)
    return None


def _is_made_for(text: str, container: Node, child: Child) -> bool:
    """Whether the container did not exist before, and has nothing else in it."""
    before, behind = text[container.start + 1 : child.start], text[child.end : container.end - 1]
    return len(container.children or []) == 1 and before != "" and _is_space(before) and _is_space(behind)


def _without(text: str, container: Node, child: Child) -> str:
    children = container.children or []
    comma = after_blank(text, child.end)
    end = comma + 1 if text[comma : comma + 1] == "," else child.end
    if len(children) == 1:
        return text[: child.start] + text[end:]
    at = children.index(child)
    comma_before = after_blank(text, children[at - 1].end) if at else container.start
    start = comma_before + 1
    if not _is_space(text[start : child.start]):
        start = child.start  # a comment precedes it, and may need its line break
    if end == child.end:  # the last one: the comma before it goes too
        return text[:comma_before] + text[comma_before + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _is_space(text: str) -> bool:
    return text.strip(" \t\r\n") == ""
