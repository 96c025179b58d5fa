"""Every statement that is run while somebody waits finds its rows by an index, whatever the number of jobs."""

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from octostore.stores.sqlite.connection import connect, prepare
from octostore.stores.sqlite.transaction import SQL

FRAGMENTS = {"job_columns", "session_columns", "request_columns", "token_columns", "event_columns"}
WRITES = {name for name in SQL if name.startswith(("save_", "renew_", "append_", "drop_", "remember_", "forget_"))}

PLANS = {
    "counters": "SCAN counters",  # it has one row
    "job": "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (job_id=?)",
    "checkpoint": "SEARCH checkpoints USING INDEX sqlite_autoindex_checkpoints_1 (job_id=?)",
    "document": "SEARCH documents USING INTEGER PRIMARY KEY (rowid=?)",
    "session": "SEARCH sessions USING INDEX sqlite_autoindex_sessions_1 (session_id=?)",
    "claims_of_session": "SEARCH jobs USING INDEX jobs_by_session (session_id=?)",
    "queue": "SEARCH queues USING INDEX sqlite_autoindex_queues_1 (name=?)",
    "claimed_in_queue": "SEARCH jobs USING COVERING INDEX jobs_by_queue (queue=? AND status=?)",
    "claims_of_principal": "SEARCH jobs USING COVERING INDEX jobs_by_principal (principal=? AND is_lock=?)",
    "expired_claims": "SEARCH jobs USING INDEX jobs_by_expiry (expires_at<?)",
    "expired_sessions": "SEARCH sessions USING INDEX sessions_by_expiry (expires_at<?)",
    "job_of_request": "SEARCH jobs USING INDEX jobs_by_request (principal=? AND request_id=? AND queue=?)",
    "ended_requests": "SEARCH ended_requests USING INDEX ended_requests_by_id (request_id=? AND principal=?)",
    "next_priority": "SEARCH jobs USING COVERING INDEX jobs_in_line (queue=? AND priority>?)",
    "next_priority_of_kind": "SEARCH jobs USING COVERING INDEX jobs_in_line_by_kind "
    "(queue=? AND kind=? AND priority>?)",
    "line": "SEARCH jobs USING INDEX jobs_in_line (queue=? AND priority=? AND available_at<?)",
    "line_of_kind": "SEARCH jobs USING INDEX jobs_in_line_by_kind "
    "(queue=? AND kind=? AND priority=? AND available_at<?)",
    "next_due": "SEARCH jobs USING COVERING INDEX jobs_in_line (queue=? AND priority=? AND available_at>?)",
    "next_claim_expiry": "SEARCH jobs USING COVERING INDEX jobs_by_expiry (expires_at>?)",
    "next_session_expiry": "SEARCH sessions USING COVERING INDEX sessions_by_expiry (expires_at>?)",
    "list_jobs": "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (job_id>? AND job_id<?)",
    "list_jobs_by_status": "SEARCH jobs USING INDEX jobs_by_status (status=? AND job_id>? AND job_id<?)",
    "list_jobs_by_queue": "SEARCH jobs USING INDEX jobs_by_queue (queue=? AND status=? AND job_id>? AND job_id<?)",
    "list_sessions": "SEARCH sessions USING INDEX sqlite_autoindex_sessions_1 (session_id>?)",
    "list_ended_sessions": "SEARCH sessions USING INDEX sessions_ended (status=? AND session_id>?)",
    "list_ended_sessions_by_principal": "SEARCH sessions USING INDEX sessions_ended_by_principal "
    "(principal=? AND status=? AND session_id>?)",
    "list_events": "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)",
    "list_events_by_job": "SEARCH events USING INDEX events_by_job (job_id=? AND seq>?)",
    "list_events_by_session": "SEARCH events USING INDEX events_by_session (session_id=? AND seq>?)",
    "taken_back": "SEARCH events USING INDEX events_of_losses (at>?)",
    "token": "SEARCH tokens USING INDEX sqlite_autoindex_tokens_1 (token_id=?)",
    "token_by_digest": "SEARCH tokens USING INDEX sqlite_autoindex_tokens_2 (digest=?)",
    "store_key": "SCAN store_key",  # it has one row
    "claimed_jobs": "SEARCH jobs USING COVERING INDEX jobs_by_status (status=?)",
    "dead_jobs": "SEARCH jobs USING COVERING INDEX jobs_by_status (status=?)",
    "open_sessions": "SEARCH sessions USING COVERING INDEX sessions_by_expiry (expires_at>?)",
}

EXPIRED_SESSIONS = ("LIST SUBQUERY 1", "SEARCH sessions USING COVERING INDEX sessions_by_expiry (expires_at<?)")

LONGER_PLANS = {
    # What one may see of a queue is found by name, and only that is sorted.
    "line_by_name": (
        "SEARCH jobs USING INDEX jobs_by_queue (queue=? AND status=? AND job_id>? AND job_id<?)",
        "USE TEMP B-TREE FOR ORDER BY",
    ),
    # There are few tokens, and nobody waits for the list of them.
    "list_tokens": ("SCAN tokens", "USE TEMP B-TREE FOR ORDER BY"),
    # Figures count, but only what waits or is claimed, and without looking at the rows; the queues are sorted.
    "queued_jobs": ("SCAN jobs USING COVERING INDEX jobs_in_line", "USE TEMP B-TREE FOR ORDER BY"),
    "waiting_jobs": ("SCAN jobs USING COVERING INDEX jobs_in_line",),
    "late_claims": (
        "SCAN CONSTANT ROW",
        "SCALAR SUBQUERY 1",
        "SEARCH jobs USING INDEX jobs_by_expiry (expires_at>?)",
        "SCALAR SUBQUERY 2",
        "SEARCH s USING INDEX sessions_by_expiry (expires_at>?)",
        "SEARCH j USING INDEX jobs_by_session (session_id=?)",
    ),
    "run_out": (
        "CO-ROUTINE (subquery-2)",
        "COMPOUND QUERY",
        "LEFT-MOST SUBQUERY",
        "SEARCH jobs USING INDEX jobs_by_expiry (expires_at<?)",
        "UNION ALL",
        "SEARCH s USING COVERING INDEX sessions_by_expiry (expires_at<?)",
        "SEARCH j USING INDEX jobs_by_session (session_id=?)",
        "SCAN (subquery-2)",
    ),
    # What has run out and is not written down yet is little, so it may be sorted.
    "list_expired_claims": (
        "SEARCH jobs USING INDEX jobs_by_expiry (expires_at<?)",
        "USE TEMP B-TREE FOR ORDER BY",
    ),
    "list_expired_with_session": (
        "SEARCH jobs USING INDEX jobs_by_session (session_id=?)",
        *EXPIRED_SESSIONS,
        "USE TEMP B-TREE FOR ORDER BY",
    ),
    # Sessions that are alive are few beside those that have ended.
    "list_open_sessions": (
        "SEARCH sessions USING INDEX sessions_by_expiry (expires_at>?)",
        "USE TEMP B-TREE FOR ORDER BY",
    ),
    "list_expired_sessions": (
        "SEARCH sessions USING INDEX sessions_by_expiry (expires_at<?)",
        "USE TEMP B-TREE FOR ORDER BY",
    ),
    "expired_in_queue": (
        "SEARCH jobs USING INDEX jobs_by_queue (queue=? AND status=?)",
        *EXPIRED_SESSIONS,
        "CREATE BLOOM FILTER",
    ),
    "expired_of_principal": (
        "SEARCH jobs USING INDEX jobs_by_principal (principal=? AND is_lock=?)",
        *EXPIRED_SESSIONS,
        "CREATE BLOOM FILTER",
        "USE TEMP B-TREE FOR ORDER BY",
    ),
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path: Path = tmp_path_factory.mktemp("plans") / "store.db"
    prepare(path)
    connection = connect(path)
    yield connection
    connection.close()


def test_every_query_has_a_plan_here() -> None:
    assert set(SQL) - FRAGMENTS - WRITES == PLANS.keys() | LONGER_PLANS.keys()


@pytest.mark.parametrize("name", PLANS)
def test_one_search_and_nothing_else(connection: apsw.Connection, name: str) -> None:
    # Another step would be a sort of all the rows found, or a scan beside the search.
    assert plan(connection, name) == [PLANS[name]]


@pytest.mark.parametrize("name", LONGER_PLANS)
def test_longer_plans(connection: apsw.Connection, name: str) -> None:
    assert plan(connection, name) == list(LONGER_PLANS[name])


@pytest.mark.parametrize("name", sorted(WRITES - {"save_counters"}))
def test_writing_scans_nothing(connection: apsw.Connection, name: str) -> None:
    assert not [step for step in plan(connection, name) if step.startswith("SCAN")]


def plan(connection: apsw.Connection, name: str) -> list[str]:
    numbered = [int(number) for number in re.findall(r"\?(\d+)", SQL[name])]
    values = (None,) * (max(numbered) if numbered else SQL[name].count("?"))
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", values)]
