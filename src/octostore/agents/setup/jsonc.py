"""JSON as people write it, with comments and trailing commas, and the position of each value in the text.

Edits replace single spans of the text, so everything else keeps its bytes.
"""

import json
import re
from functools import lru_cache
from typing import Any, NoReturn

import msgspec

MAX_DEPTH = 100
_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\.)*+"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")


class Unreadable(Exception):
    """The text is not JSON; the message says where."""


class Node(msgspec.Struct):
    """A value and its position: `text[start:end]`."""

    start: int
    end: int = 0
    scalar: Any = None
    children: "list[Child] | None" = None
    """None for a scalar."""
    is_object: bool = False

    def child(self, key: str) -> "Node | None":
        return next((child.node for child in self.children or [] if child.key == key), None)

    @property
    def value(self) -> Any:
        if self.children is None:
            return self.scalar
        if self.is_object:
            return {child.key: child.node.value for child in self.children}
        return [child.node.value for child in self.children]


class Child(msgspec.Struct):
    start: int
    """Where the value starts or, in an object, its key."""
    node: Node
    key: str | None = None

    @property
    def end(self) -> int:
        return self.node.end


@lru_cache(maxsize=4)
def parse(text: str) -> Node:
    """Cached, because most edits parse the same text more than once. Nodes are never modified."""
    return _Parser(text).document()


def after_blank(text: str, place: int) -> int:
    """Where the next token begins, after white space and comments."""
    found = _BLANK.match(text, place)
    return found.end() if found else place


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def document(self) -> Node:
        self._skip()
        node = self._value(0)
        self._skip()
        if self._place != len(self._text):
            self._fail("unexpected text after the end of the document")
        return node

    def _value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._fail(f"values are nested more than {MAX_DEPTH} levels deep")
        start, opening = self._place, self._next()
        if opening in {"{", "["}:
            return self._container(depth, is_object=opening == "{")
        if opening == '"':
            text = self._string()
            return Node(start, self._place, scalar=text)
        found = _SCALAR.match(self._text, start)
        if found is None:
            self._fail("expected a value")
        try:
            scalar = json.loads(found.group())
        except ValueError:  # Python converts only a few thousand digits
            self._fail("a number is too long")
        self._place = found.end()
        return Node(start, self._place, scalar=scalar)

    def _container(self, depth: int, *, is_object: bool) -> Node:
        node = Node(self._place, children=[], is_object=is_object)
        closing = "}" if is_object else "]"
        keys: set[str] = set()
        self._place += 1
        self._skip()
        while self._next() != closing:
            self._add_child(node, keys, depth)
            self._skip()
            if self._next() == ",":
                self._place += 1
                self._skip()
            elif self._next() != closing:
                self._fail(f"expected , or {closing}")
        self._place += 1
        node.end = self._place
        return node

    def _add_child(self, node: Node, keys: set[str], depth: int) -> None:
        start, key = self._place, None
        if node.is_object:
            key = self._string()
            if key in keys:
                self._fail(f"the key {key!r} occurs twice")
            keys.add(key)
            self._skip()
            if self._next() != ":":
                self._fail("expected :")
            self._place += 1
            self._skip()
        assert node.children is not None  # noqa: S101  # for the type checker: a container
        node.children.append(Child(start, self._value(depth + 1), key))

    def _string(self) -> str:
        found = _STRING.match(self._text, self._place)
        if found is None:
            self._fail("expected a string in double quotes")
        try:
            text: str = json.loads(found.group())
        except ValueError:
            self._fail("a string has an unknown escape")
        self._place = found.end()
        return text

    def _next(self) -> str:
        return self._text[self._place : self._place + 1]

    def _skip(self) -> None:
        self._place = after_blank(self._text, self._place)

    def _fail(self, problem: str) -> NoReturn:
        line = self._text.count("\n", 0, self._place) + 1
        column = self._place - self._text.rfind("\n", 0, self._place)
        raise Unreadable(f"line {line}, column {column}: {problem}")
