"""Least privilege: one role creates the tables, another only works with them (`grants.sql`)."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

import octostore
from octostore.core.questions import GetFigures, GetStoreKey
from octostore.stores.postgres import connection
from tests.support.embedded import local_store
from tests.support.postgres import made, new_schema, postgres_url
from tests.support.postgres_soundness import assert_sound

GRANTS = Path(connection.__file__).with_name("grants.sql")
RIGHTS = {
    "SELECT, INSERT, UPDATE, DELETE": [
        "jobs",
        "checkpoints",
        "sessions",
        "contexts",
        "queues",
        "tokens",
        "writers",
        "ended_requests",
        "principals",
    ],
    "SELECT, UPDATE": ["counters"],
    "SELECT, INSERT": ["events", "documents"],
    "SELECT": ["store_key", "migrations"],
}


@pytest.fixture
def url() -> str:
    """The URL of a store that does not exist yet."""
    return new_schema()


class Roles(NamedTuple):
    """The URLs of one store, one for each role."""

    owner: str
    app: str


def grants(schema: str, role: str) -> bytes:
    return GRANTS.read_text().format(schema=schema, role=role).encode()


@pytest.fixture
def roles(admin: psycopg.Connection, schema: str) -> Iterator[Roles]:
    """The owner has created the store and granted access to the application."""
    owner, app = f"{schema}_owner", f"{schema}_app"
    for role in (owner, app):
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
    admin.execute(f"GRANT CREATE ON DATABASE postgres TO {owner}".encode())
    url = f"{postgres_url()}&schema={schema}"
    urls = Roles(*(url.replace("postgres:@", f"{role}@", 1) for role in (owner, app)))
    made(urls.owner)
    with psycopg.connect(connection.parse_address(urls.owner).url) as as_owner:
        as_owner.execute(grants(schema, app))
    yield urls
    for role in (owner, app):
        admin.execute(f"DROP OWNED BY {role} CASCADE".encode())
        admin.execute(f"DROP ROLE {role}".encode())


def test_the_application_can_do_everything(roles: Roles) -> None:
    with octostore.connect(roles.app) as store, octostore.connect(roles.app) as other:
        following = other.events(follow=True)
        with store.open_session("agent") as session:
            session.save({"plan": 1})
            bound = store.claim_job("bound", session_id=session.session_id)
            store.checkpoint_job("bound", bound.lease_id or "", {"step": 1})
            store.release_job("bound", bound.lease_id or "", "failed", error="no")
        with store.hold("job") as claim:
            claim.progress("half")
            assert next(following).type == "session_opened"
        store.limit_queue("mail", 2)
        for number in range(3):
            store.enqueue("letter", {"to": "bob"}, job_id=f"letter-{number}", queue="mail")
        first = other.claim_next("mail")
        other.release_job("letter-0", first.lease_id or "", "done", result={"sent": True})
        store.requeue("letter-0")
        store.cancel("letter-1")
        store.claim_job("taken", ttl=1)
        store.force_release("taken")
        token = store.create_token("ann")
        store.revoke_token(token.token_id)
        assert [one.token_id for one in store.list_tokens()] == [token.token_id]
        assert [job.job_id for job in store.dead_jobs()] == ["letter-1"]
        assert store.list_jobs(status="queued", queue="mail").jobs[0].job_id == "letter-0"
        assert len(store.list_sessions()) == 1
        assert store.recover() == []
        store.probe()
        local = local_store(store)
        assert local.ask(GetFigures()).queued == {"mail": 2}
        assert len(local.ask(GetStoreKey()).key) == 32
        seen = [next(following).seq for _ in range(local.ask(GetFigures()).seq - 1)]
        assert seen == list(range(2, 2 + len(seen)))
    assert_sound(roles.owner)


def test_the_grants_are_the_documented_ones(admin: psycopg.Connection, roles: Roles, schema: str) -> None:
    del roles
    rows = admin.execute(
        "SELECT table_name, privilege_type FROM information_schema.role_table_grants "
        "WHERE table_schema = %s AND grantee = %s",
        (schema, f"{schema}_app"),
    )
    found: dict[str, set[str]] = {}
    for table, right in rows:
        found.setdefault(table, set()).add(right)
    assert found == {table: set(rights.split(", ")) for rights, tables in RIGHTS.items() for table in tables}
    tables = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
    assert {name for (name,) in tables} == set(found)


def test_missing_grants_are_reported(admin: psycopg.Connection, roles: Roles, schema: str) -> None:
    admin.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {schema}_app".encode())
    assert_refused(roles.app)
    admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}_app".encode())
    with octostore.connect(roles.app) as store:
        assert store.get_job("job").status == "free"
        with pytest.raises(octostore.Unreachable, match="grant them") as caught:
            store.claim_job("job")
        assert caught.value.reason == "read_only"
    admin.execute(f"REVOKE ALL ON SCHEMA {schema} FROM {schema}_app".encode())
    assert_refused(roles.app)
    assert_refused(f"{roles.app}_that_it_cannot_make")


def assert_refused(url: str) -> None:
    with pytest.raises(octostore.Unreachable, match="grant them") as caught:
        made(url)
    assert caught.value.reason == "read_only"


def test_an_existing_schema_can_be_used(admin: psycopg.Connection, roles: Roles, schema: str) -> None:
    """Then the privilege to create one is not needed."""
    admin.execute(f"CREATE SCHEMA {schema}_given AUTHORIZATION {schema}_app".encode())
    with octostore.connect(f"{roles.app}_given") as store:
        assert store.claim_job("job").status == "claimed"


@pytest.mark.parametrize("table", ["events", "documents"])
@pytest.mark.parametrize("change", ["UPDATE {} SET seq = 0", "DELETE FROM {}", "TRUNCATE {}"])
def test_no_role_can_change_the_log(roles: Roles, schema: str, table: str, change: str) -> None:
    with octostore.connect(roles.app) as store:
        store.enqueue("letter", {"to": "bob"})
    statement = change.format(f"{schema}.{table}").encode()
    with (
        psycopg.connect(connection.parse_address(roles.app).url) as app,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        app.execute(statement)
    with (
        psycopg.connect(connection.parse_address(roles.owner).url) as owner,
        pytest.raises(psycopg.errors.RaiseException),
    ):
        owner.execute(statement)
    assert len(assert_sound(roles.owner)) == 1
