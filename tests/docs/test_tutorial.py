"""The tutorial is followed from top to bottom: its commands print what it shows."""

from pathlib import Path

from tests.support.documents import Block, Machine, blocks_of, follow, replaced
from tests.support.processes import ROOT
from tests.support.server import ServerProcess

TUTORIAL = ROOT / "docs" / "quickstart.md"
FASTER = {'sleep "$2"': 'sleep "$([ "$1$page" = alice3 ] && touch third && echo 60 || echo 0.1)"', "--ttl 5": "--ttl 2"}
"""Pages are quick, but the first owner is still on its third one when it is killed."""
READ_ON = "until [ -e third ]; do sleep 0.05; done\n"
"""Waits, as a reader does, until the first owner is on its third page."""


def steps() -> list[Block]:
    blocks = [block for block in blocks_of(TUTORIAL) if block.kind in {"sh", "text"}]
    text = replaced("\0".join(block.text for block in blocks), FASTER)
    return [Block(block.kind, typed) for block, typed in zip(blocks, text.split("\0"), strict=True)]


def test_a_reader_claims_kills_takes_over_queues_and_serves(tmp_path: Path) -> None:
    def read_on(block: Block) -> Block:
        return Block("sh", block.text + READ_ON) if block.text.endswith("&\n") else block

    with Machine(tmp_path / "machine") as machine, ServerProcess(machine.folder / ".local/share/octostore") as server:
        machine.env["SERVER"] = server.url
        follow([read_on(block) for block in steps()], machine)
        pages = (machine.folder / "pages.txt").read_text().splitlines()
        owners = ["alice", "alice", "bob", "bob", "bob"]
        assert pages == [f"page {number}, by {owner}" for number, owner in enumerate(owners, 1)]
        assert [event["type"] for event in server.events("import")] == ["claimed", "expired", "claimed", "done"]
        assert server.get("/jobs/ghost").json["result"] == "found it"
        assert server.get("/jobs/cow").json["result"] == {"file": "cow.jpg"}
        server.check_has_not_failed()


def test_it_says_what_surprises_users_of_other_tools() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    assert "**It does not wait by default.**" in text
    assert "**The lowest priority number runs first**" in text
    assert "**A dead owner's job is free only once its lease has expired.**" in text
