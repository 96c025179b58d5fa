"""Docstrings as Markdown: paragraphs and lists as they are; sections (`Args:`) as lists, examples as code.

Code is fenced as `py`: blocks of `python` are run by tests/docs/test_examples.py, and these are run as doctests.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from itertools import groupby

SECTION = re.compile(r"(Args|Attributes|Example|Examples|Raises|Returns|Yields):")
ENTRY = re.compile(r"(\*{0,2}[\w.]+(?:, [\w.]+)*)(?: \([^)]*\))?: ")
SENTENCE = re.compile(r"(?:`[^`]*`|[^`])*?\.(?=\s|$)")


def as_markdown(doc: str | None) -> Iterator[str]:
    paragraphs = [paragraph for paragraph in inspect.cleandoc(doc or "").split("\n\n") if paragraph]
    blocks = [block for paragraph in paragraphs for block in _blocks(paragraph)]
    for number, block in enumerate(_merged(blocks)):
        yield from ([""] if number else [])
        yield from block.splitlines()


def first_sentence(doc: str | None) -> str:
    text = " ".join(inspect.cleandoc(doc or "").split("\n\n")[0].split())
    found = SENTENCE.match(text)
    return found[0] if found else text


def _blocks(paragraph: str) -> Iterator[str]:
    first, _, rest = paragraph.partition("\n")
    heading = SECTION.fullmatch(first.strip())
    if heading:
        yield f"**{heading[1]}**"
        yield from _entries(textwrap.dedent(rest)) if heading[1] not in {"Example", "Examples"} else [_code(rest)]
    elif paragraph.lstrip().startswith(">>> ") or all(line.startswith("    ") for line in paragraph.splitlines()):
        yield _code(paragraph)
    else:
        yield paragraph


def _entries(text: str) -> Iterator[str]:
    if not ENTRY.match(text):
        yield text
        return
    entries: list[str] = []
    for is_start, lines in groupby(text.splitlines(), key=lambda line: not line.startswith(" ")):
        if is_start:
            entries += lines
        else:
            entries[-1] += " " + " ".join(line.strip() for line in lines)
    yield "\n".join(ENTRY.sub(lambda name: f"- `{name[1]}`: ", entry, count=1) for entry in entries)


def _code(text: str) -> str:
    return f"```py\n{textwrap.dedent(text)}\n```"


def _merged(blocks: list[str]) -> Iterator[str]:
    """Code that blank lines divide is one block."""
    for is_code, group in groupby(blocks, key=lambda block: block.startswith("```")):
        if is_code:
            inside = "\n\n".join(block.removeprefix("```py\n").removesuffix("\n```") for block in group)
            yield f"```py\n{inside}\n```"
        else:
            yield from group
