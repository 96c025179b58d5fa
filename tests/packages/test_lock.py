"""`uv.lock` is in step with `pyproject.toml`, and anyone can use it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.processes import ROOT

PUBLIC = {"pypi.org", "files.pythonhosted.org"}


def is_current(folder: Path) -> bool:
    command = [sys.executable, "-m", "uv", "lock", "--check", "--offline", "--no-cache"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment).returncode == 0


def test_it_locks_what_is_declared() -> None:
    assert is_current(ROOT), "run `make lock` after a change to the dependencies in pyproject.toml"


def test_a_change_of_the_dependencies_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "release").mkdir()
    for name in ("pyproject.toml", "uv.lock", "README.md", "release/address.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    project = tmp_path / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    assert is_current(tmp_path)
    for change in (("apsw>=", "apsw>=99,>="), ("async = [", 'async = [ "idna>=99",')):
        project.write_text(text.replace(*change, 1), encoding="utf-8")
        assert not is_current(tmp_path), change


def test_it_names_the_public_index_only() -> None:
    lock = (ROOT / "uv.lock").read_text(encoding="utf-8")
    assert {urlsplit(url).hostname for url in re.findall(r'"(https?://[^"]+)"', lock)} == PUBLIC
