"""Sessions from stores in which an id belonged to one principal for ever still work, for that principal only."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg
import pytest

from octostore.core.commands import CloseSession, KeepSessionAlive, OpenSession, SaveSession
from octostore.core.errors import LeaseLost, NotAllowed
from octostore.core.questions import GetJob, GetSession, ListEvents
from octostore.stores.postgres import connection as postgres_connection
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.sqlite.connection import APPLICATION_ID, migrations
from tests.support import postgres, postgres_soundness, soundness
from tests.support.soundness import Contents, check_sound
from tests.support.world import DatabaseClock, World

BEFORE = (Path(__file__).parent / "sessions_before.sql").read_text(encoding="utf-8")
SQLITE_BEFORE, POSTGRES_BEFORE = 6, 5


class Upgraded(NamedTuple):
    world: World
    look: Callable[[], Contents]


def script(schema: str, blob: str) -> str:
    return re.sub(r"{blob:(.*?)}(?=[,);])", lambda text: blob % text[1], BEFORE).replace("{schema}", schema)


def old_file(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    for step in migrations()[:SQLITE_BEFORE]:
        connection.execute(step)
    connection.execute(script("main", "CAST('%s' AS BLOB)"))
    connection.execute("UPDATE counters SET boot_id = 'manual'")
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", SQLITE_BEFORE)
    connection.close()


def old_schema(address: postgres_connection.DatabaseAddress) -> None:
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {address.schema}".encode())
        connection.execute(
            f"CREATE TABLE {address.schema}.migrations (version integer PRIMARY KEY, reads_from integer)".encode()
        )
        for number, step in enumerate(postgres_connection.migrations(address.schema)[:POSTGRES_BEFORE], 1):
            connection.execute(step.encode())
            connection.execute(f"INSERT INTO {address.schema}.migrations VALUES ({number}, 3)".encode())
        connection.execute(script(address.schema, "convert_to('%s', 'UTF8')").encode())


@pytest.fixture(params=["sqlite", "postgres"])
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Upgraded]:
    if request.param == "sqlite":
        path = tmp_path / "store.db"
        old_file(path)
        world = World(SqliteBackend(path))
        yield Upgraded(world, lambda: soundness.read_contents(path))
    else:
        url = postgres.new_schema()
        address = postgres_connection.parse_address(url)
        old_schema(address)
        clock = DatabaseClock()
        world = World(PostgresBackend(address, lambda: clock.now_ms), clock)
        yield Upgraded(world, lambda: postgres_soundness.read_contents(url))
    world.backend.close()


def test_its_principal_continues_the_session(upgraded: Upgraded) -> None:
    world = upgraded.world
    view = world.ask(GetSession(session_id="ci/main"))
    assert (view.session_id, view.agent, view.context, view.jobs) == ("main", "ann", "new", ["build"])
    world.advance(20)
    write: dict[str, Any] = {"session_id": "main", "lease_id": "lease-1", "principal": "ci"}
    assert world.do(KeepSessionAlive(**write)).remaining_ms == 60_000
    world.do(SaveSession(**write, context=b'"newer"'))
    job = world.ask(GetJob(job_id="build"))
    assert job.claim is not None
    assert (job.claim.session_id, job.claim.principal) == ("main", "ci")
    world.advance(60)
    resumed = world.do(OpenSession(session_id="main", agent="bob", principal="ci"))
    assert (resumed.resumed, resumed.context, [job.job_id for job in resumed.in_flight]) == (True, "newer", ["build"])
    assert len(check_sound(upgraded.look())) == 12


def test_other_principals_get_their_own_session_of_that_id(upgraded: Upgraded) -> None:
    world = upgraded.world
    for principal in ("bob", "local"):
        assert world.do(OpenSession(session_id="main", agent="bob", principal=principal)).resumed is False

    def events_of(name: str) -> list[tuple[int, str | None]]:
        events = [event for limit in (2, 10) for event in world.ask(ListEvents(session_id=name, limit=limit)).events]
        return [(event.seq, event.session_principal) for event in events[2:] or events]

    assert events_of("ci/main") == [(seq, "ci") for seq in (1, 2, 3, 4)]
    assert {seq for seq, _ in events_of("bob/main")} == {8}
    assert {seq for seq, _ in events_of("main")} == {9}
    check_sound(upgraded.look())


def test_what_other_principals_may_see_of_earlier_sessions(upgraded: Upgraded) -> None:
    events = upgraded.world.ask(ListEvents(principal="deployer")).events
    assert [(event.type, event.job_id) for event in events] == [("claimed", "build"), ("session_opened", None)]


def test_a_lock_client_continues_without_a_lease_and_an_agent_does_not(upgraded: Upgraded) -> None:
    assert upgraded.world.do(KeepSessionAlive(session_id="lock", principal="deployer")).remaining_ms == 60_000
    for command in (
        KeepSessionAlive(session_id="main", principal="ci"),
        CloseSession(session_id="main", principal="ci"),
    ):
        with pytest.raises(NotAllowed):
            upgraded.world.do(command)


def test_a_request_whose_session_had_ended_does_not_open_it_again(upgraded: Upgraded) -> None:
    with pytest.raises(LeaseLost):
        upgraded.world.do(OpenSession(session_id="home", agent="me", request_id="r"))


def test_contexts_that_were_replaced_are_gone(upgraded: Upgraded) -> None:
    found = upgraded.look()
    assert (found.contexts, found.documents) == ({"ci/main": "new"}, {})
    assert len(check_sound(found)) == 7
