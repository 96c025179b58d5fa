"""The commands on the remaining pages work, and every page with commands has a test that runs them."""

from pathlib import Path

import pytest

from tests.support.documents import Machine, blocks_of, follow
from tests.support.processes import ROOT
from tests.support.server import ServerProcess

DOCS = ROOT / "docs"
PAGES = [
    path
    for path in [*DOCS.glob("coming-from/*.md"), *DOCS.glob("*.md")]
    if blocks_of(path, "sh") and path.name != "quickstart.md"
]
SESSIONS = DOCS / "how-to" / "sessions.md"
ELSEWHERE = {
    "how-to/agents.md": "test_agents_page.py",
    "how-to/at-three-in-the-morning.md": "test_night.py",
    "how-to/backup.md": "test_how_tos.py",
    "how-to/cron.md": "test_how_tos.py",
    "how-to/migrations.md": "test_how_tos.py",
    "how-to/monitoring.md": "test_monitoring.py",
    "how-to/page.md": "test_page_how_to.py",
    "how-to/postgres.md": "test_postgres_page.py",
    "how-to/server.md": "../server/test_curl_lines.py",
    "how-to/tls-and-proxies.md": "test_tls_page.py",
    "how-to/traces.md": "test_how_tos.py",
    "how-to/upgrading.md": "test_upgrading_page.py",
    "quickstart.md": "test_tutorial.py",
    "decisions/0018-restoring-a-backup.md": "../postgres/test_restore.py",
}
"""Which test follows a page that needs more than one machine and its shell."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_on_the_page_work(page: Path, tmp_path: Path) -> None:
    with Machine(tmp_path / "machine") as machine:
        follow([block for block in blocks_of(page) if block.kind in {"sh", "text"}], machine)


def test_operators_close_a_session_or_hand_it_over(tmp_path: Path) -> None:
    (block,) = blocks_of(SESSIONS, "sh")
    with Machine(tmp_path / "machine") as machine, ServerProcess(tmp_path / "server") as server:
        machine.env |= {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.token}
        ci = server.new_token("ci")
        for line in block.text.splitlines():
            opened = server.post("/sessions", {"session_id": "agent-3-main", "agent": "agent-3"}, token=ci)
            assert opened.status < 300, opened
            machine.do(line)
        seen = server.get("/sessions/agent-3-main", token=ci).json
        assert (seen["agent"], seen["offered"]) == ("agent-4", True), seen


def test_every_page_with_commands_is_followed_by_a_test() -> None:
    generated = DOCS / "reference"  # from examples that are tested where they are written
    written = [path for path in DOCS.glob("**/*.md") if path.parent != generated]
    typed = {str(path.relative_to(DOCS)) for path in written if blocks_of(path, "sh")}
    assert typed == {*ELSEWHERE, *(str(path.relative_to(DOCS)) for path in [*PAGES, SESSIONS])}
    for page, test in ELSEWHERE.items():
        text = (ROOT / "tests" / "docs" / test).read_text(encoding="utf-8")
        finds_pages_itself = test.startswith("..")
        assert finds_pages_itself or Path(page).name in text or f'"{Path(page).stem}"' in text, f"{test}: {page}"
