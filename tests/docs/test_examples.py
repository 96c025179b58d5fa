"""Every Python example in the documents runs, top to bottom, on an empty store."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import ServerProcess

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")] if "```python" in path.read_text(encoding="utf-8")
)
SERVER_URL = "http://127.0.0.1:3000"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOSTORE_HOME", str(tmp_path))
    monkeypatch.delenv("OCTOSTORE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    if SERVER_URL in "".join(_BLOCK.findall(text)):
        with ServerProcess(tmp_path) as server:
            run(path, text.replace(SERVER_URL, server.url))
    else:
        run(path, text)


def run(path: Path, text: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        # With the line numbers of the document, so that a failure points there.
        exec(compile("\n" * line + block.group(1), str(path), "exec"), names)
    if "store" in names:
        names["store"].close()


def test_the_first_example_is_ten_lines() -> None:
    first = _BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert first is not None
    code = [line for line in first.group(1).splitlines() if line.strip()]
    assert len(code) <= 10
