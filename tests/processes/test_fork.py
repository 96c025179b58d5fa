"""A store that was opened before `fork()` works in both processes, and neither harms the other."""

from pathlib import Path
from typing import Any

import pytest

from octostore.core.events import Claimed, decode_details
from tests.support.processes import Worker
from tests.support.soundness import assert_sound


def play(scene: str, path: Path) -> list[dict[str, Any]]:
    """The output of the processes. Every acknowledged claim is in the log, and the store is sound."""
    with Worker("forker", path, scene) as worker:
        said = worker.rest()
        assert worker.exit_code() == 0
    acknowledged = {(line["claimed"], line["token"]) for line in said if "claimed" in line}
    assert all(line["status"] == "claimed" for line in said if "status" in line)
    assert all(line["child"] == "fine" for line in said if "child" in line), said
    log = assert_sound(path)
    assert acknowledged <= {(entry.job_id, entry.seq) for entry in log if entry.type == "claimed"}
    return said


@pytest.mark.parametrize(
    ("scene", "claims", "children"),
    [
        ("both_go_on", 5, 1),
        ("parent_closes_first", 3, 1),
        ("while_threads_write", 9, 8),
        ("threads_fork_at_once", 3, 1),
        ("child_does_not_use_it", 2, 1),
        ("child_ends_as_programs_do", 3, 1),
        ("child_closes_it", 4, 2),
        ("grandchild", 5, 2),
        ("pool_of_processes", 6, 4),
    ],
)
def test_both_sides_of_a_fork_keep_working(path: Path, scene: str, claims: int, children: int) -> None:
    said = play(scene, path)
    assert sum("claimed" in line for line in said) == claims
    assert sum("child" in line for line in said) == children


def test_claims_on_both_sides_name_their_process(path: Path) -> None:
    play("both_go_on", path)
    claimed = [decode_details(entry) for entry in assert_sound(path) if entry.type == "claimed"]
    assert len({details.pid for details in claimed if isinstance(details, Claimed)} - {None}) == 2


def test_a_fork_is_not_held_up_by_many_threads_that_use_the_store(path: Path) -> None:
    done_meanwhile = [line["meanwhile"] for line in play("fork_gets_its_turn", path)]
    assert len(done_meanwhile) == 5
    assert max(done_meanwhile) < 500


@pytest.mark.parametrize("scene", ["child_leaves_a_hold", "child_leaves_a_hold_by_raising"])
def test_a_child_that_leaves_a_hold_leaves_the_claim_to_its_parent(path: Path, scene: str) -> None:
    said = play(scene, path)
    assert {"still_ours": True} in said
    assert {"events": ["claimed", "released"]} in said


def test_a_child_that_leaves_a_session_leaves_it_to_its_parent(path: Path) -> None:
    said = play("child_leaves_a_session", path)
    assert {"still_ours": True} in said
    assert {"still_bound": True} in said


def test_a_child_does_not_use_another_store_at_the_same_path(tmp_path: Path) -> None:
    said = play("another_store_at_its_path", tmp_path / "octostore.db")
    assert [line["reason"] for line in said if "reason" in line] == ["moved"]
