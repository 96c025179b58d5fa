"""Statements are planned once for all values, and must find their rows by an index even then."""

import re

import psycopg
import pytest

from octostore.stores.postgres.connection import parse_address
from octostore.stores.postgres.pipeline import compiled
from octostore.stores.postgres.statements import load_sql
from tests.support.postgres import made, new_schema

REMEMBERED = 5_000


def test_requests_are_found_by_id_even_with_a_plan_from_an_empty_table() -> None:
    address = parse_address(made(new_schema()))
    statement = compiled(load_sql(address.schema))["jobs_of_requests"]
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        connection.execute(b"PREPARE find AS " + statement.text)
        plan = connection.execute("EXPLAIN EXECUTE find('{local}', '{r}', '{default}')").fetchall()
    found = [line.strip() for (line,) in plan if "Index" in line]
    assert [line.split("  (")[0] for line in found] == [
        "->  Index Scan using jobs_by_request on jobs",
        "Index Cond: (request_id = unnest.unnest_1)",
    ], plan


@pytest.mark.parametrize(("name", "scan"), [("names_from", "Scan"), ("names_before", "Scan Backward")])
def test_similar_names_are_found_in_the_index_and_few_are_read(name: str, scan: str) -> None:
    address = parse_address(made(new_schema()))
    statement = compiled(load_sql(address.schema))[name]
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        connection.execute(b"PREPARE find AS " + statement.text)
        values = {"first": "'a'", "last": "'b'", "limit": "16"}
        given = ", ".join(values[name] for name in statement.parameters)
        plan = [line.strip() for (line,) in connection.execute(f"EXPLAIN EXECUTE find({given})".encode()).fetchall()]
    assert plan[0].startswith("Limit")
    assert plan[1].startswith(f"->  Index Only {scan} using jobs_pkey on jobs"), plan
    assert len(plan) == 3, plan


@pytest.mark.parametrize("analyzed", [False, True])
def test_forgetting_requests_reads_only_rows_that_may_be_forgotten(*, analyzed: bool) -> None:
    address = parse_address(made(new_schema()))
    statement = compiled(load_sql(address.schema))["forget_requests"]
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(
            f"""
            INSERT INTO {address.schema}.ended_requests
                (principal, number, request_id, how, ended_at, owner, claimed_at, fencing_token, attempt)
            SELECT 'local', number, number, 'done', 0, 'me', 0, number, 1 FROM generate_series(1, {REMEMBERED}) number
            """.encode()
        )
        if analyzed:
            connection.execute(f"ANALYZE {address.schema}.ended_requests".encode())
        connection.execute("SET plan_cache_mode = force_generic_plan; SET octostore.now = 1000")
        connection.execute(b"PREPARE forget AS " + statement.text)
        values = {"principal": "'local'", "age": "1", "kept": "10", "limit": "20"}
        given = ", ".join(values[name] for name in statement.parameters)
        plan = connection.execute(f"EXPLAIN (ANALYZE) EXECUTE forget({given})".encode()).fetchall()
        left = connection.execute(f"SELECT min(number) FROM {address.schema}.ended_requests".encode()).fetchone()
    assert not [line for (line,) in plan if "Seq Scan" in line], plan
    assert left == (21,)


def test_jobs_of_a_queue_are_counted_by_an_index_and_up_to_a_limit() -> None:
    """However many jobs are settled or waiting: idle workers ask all the time."""
    address = parse_address(made(new_schema()))
    sql = compiled(load_sql(address.schema))
    values = {"queue": "'q'", "first": "''", "last": "'z'", "most": "3", "kind": "'k'", "loaded": "NULL"}
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(
            f"""
            INSERT INTO {address.schema}.jobs (job_id, status, created_at, available_at, attempts, queue, kind,
                priority, max_attempts, enqueued_seq, history)
            SELECT status || number, status, 0, number, 0, 'q', 'k', 0, 1, number, '[]'
            FROM generate_series(1, {REMEMBERED}) number, unnest(ARRAY['queued', 'done', 'dead']) status
            """.encode()
        )
        connection.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off")
        connection.execute("SET enable_bitmapscan = off; SET octostore.now = 2500")
        for name in ("waiting", "waiting_of_kind", "not_waiting", "claims_in_queue"):
            connection.execute(f"PREPARE {name} AS ".encode() + sql[name].text)
            given = ", ".join(values[parameter] for parameter in sql[name].parameters)
            plan = [line for (line,) in connection.execute(f"EXPLAIN (ANALYZE) EXECUTE {name}({given})".encode())]
            assert not [line for line in plan if "Seq Scan" in line], plan
            read = [float(rows) for line in plan for rows in re.findall(r"Scan using .*actual .*rows=([\d.]+)", line)]
            assert read, plan
            assert max(read) <= 3, plan


def test_claims_of_the_last_minutes_are_found_by_indexes_and_few_are_read() -> None:
    """However long the log is: events are read from its end, by job, or as losses."""
    address = parse_address(made(new_schema()))
    sql = compiled(load_sql(address.schema))
    values = {"first": "''", "last": "'z'", "queue": "NULL", "owner": "NULL", "limit": "3"}
    values |= {"since": "10", "moment": "10", "names": "'[\"job-1\"]'", "after": "0"}
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(
            f"""
            INSERT INTO {address.schema}.events (seq, at, type, actor, job_id, details)
            SELECT number, number, CASE WHEN number % 2 = 0 THEN 'expired' ELSE 'claimed' END, 'local',
                'job-' || number % 100, '{{}}'
            FROM generate_series(1, {REMEMBERED}) number
            """.encode()
        )
        connection.execute(f"UPDATE {address.schema}.counters SET seq = {REMEMBERED}".encode())
        connection.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off")
        connection.execute("SET enable_bitmapscan = off")
        for name in ("live_claims", "newest_losses", "newest_ends", "looked_at", "last_ends", "last_event_before"):
            connection.execute(f"PREPARE {name} AS ".encode() + sql[name].text)
            given = ", ".join(values[parameter] for parameter in sql[name].parameters)
            plan = [line for (line,) in connection.execute(f"EXPLAIN (ANALYZE) EXECUTE {name}({given})".encode())]
            assert not [line for line in plan if "Seq Scan on events" in line or "Seq Scan on jobs" in line], plan
            read = [float(rows) for line in plan for rows in re.findall(r"Scan .*using .*actual .*rows=([\d.]+)", line)]
            assert read, plan
            assert max(read) <= 51, plan
