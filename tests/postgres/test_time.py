"""`now` comes from the database, for all clients, and never runs backwards."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg
import pytest

import octostore
from tests.support.postgres_soundness import assert_sound

HOUR = timedelta(hours=1)


def database_time(admin: psycopg.Connection) -> datetime:
    ((now,),) = admin.execute("SELECT clock_timestamp()").fetchall()
    assert isinstance(now, datetime)
    return now


def moment_of(reply: octostore.ClaimReply) -> datetime:
    assert reply.claimed_at is not None
    return reply.claimed_at


def test_the_time_comes_from_the_database(
    admin: psycopg.Connection, store: octostore.OctoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000_000)
    before = database_time(admin)
    claimed_at = moment_of(store.claim_job("job", ttl=60))
    # The store keeps milliseconds.
    assert before - timedelta(milliseconds=1) <= claimed_at <= database_time(admin)


def test_no_moment_falls_when_the_databases_clock_is_set_back(
    admin: psycopg.Connection, store: octostore.OctoStore, url: str, schema: str
) -> None:
    """To a store, a clock set back by an hour looks like a past that was an hour later."""
    first = store.claim_job("first", ttl=60)
    admin.execute(f"UPDATE {schema}.counters SET now = now + 3600000".encode())
    with octostore.connect(url) as other:
        moments = [moment_of(one.claim_job(f"job-{n}")) for n, one in enumerate([store, other, store, other])]
        assert other.claim_job("first").status == "claimed", "it has expired by then"
    assert moments[0] >= moment_of(first) + HOUR
    assert all(earlier <= later for earlier, later in pairwise(moments))
    assert store.probe().at >= moments[-1]
    log = assert_sound(url)
    assert datetime.fromtimestamp(log[-1].at / 1_000, UTC) >= moments[-1]
    assert store.recover() == []
