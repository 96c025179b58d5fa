"""The example of two agents: it prints what its page shows, and the log and the book agree with that."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import octostore
from octostore.core.events import Event
from tests.support.documents import blocks_of, check_printed
from tests.support.postgres import new_schema
from tests.support.processes import PATIENCE_SECONDS, ROOT

EXAMPLE = ROOT / "examples" / "two_agents"
TTL_SECONDS = 15
"""Long enough for Python to start on a busy machine: a session that was handed over must be opened within its TTL."""


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.slow), "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_schema() if request.param == "postgres" else f"sqlite:///{tmp_path}/two-agents.db"


def written(printed: str) -> list[tuple[str, int, str, int]]:
    """Task, chapter, agent and fencing token of each line of the book."""
    _, _, rest = printed.partition("under which fencing token:\n")
    book, _, _ = rest.partition("What the event log says:")
    lines = [line.split() for line in book.splitlines()]
    return [(task, int(chapter), agent, int(token)) for task, chapter, agent, token in lines]


def claims_in(log: list[Event]) -> dict[int, tuple[str | None, str | None, int]]:
    """Fencing token -> task, agent, and the event that ended the claim."""
    ended = {event.data["fencing_token"]: event.seq for event in log if "fencing_token" in event.data}
    return {event.seq: (event.job_id, event.agent, ended[event.seq]) for event in log if event.type == "claimed"}


def test_one_is_killed_and_the_other_goes_on(url: str) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE / "run.py"), url, "--ttl", str(TTL_SECONDS)],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    (shown,) = blocks_of(EXAMPLE / "README.md", "console")
    check_printed(shown.text.partition("\n")[2], ran.stdout)

    lines = written(ran.stdout)
    with octostore.connect(url) as store:
        log = list(store.events())
        assert store.verify().problems == []
    assert max(Counter((task, chapter) for task, chapter, _, _ in lines).values()) == 1, "no chapter was done twice"
    assert [(task, chapter) for task, chapter, _, _ in lines] == [
        *(("translate", chapter) for chapter in range(1, 7)),
        *(("proofread", chapter) for chapter in range(1, 4)),
    ]
    # The owner of the claim wrote each line, and no claim began before the last one had ended.
    claims = claims_in(log)
    assert [(task, agent) for task, agent, _ in claims.values()] == [
        ("translate", "home"),
        ("translate", "work"),
        ("proofread", "work"),
        ("proofread", "home"),
    ]
    assert all(claims[token][:2] == (task, agent) for task, _, agent, token in lines)
    begun, ended = list(claims), [end for _, _, end in claims.values()]
    assert all(end < begin for end, begin in zip(ended, begun[1:], strict=False))
