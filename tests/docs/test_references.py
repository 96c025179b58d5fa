"""The pages generated from the code are current, complete and reproducible."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import octostore
from docs.references import events, python
from docs.references.docstrings import as_markdown, first_sentence
from docs.references.generated import files
from docs.references.markdown import FOLDER, REFRESH
from octostore.core.events import DETAILS
from octostore.mcp.tools import OPERATOR_TOOLS, TOOLS
from octostore.wire.errors import ERRORS
from tests.support.processes import ROOT

DOCSTRING = """Do it, as `a.b` says: now. Or later.

    A paragraph.

    Args:
        first: what comes
            first
        second (int): what follows

    Returns:
        Nothing.

    Example:
        >>> do(1)

        >>> do(2)
"""


def test_each_page_is_current(subtests: pytest.Subtests) -> None:
    """Not parametrized, because then every process of the tests would generate all pages."""
    for path, text in files().items():
        with subtests.test(str(path.relative_to(ROOT))):
            assert path.read_text(encoding="utf-8") == text, f"it is stale; run: {REFRESH}"


def test_nothing_else_is_in_the_folder() -> None:
    assert {path for path in FOLDER.iterdir() if path not in files()} == set()


def test_pages_are_the_same_everywhere(tmp_path: Path) -> None:
    code = "import sys; from docs.references.generated import files; sys.stdout.buffer.write(repr(files()).encode())"
    env = {**os.environ, "COLUMNS": "40", "HOME": str(tmp_path), "LC_ALL": "C", "PYTHONHASHSEED": "1"}
    generated = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, check=True)
    assert generated.stdout.decode() == repr(files())


def test_every_public_name_is_documented() -> None:
    shown = " ".join(python.SECTIONS.values()).split()
    assert sorted(shown) == sorted(octostore.__all__), "docs/references/python.py says where each name belongs"


def test_every_event_error_and_tool_is_documented() -> None:
    assert set(events.MEANINGS) == set(DETAILS)
    texts = {path.stem: text for path, text in files().items() if path.parent == FOLDER}
    assert [code for code in ERRORS if f"| `{code}` |" not in texts["errors"]] == []
    assert [tool.name for tool in TOOLS + OPERATOR_TOOLS if f"\n### {tool.name}\n" not in texts["mcp"]] == []


def test_docstrings_become_markdown() -> None:
    assert list(as_markdown(DOCSTRING)) == [
        "Do it, as `a.b` says: now. Or later.",
        "",
        "A paragraph.",
        "",
        "**Args**",
        "",
        "- `first`: what comes first",
        "- `second`: what follows",
        "",
        "**Returns**",
        "",
        "Nothing.",
        "",
        "**Example**",
        "",
        "```py",
        ">>> do(1)",
        "",
        ">>> do(2)",
        "```",
    ]
    assert first_sentence(DOCSTRING) == "Do it, as `a.b` says: now."
