"""A backup is restored: new fencing tokens exceed all that were ever issued, and followers continue."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import psycopg
import pytest

import octostore
from octostore.stores.postgres.connection import parse_address
from tests.support.pg_programs import programs
from tests.support.postgres import postgres_url
from tests.support.postgres_soundness import assert_sound
from tests.support.processes import until
from tests.support.replay import replay
from tests.support.server import ServerProcess

AHEAD = 1_000_000_000
UNTIL_ALL_WAIT = """;
    DO $$ BEGIN
        WHILE (
            SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
        ) < 2 LOOP
            PERFORM pg_sleep(0.01);
        END LOOP;
    END $$"""
"""Until a server's writer and reader both wait. The reader's snapshot is older, so it sees the new tables empty."""


class Backup:
    """A dump of one store."""

    def __init__(self, url: str) -> None:
        self._schema = parse_address(url).schema
        self._dump = programs().run("pg_dump", "-d", postgres_url(), "-n", self._schema)

    def restore(self, arguments: str = "", *, meanwhile: str = "") -> None:
        """Restore in one transaction (`psql --single-transaction`), so that no one sees the backup's own state."""
        drop, resume = f"DROP SCHEMA {self._schema} CASCADE", f"SELECT {self._schema}.resume_after_restore({arguments})"
        command = ["-d", postgres_url(), "-v", "ON_ERROR_STOP=1", "--single-transaction"]
        programs().run("psql", *command, "-c", drop + meanwhile, "-f", "-", "-c", resume, input=self._dump)


def claim_and_release(store: octostore.OctoStore, times: int) -> int:
    """Return the last fencing token."""
    token = 0
    for _ in range(times):
        reply = store.claim_job("job")
        store.release_job("job", reply.lease_id or "")
        assert (reply.fencing_token or 0) > token
        token = reply.fencing_token or 0
    return token


@pytest.fixture
def lost(url: str) -> Iterator[int]:
    """The last event before the restore, which is not in the backup. The backup has three events."""
    with octostore.connect(url) as store:
        claim_and_release(store, 1)
        kept = store.claim_job("kept", ttl=3_600)
        backup = Backup(url)
        claim_and_release(store, 3)
        gone = store.claim_job("gone", ttl=3_600)
    backup.restore()
    yield gone.fencing_token or 0
    with octostore.connect(url) as store:
        store.heartbeat_job("kept", kept.lease_id or "")
        with pytest.raises(octostore.LeaseLost):
            store.heartbeat_job("gone", gone.lease_id or "")


def test_new_fencing_tokens_exceed_all_issued_ones(url: str, lost: int) -> None:
    with octostore.connect(url) as store:
        reply = store.claim_job("gone", "successor")
    assert reply.fencing_token == 3 + AHEAD + 1
    assert reply.fencing_token > lost


def test_the_log_says_where_a_backup_was_restored_and_can_be_replayed(url: str, lost: int) -> None:
    with octostore.connect(url) as store:
        claim_and_release(store, 1)
        events = list(store.events())
    assert [event.seq for event in events] == [1, 2, 3, *(3 + AHEAD + number for number in range(3))]
    assert lost < 3 + AHEAD
    assert (events[3].type, events[3].actor, events[3].data) == ("restored", "octostore", {"after": 3})
    log = assert_sound(url)
    for number in (2, 3):
        with pytest.raises(ValueError, match="gap"):
            replay(log[:number] + log[number + 1 :])


@pytest.mark.parametrize("behind", [0, 1, 6])
def test_a_follower_continues_after_the_last_event_it_saw(url: str, lost: int, behind: int) -> None:
    """Even if the restore removed events that it saw."""
    with octostore.connect(url) as store, ThreadPoolExecutor(1) as pool:
        following = pool.submit(list, islice(store.events(after=lost - behind, follow=True), 3))
        claim_and_release(store, 1)
        assert [event.type for event in following.result(30)] == ["restored", "claimed", "released"]


def test_a_server_that_runs_during_a_restore_repeats_nothing(url: str, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, env={"OCTOSTORE_URL": url}) as server:
        with octostore.connect(server.url, token=server.token) as store, octostore.connect(url) as library:
            claim_and_release(store, 1)
            backup, known = Backup(url), server.seq
            late = server.new_token("late")
            assert server.get("/jobs", token=late).status == 200
            last = claim_and_release(store, 3) + 1
            with server.stream("/events", headers={"Last-Event-ID": str(last - 1)}) as stream:
                assert [frame.id for frame in stream.take(1)] == [str(last)]
                # Fewer numbers than the server remembers, so it must keep track of the order.
                backup.restore(arguments="10", meanwhile=UNTIL_ALL_WAIT)
                assert [frame.event for frame in stream.take(1)] == ["restored"]
                claim_and_release(library, 1)
                assert [frame.event for frame in stream.take(2)] == ["claimed", "released"]
            with server.stream("/events", headers={"Last-Event-ID": str(last)}) as stream:
                assert [frame.id for frame in stream.take(3)] == [str(known + 10 + number) for number in range(3)]
            # A token that is not in the backup is invalid, even if the server knew it.
            until(lambda: server.get("/jobs", token=late).status == 401)
        server.check_has_not_failed()
    assert_sound(url)


@pytest.mark.parametrize("arguments", ["0", "-1", "NULL"])
def test_a_store_cannot_go_back(
    store: octostore.OctoStore, schema: str, arguments: str, admin: psycopg.Connection
) -> None:
    claim_and_release(store, 1)
    with pytest.raises(psycopg.errors.RaiseException, match="cannot go back"):
        admin.execute(f"SELECT {schema}.resume_after_restore({arguments})".encode())
    assert [event.type for event in store.events()] == ["claimed", "released"]
