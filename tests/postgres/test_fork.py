"""A PostgreSQL store that was opened before `fork()` works in both processes, and neither harms the other."""

import os
import signal
from typing import Any

import psycopg
import pytest

from tests.support.postgres_soundness import assert_sound
from tests.support.processes import Worker, until
from tests.support.running import is_alive


def play(scene: str, url: str) -> list[dict[str, Any]]:
    """The output of the processes. Every acknowledged claim is in the log."""
    with Worker("forker", url, scene) as worker:
        said = worker.rest()
        assert worker.exit_code() == 0
    acknowledged = {(line["claimed"], line["token"]) for line in said if "claimed" in line}
    assert all(line["status"] == "claimed" for line in said if "status" in line)
    assert all(line["child"] == "fine" for line in said if "child" in line), said
    log = assert_sound(url)
    assert acknowledged <= {(entry.job_id, entry.seq) for entry in log if entry.type == "claimed"}
    return said


@pytest.mark.parametrize(
    ("scene", "claims", "children"),
    [
        ("both_go_on", 5, 1),
        ("parent_closes_first", 3, 1),
        ("while_threads_write", 9, 8),
        ("child_does_not_use_it", 2, 1),
        ("child_ends_as_programs_do", 3, 1),
        ("child_closes_it", 4, 2),
        ("grandchild", 5, 2),
        ("pool_of_processes", 6, 4),
        ("while_a_thread_starts_to_listen", 3, 1),
    ],
)
def test_both_sides_of_a_fork_keep_working(url: str, scene: str, claims: int, children: int) -> None:
    said = play(scene, url)
    assert sum("claimed" in line for line in said) == claims
    assert sum("child" in line for line in said) == children


def test_a_waiting_parent_is_still_woken_after_its_child_ended(url: str) -> None:
    said = play("parent_waits", url)
    assert {"woken": "claimed"} in said
    assert {"connections": "the same"} in said


def test_the_connections_of_a_killed_parent_end_although_its_child_lives(admin: psycopg.Connection, url: str) -> None:
    """Otherwise its locks and its listener would last as long as the child."""
    with Worker("forker", url, "child_outlives_its_parent") as worker:
        said = worker.hear()
        assert backends(admin, said["backends"]) == set(said["backends"])
        assert len(said["backends"]) >= 3, "a writer, a listener and readers"
        worker.signal(signal.SIGKILL)
        assert worker.exit_code() == -signal.SIGKILL
        try:
            assert is_alive(said["child"])
            until(lambda: backends(admin, said["backends"]) == set())
            assert is_alive(said["child"])
        finally:
            os.kill(said["child"], signal.SIGKILL)


def backends(admin: psycopg.Connection, pids: list[int]) -> set[int]:
    rows = admin.execute("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", (pids,))
    return {pid for (pid,) in rows}
