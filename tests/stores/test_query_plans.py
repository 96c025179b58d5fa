"""Every statement that a caller waits for finds its rows by an index, however many jobs there are."""

import re
from collections.abc import Iterator

import apsw
import pytest

from octostore.stores.rows import COLUMNS
from octostore.stores.sqlite.connection import connect, make
from octostore.stores.sqlite.database import SQL, VALUES_AT_ONCE, compiled, takes_values

FRAGMENTS = {f"{table}_{part}" for table in COLUMNS for part in ("columns", "values", "changes")} | {
    *("schema", "now", "later", "unindexed", "jobs_in_line", "jobs_in_line_by_kind", "not_loaded", "in_span"),
    "jobs_by_status",
    *("queue_by_bytes", "request_places", "renewal_sets"),
    *("documents_of_job", "has_expired", "names_in_flight", "priorities", "priorities_of_kind", "in_line"),
    "newest_events",
}
WRITES = {
    name
    for name in SQL
    if name.startswith(("save_", "renew_", "append_", "drop_", "remember_", "forget_", "note_", "count_q"))
}

PLANS = {
    "jobs": "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (job_id=?)",
    "claimed_jobs": "SEARCH jobs USING INDEX jobs_by_status (status=? AND job_id=?)",
    "context_sizes": "SEARCH contexts USING INDEX sqlite_autoindex_contexts_1 (session_id=?)",
    "sessions_alone": "SEARCH sessions USING INDEX sqlite_autoindex_sessions_1 (session_id=?)",
    "checkpoints": "SEARCH checkpoints USING INDEX sqlite_autoindex_checkpoints_1 (job_id=?)",
    "documents": "SEARCH documents USING INTEGER PRIMARY KEY (rowid=?)",
    "claims_of_sessions": "SEARCH jobs USING INDEX jobs_by_session (session_id=?)",
    "news_of_sessions": "SEARCH jobs USING INDEX jobs_with_news (session_id=?)",
    "claimed_in_queues": "SEARCH jobs USING COVERING INDEX jobs_by_queue (queue=? AND status=?)",
    "claims_of_principals": "SEARCH jobs USING COVERING INDEX jobs_by_principal (principal=? AND is_lock=?)",
    "expired_claims": "SEARCH jobs USING INDEX jobs_by_expiry (expires_at<?)",
    "expired_sessions": "SEARCH sessions USING COVERING INDEX sessions_by_expiry (expires_at<?)",
    "jobs_of_requests": "SEARCH jobs USING INDEX jobs_by_request (principal=? AND request_id=? AND queue=?)",
    "ended_requests": "SEARCH ended_requests USING INDEX ended_requests_by_id (request_id=? AND principal=?)",
    "sessions_of_principals": (
        "SEARCH sessions USING COVERING INDEX sessions_open_by_principal (principal=? AND expires_at>?)"
    ),
    "queued_of_principals": "SEARCH principals USING INDEX sqlite_autoindex_principals_1 (principal=?)",
    "list_jobs": "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (job_id>? AND job_id<?)",
    "names_from": "SEARCH jobs USING COVERING INDEX sqlite_autoindex_jobs_1 (job_id>? AND job_id<?)",
    "names_before": "SEARCH jobs USING COVERING INDEX sqlite_autoindex_jobs_1 (job_id>? AND job_id<?)",
    "list_jobs_by_status": "SEARCH jobs USING INDEX jobs_by_status (status=? AND job_id>? AND job_id<?)",
    "count_claimed": "SEARCH jobs USING COVERING INDEX jobs_by_status (status=? AND job_id>? AND job_id<?)",
    "list_jobs_by_queue": "SEARCH jobs USING INDEX jobs_by_queue (queue=? AND status=? AND job_id>? AND job_id<?)",
    "list_ready": "SEARCH jobs USING INDEX jobs_in_line (queue=? AND (priority,available_at,enqueued_seq)>(?,?,?))",
    "moment_of_event": "SEARCH events USING INTEGER PRIMARY KEY (rowid=?)",
    "list_sessions": "SEARCH sessions USING INDEX sqlite_autoindex_sessions_1 (session_id>?)",
    "list_ended_sessions": "SEARCH sessions USING INDEX sessions_ended (status=? AND session_id>?)",
    "list_ended_sessions_by_principal": "SEARCH sessions USING INDEX sessions_ended_by_principal "
    "(principal=? AND status=? AND session_id>?)",
    "list_events": "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)",
    "list_events_by_job": "SEARCH events USING INDEX events_by_job (job_id=? AND seq>?)",
    "list_events_by_session": "SEARCH events USING INDEX events_by_session (session_id=? AND seq>?)",
    "events_at": "SEARCH events USING INTEGER PRIMARY KEY (rowid=?)",
    "newest_losses": "SEARCH events USING INDEX events_of_losses (at>?)",
    "tokens": "SEARCH tokens USING INDEX sqlite_autoindex_tokens_1 (token_id=?)",
    "tokens_by_digest": "SEARCH tokens USING INDEX sqlite_autoindex_tokens_2 (digest=?)",
    "store_key": "SCAN store_key",  # it has one row
    "is_open": "SCAN counters",  # so has this
}

EXPIRED_SESSIONS = ("LIST SUBQUERY", "SEARCH sessions USING COVERING INDEX sessions_by_expiry (expires_at<?)")
DOCUMENT = "SEARCH documents USING INTEGER PRIMARY KEY (rowid=?)"
# Payload, result and checkpoint.
DOCUMENTS = (DOCUMENT, DOCUMENT, "SEARCH checkpoints USING INDEX sqlite_autoindex_checkpoints_1 (job_id=?)")
SORTED = "USE TEMP B-TREE FOR ORDER BY"


def priorities(index: str, which: str) -> tuple[str, ...]:
    """Each priority is found from the previous one."""
    return (
        "CO-ROUTINE priorities",
        "SETUP",
        f"SEARCH jobs USING COVERING INDEX {index} ({which})",
        "RECURSIVE STEP",
        "SCAN p",
        f"SEARCH j USING COVERING INDEX {index} ({which} AND priority>?)",
        "SCAN p",
    )


IN_QUEUE = "jobs_by_queue (queue=? AND status=? AND job_id>? AND job_id<?)"
LOADED = ("LIST SUBQUERY", "SCAN json_each VIRTUAL TABLE INDEX 1:", "CREATE BLOOM FILTER")


def counted(what: str, index: str) -> tuple[str, ...]:
    return f"CO-ROUTINE {what}", f"SEARCH jobs USING {index}", *LOADED, f"SCAN {what}"


def waiting_at_each(index: str, which: str) -> tuple[str, ...]:
    at = f"{index} ({which} AND priority=? AND available_at"
    return (
        *counted("due", f"INDEX {at}<?)"),
        f"SEARCH jobs USING INDEX {at}<?)",
        *LOADED,
        *counted("not_due", f"INDEX {at}>?)"),
        f"SEARCH jobs USING INDEX {at}>?)",
        *LOADED,
    )


LONGER_PLANS = {
    "counters": (
        "SCAN counters",  # it has one row
        "SEARCH jobs USING COVERING INDEX jobs_by_expiry (expires_at>?)",
        "SEARCH sessions USING COVERING INDEX sessions_by_expiry",
    ),
    "jobs_with_documents": (PLANS["jobs"], *DOCUMENTS),
    "sessions": (
        "SEARCH sessions USING INDEX sqlite_autoindex_sessions_1 (session_id=?)",
        "SEARCH contexts USING INDEX sqlite_autoindex_contexts_1 (session_id=?)",
    ),
    "claims_beside": (PLANS["claims_of_sessions"], "LIST SUBQUERY", PLANS["jobs"]),
    "jobs_in_flight": (
        PLANS["jobs"],
        "LIST SUBQUERY",
        "SEARCH sessions USING INDEX sqlite_autoindex_sessions_1 (session_id=?)",
        "SCAN lost VIRTUAL TABLE INDEX 1:",  # what the session says
    ),
    "queues": (
        "SEARCH queues USING INDEX sqlite_autoindex_queues_1 (name=?)",
        "SEARCH jobs USING COVERING INDEX jobs_by_queue (queue=? AND status=?)",
    ),
    "claims_of_expired_sessions": (
        "CO-ROUTINE s",
        "SEARCH sessions USING COVERING INDEX sessions_by_expiry (expires_at<?)",
        "SCAN s",
        "SEARCH j USING INDEX jobs_by_session (session_id=?)",
        "USE TEMP B-TREE FOR LAST 2 TERMS OF ORDER BY",
    ),
    # A line is read in its order: nothing is sorted, and only rows that are claimed are read.
    "line": (
        *priorities("jobs_in_line", "queue=?"),
        "SEARCH jobs USING INDEX jobs_in_line (queue=? AND priority=? AND available_at<?)",
        *DOCUMENTS,
    ),
    "line_of_kind": (
        *priorities("jobs_in_line_by_kind", "queue=? AND kind=?"),
        "SEARCH jobs USING INDEX jobs_in_line_by_kind (queue=? AND kind=? AND priority=? AND available_at<?)",
        *DOCUMENTS,
    ),
    # The jobs of a queue under a prefix are found by name, and only those are sorted.
    "line_by_name": (
        "SEARCH jobs USING INDEX jobs_by_queue (queue=? AND status=? AND job_id>? AND job_id<?)",
        *DOCUMENTS,
        SORTED,
    ),
    "last_event_before": (
        "CO-ROUTINE span",
        "SETUP",
        "SCAN counters",  # it has one row
        "RECURSIVE STEP",
        "SCAN span",  # one row per halving of the log
        "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)",
        "SCAN span",
    ),
    "next_expiry": (
        "CO-ROUTINE moments",
        "COMPOUND QUERY",
        "LEFT-MOST SUBQUERY",
        "SEARCH jobs USING COVERING INDEX jobs_by_expiry (expires_at>?)",
        "UNION ALL",
        "SEARCH sessions USING COVERING INDEX sessions_by_expiry (expires_at>?)",
        "SEARCH moments",
    ),
    # Counted up to a limit, without reading the rows unless some are left out.
    "waiting": (*priorities("jobs_in_line", "queue=?"), *waiting_at_each("jobs_in_line", "queue=?")),
    "waiting_of_kind": (
        *priorities("jobs_in_line_by_kind", "queue=? AND kind=?"),
        *waiting_at_each("jobs_in_line_by_kind", "queue=? AND kind=?"),
    ),
    "waiting_by_name": (f"SEARCH jobs USING INDEX {IN_QUEUE}", *LOADED),
    "claims_in_queue": (f"SEARCH jobs USING INDEX {IN_QUEUE}", *LOADED),
    "list_later": (
        "CO-ROUTINE found",
        "SEARCH jobs USING INDEX jobs_in_line (queue=?)",
        SORTED,
        "SCAN found",
        "SEARCH jobs USING INDEX jobs_in_line (queue=? AND priority=? AND available_at=? AND enqueued_seq=?)",
    ),
    "not_waiting": (
        "SCAN CONSTANT ROW",
        *counted("claimed", f"COVERING INDEX {IN_QUEUE}"),
        *counted("dead", f"COVERING INDEX {IN_QUEUE}"),
        *counted("done", f"COVERING INDEX {IN_QUEUE}"),
    ),
    # The claims of the last minutes: of the log, only its end is read.
    "live_claims": (
        PLANS["list_jobs_by_status"],
        "SEARCH s USING INDEX sqlite_autoindex_sessions_1 (session_id=?) LEFT-JOIN",
    ),
    "newest_ends": ("CO-ROUTINE newest", "SCAN events", "SCAN newest"),
    "looked_at": ("CO-ROUTINE newest", "SCAN events", "SCAN newest"),
    "last_ends": (
        "SEARCH events USING INTEGER PRIMARY KEY (rowid=?)",
        "LIST SUBQUERY",
        "SCAN wanted VIRTUAL TABLE INDEX 1:",
        "SEARCH ended USING INTEGER PRIMARY KEY (rowid=?)",
        "CORRELATED LIST SUBQUERY",
        "SEARCH e USING INDEX events_by_job (job_id=? AND seq>?)",
    ),
    "next_ends": ("SEARCH events USING INDEX events_by_job (job_id=? AND seq>?)",),
    # Steps from name to name, however many jobs a queue has; only names are sorted, and jobs are counted up to a limit.
    "queue_names": (
        "CO-ROUTINE every",
        "MERGE (UNION)",
        "LEFT",
        "CO-ROUTINE found",
        "SETUP",
        "SEARCH jobs USING COVERING INDEX jobs_by_queue (queue>?)",
        "RECURSIVE STEP",
        "SCAN f",
        "SEARCH j USING COVERING INDEX jobs_by_queue (queue>?)",
        "SCAN found",
        f"SEARCH j USING COVERING INDEX {IN_QUEUE}",
        SORTED,
        "RIGHT",
        "SCAN queues USING INDEX sqlite_autoindex_queues_1",  # the queues with a limit, which are few
        "SCAN every",
        "CO-ROUTINE waiting",
        f"SEARCH j USING COVERING INDEX {IN_QUEUE}",
        "SCAN waiting",
        SORTED,
    ),
    # The end of the log, of a bounded length.
    "happened_in_queues": ("SEARCH events USING INTEGER PRIMARY KEY (rowid>?)", "USE TEMP B-TREE FOR GROUP BY"),
    # There are few tokens, and the list is rarely read.
    "list_tokens": ("SCAN tokens", SORTED),
    # The figures count only waiting and claimed jobs, without reading the rows; the queues are sorted.
    "queued_jobs": ("SCAN jobs USING COVERING INDEX jobs_in_line", SORTED),
    "figures": (
        "CO-ROUTINE waiting",
        "SCAN jobs USING COVERING INDEX jobs_in_line",
        "MATERIALIZE live",
        "CO-ROUTINE claims",
        "COMPOUND QUERY",
        "LEFT-MOST SUBQUERY",
        "SEARCH jobs USING INDEX jobs_by_expiry (expires_at>?)",
        "UNION ALL",
        "SEARCH s USING INDEX sessions_by_expiry (expires_at>?)",
        "SEARCH j USING INDEX jobs_by_session (session_id=?)",
        "SCAN claims",
        "MATERIALIZE expired",
        "CO-ROUTINE ended",
        "COMPOUND QUERY",
        "LEFT-MOST SUBQUERY",
        "SEARCH jobs USING INDEX jobs_by_expiry (expires_at<?)",
        "UNION ALL",
        "SEARCH s USING COVERING INDEX sessions_by_expiry (expires_at<?)",
        "SEARCH j USING INDEX jobs_by_session (session_id=?)",
        "SCAN ended",
        "SCAN waiting",  # one row, as the next two
        "SCAN live",
        "SCAN expired",
        "SEARCH jobs USING COVERING INDEX jobs_by_status (status=?)",
        "SEARCH jobs USING COVERING INDEX jobs_by_status (status=?)",
        "SEARCH sessions USING COVERING INDEX sessions_by_expiry (expires_at>?)",
        "SEARCH events USING INDEX events_of_losses (at>?)",
    ),
    # Few claims have expired without a record yet, so they may be sorted.
    "list_expired": (
        "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)",
        "LIST SUBQUERY",
        "COMPOUND QUERY",
        "LEFT-MOST SUBQUERY",
        "SEARCH jobs USING COVERING INDEX jobs_by_expiry (expires_at<?)",
        "UNION ALL",
        "SEARCH s USING COVERING INDEX sessions_by_expiry (expires_at<?)",
        "SEARCH j USING COVERING INDEX jobs_by_session (session_id=?)",
        SORTED,
    ),
    # Live sessions are few compared to ended ones.
    "list_open_sessions": ("SEARCH sessions USING INDEX sessions_by_expiry (expires_at>?)", SORTED),
    "list_expired_sessions": ("SEARCH sessions USING INDEX sessions_by_expiry (expires_at<?)", SORTED),
    "expired_in_queues": (
        "SEARCH jobs USING INDEX jobs_by_queue (queue=? AND status=?)",
        *EXPIRED_SESSIONS,
        "CREATE BLOOM FILTER",
    ),
    "expired_of_principals": (
        "SEARCH jobs USING INDEX jobs_by_principal (principal=? AND is_lock=?)",
        *EXPIRED_SESSIONS,
        "CREATE BLOOM FILTER",
        SORTED,
    ),
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = str(tmp_path_factory.mktemp("plans") / "store.db")
    make(path)
    connection = connect(path)
    yield connection
    connection.close()


def test_every_query_has_a_plan_here() -> None:
    assert set(SQL) - FRAGMENTS - WRITES == PLANS.keys() | LONGER_PLANS.keys()


@pytest.mark.parametrize("name", PLANS)
def test_one_search_and_nothing_else(connection: apsw.Connection, name: str) -> None:
    # Another step would be a sort of all rows found, or a scan next to the search.
    assert plan(connection, name) == [PLANS[name]]


@pytest.mark.parametrize("name", LONGER_PLANS)
def test_longer_plans(connection: apsw.Connection, name: str) -> None:
    assert plan(connection, name) == list(LONGER_PLANS[name])


@pytest.mark.parametrize("name", sorted(WRITES - {"save_counters", "note_closed"}))
def test_writing_scans_nothing(connection: apsw.Connection, name: str) -> None:
    assert not [step for step in plan(connection, name) if step.startswith("SCAN")]


@pytest.mark.parametrize("name", sorted(filter(takes_values, SQL)))
def test_each_of_many_values_is_searched_for(connection: apsw.Connection, name: str) -> None:
    one, *more = (plan(connection, name, size) for size in VALUES_AT_ONCE)
    assert all(other == one for other in more)


def plan(connection: apsw.Connection, name: str, size: int = 1) -> list[str]:
    """The steps of the plan, without the headings of scalar subqueries: their own steps are listed anyway."""
    text = compiled(name, size)
    named, numbered = set(re.findall(r":(\w+)", text)), [int(number) for number in re.findall(r"\?(\d+)", text)]
    values = (None,) * (len(named) + max(len(re.findall(r"\?(?!\d)", text)), *numbered, 0))
    steps = [str(row[3]).replace("main.", "") for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]
    return [re.sub(r"(LIST SUBQUERY) \d+$", r"\1", step) for step in steps if "SCALAR SUBQUERY" not in step]
