"""docs/llms.txt, the documentation as a list for language models (llmstxt.org), from the navigation of the site."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.references.docstrings import first_sentence

DOCS = Path(__file__).parents[1]
PATH = DOCS / "llms.txt"
CONFIG = DOCS.parent / "zensical.toml"
NOTES = """\
Agents: claim a job before you touch anything, with `octostore claim JOB --keep` or the MCP tool `claim_job`. Work on
it only if the status is `claimed`, and release it when you stop. `octostore setup` sets up an agent's client.
"""
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def reference(generated: dict[Path, str]) -> str:
    """`generated` has pages that may not be written yet."""
    project = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}", "", *NOTES.splitlines()]
    for section in project["nav"]:
        for title, items in section.items():
            found = [_line(name, DOCS / path, generated) for name, path in pages_in(items) if (DOCS / path).exists()]
            if found:
                lines += ["", f"## {title}", "", *found]
    return "\n".join(lines) + "\n"


def pages_in(items: Any, title: str = "Overview") -> Iterator[tuple[str, str]]:
    """The title and path of each page of a navigation, without those that a pattern names."""
    if isinstance(items, str):
        if "*" not in items:
            yield title, items
        return
    for item in items:
        for name, inner in item.items() if isinstance(item, dict) else [(title, item)]:
            yield from pages_in(inner, name)


def _line(title: str, path: Path, generated: dict[Path, str]) -> str:
    text = generated.get(path) or path.read_text(encoding="utf-8")
    about = _about(text)
    return f"- [{title}]({path.relative_to(DOCS)})" + (f": {about}" if about else "")


def _about(text: str) -> str:
    """The first sentence of the first paragraph of prose."""
    plain = re.sub(r"<!--.*?-->|^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    paragraphs = (part.strip() for part in plain.split("\n\n"))
    prose = next((part for part in paragraphs if part and part[0] not in "#|<!"), "")
    return first_sentence(LINK.sub(r"\1", prose).replace("**", ""))
