"""The command that installs a missing extra, wherever OctoStore was installed from."""

import re

import pytest

from octostore.extras import how_to_add, requirement
from tests.support.processes import ROOT

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TEXTS = ("*.md", "src/**/*.py", "src/**/*.md", "docs/**/*.md", "examples/**/*", "plugins/**/*", ".github/**/*.yml")
BY_NAME = re.compile(
    r"(pip3?|uv|pipx|uvx)\s[^\n`]*(install|add|run)\s[^\n`/@]*\boctostore\b(\[[\w,]+\])?['\"]?\s*($|`|\n|#|&)"
)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ('{"url": "file:///home/me/octo%20store", "dir_info": {}}', "'/home/me/octo store[server]'"),
        ('{"url": "file:///src", "dir_info": {"editable": true}}', "-e '/src[server]'"),
        ('{"url": "file:///tmp/o-1-py3-none-any.whl", "archive_info": {}}', "'/tmp/o-1-py3-none-any.whl[server]'"),
        (
            '{"url": "https://example.org/o.whl", "archive_info": {"hash": "sha256=0"}}',
            "'octostore[server] @ https://example.org/o.whl'",
        ),
        (
            f'{{"url": "https://example.org/o", "vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}',
            f"'octostore[server] @ git+https://example.org/o@{COMMIT}'",
        ),
        (
            (
                f'{{"url": "ssh://git@example.org/o", "vcs_info": '
                f'{{"vcs": "git", "requested_revision": "v1", "commit_id": "{COMMIT}"}}}}'
            ),
            "'octostore[server] @ git+ssh://git@example.org/o@v1'",
        ),
    ],
    ids=["folder", "editable", "wheel", "address", "commit", "tag"],
)
def test_it_comes_from_the_same_source(recorded: str, expected: str) -> None:
    assert requirement(recorded, "server") == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://me:s3cret@example.org/o",
        "https://s3cret@example.org/o",
        "ssh://git:s3cret@example.org/o",
        "https://me:p@s3cret@example.org/o",
        "https://example.org/o?signature=s3cret",
        "https://${NAME}:s3cret@example.org/o",
    ],
)
@pytest.mark.parametrize("kind", ['"vcs_info": {"vcs": "git", "commit_id": "v1"}', '"archive_info": {}'])
def test_a_recorded_secret_is_not_shown(url: str, kind: str) -> None:
    shown = requirement(f'{{"url": "{url}", {kind}}}', "server")
    assert "s3cret" not in shown
    assert "://example.org/o" in shown


def test_a_development_install_names_this_source_tree() -> None:
    assert how_to_add("server").endswith(f"-e '{ROOT}[server]'") or how_to_add("server").endswith(f"{ROOT}[server]")


def test_no_text_installs_by_a_name_that_we_do_not_own() -> None:
    """Until the name is ours on the public index, anyone could publish under it."""
    files = {path for pattern in TEXTS for path in ROOT.glob(pattern) if path.is_file()}
    found: dict[str, str] = {}
    for path in files:
        text = path.read_text(encoding="utf-8", errors="ignore")
        found |= {str(path.relative_to(ROOT)): match.group() for match in BY_NAME.finditer(text)}
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install octostore",
        "`pip install 'octostore[server]'`",
        "uv tool install octostore # so",
        "uv add octostore",
    ],
)
def test_a_name_that_we_do_not_own_is_found(text: str) -> None:
    assert BY_NAME.search(text)


@pytest.mark.parametrize("text", ["pip install ./octostore", 'pip install "octostore @ git+https://example.org/o"'])
def test_a_path_or_an_address_is_fine(text: str) -> None:
    assert not BY_NAME.search(text)
