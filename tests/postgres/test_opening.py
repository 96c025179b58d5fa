"""`connect("postgresql://…")`: the first process creates the tables, and errors say what is wrong."""

import os
import re
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

import octostore
from octostore.client.read_only import open_read_only
from octostore.stores.postgres.connection import MIGRATION_LOCK, migrations
from tests.support.founding import FIRST, NOT_FIRST, READS
from tests.support.postgres import made, new_schema, postgres_url
from tests.support.postgres_soundness import assert_sound
from tests.support.processes import Worker, until
from tests.support.running import state_of

NEWCOMERS = 8
SECRET = "s3cr3t-words"
KNOWN = len(migrations("any"))


@pytest.fixture
def url() -> str:
    """The URL of a store that does not exist yet."""
    return new_schema()


def as_user(url: str, user: str, password: str = "") -> str:
    return url.replace("postgres:@", f"{user}:{password}@", 1)


def in_database(url: str, name: str) -> str:
    return url.replace("/postgres?", f"/{name}?", 1)


# A store that does not exist


@pytest.mark.parametrize("name", [*READS, *NOT_FIRST])
def test_a_call_about_something_existing_creates_no_store(
    admin: psycopg.Connection, url: str, schema: str, name: str
) -> None:
    with octostore.connect(url) as store, pytest.raises(octostore.Unreachable) as caught:
        (READS | NOT_FIRST)[name](store)
    assert caught.value.reason == "no_store"
    assert "the first claim or enqueue creates it" in str(caught.value)
    assert columns(admin, schema) == []


def test_a_read_only_connection_creates_no_store(admin: psycopg.Connection, url: str, schema: str) -> None:
    with open_read_only(url) as reader:
        with pytest.raises(octostore.Unreachable) as caught:
            reader.figures()
        assert caught.value.reason == "no_store"
        assert columns(admin, schema) == []
        made(url)
        assert reader.figures().seq == 0, "another process has created it meanwhile"


@pytest.mark.parametrize("name", FIRST)
def test_a_command_that_can_come_first_creates_the_store(url: str, name: str) -> None:
    with octostore.connect(url) as store, octostore.connect(url) as other:
        FIRST[name](store)
        assert other.list_jobs() == store.list_jobs()


# What works


def test_the_library_works_on_postgresql(url: str) -> None:
    with octostore.connect(url) as store, octostore.connect(url) as other:
        following = other.events(follow=True)
        with store.hold("nightly", owner="ann", ttl=30) as claim:
            claim.progress("half way")
            assert next(following).type == "claimed"
            assert other.claim_job("nightly").owner == "ann"
            owner = other.get_job_owner("nightly")
            assert owner is not None
            assert owner.progress is not None
            assert owner.progress.note == "half way"
        assert next(following).type == "released"
        store.enqueue("letter", {"to": "bob"}, job_id="letter-1")
        taken = other.claim_next(owner="bob")
        assert (taken.job_id, taken.payload) == ("letter-1", {"to": "bob"})
        other.heartbeat_job("letter-1", taken.lease_id or "")
        other.release_job("letter-1", taken.lease_id or "", "done", result="sent")
        assert [next(following).type for _ in range(3)] == ["enqueued", "claimed", "done"]
    assert_sound(url)


def test_each_schema_is_its_own_store(admin: psycopg.Connection, url: str) -> None:
    other_url = f"{url}_b"
    with octostore.connect(url) as one, octostore.connect(other_url) as other:
        assert one.claim_job("job", "ann").status == "claimed"
        assert other.claim_job("job", "bob").status == "claimed"
    made(postgres_url())
    found = {name for (name,) in admin.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'octostore%'")}
    assert {url.rpartition("=")[2], other_url.rpartition("=")[2], "octostore"} <= found


def test_options_reach_libpq_unchanged(url: str) -> None:
    """`%20` stays a space and does not become a plus sign, which libpq would take literally."""
    with octostore.connect(f"{url}&options=-c%20search_path%3Dpg_catalog%20-c%20lock_timeout%3D1h") as store:
        assert store.claim_job("job").status == "claimed"


def test_the_databases_default_isolation_level_does_not_matter(url: str) -> None:
    strict = f"{url}&options=-c%20default_transaction_isolation%3Dserializable"
    with ExitStack() as stack:
        racers = [stack.enter_context(Worker("racer", strict, f"racer-{n}", 40)) for n in range(3)]
        assert [racer.hear() for racer in racers] == ["ready"] * 3
        for racer in racers:
            racer.tell("go")
        reports = [racer.hear() for racer in racers]
    assert sum(len(report["won"]) for report in reports) == 40
    assert_sound(url)


@pytest.fixture
def empty_database(admin: psycopg.Connection, schema: str) -> Iterator[str]:
    admin.execute(f"CREATE DATABASE {schema}".encode())
    yield in_database(postgres_url(), schema)
    admin.execute(f"DROP DATABASE {schema} WITH (FORCE)".encode())


def test_eight_processes_open_an_empty_database_at_once(empty_database: str) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker("newcomer", empty_database, n)) for n in range(NEWCOMERS)]
        assert [worker.hear() for worker in workers] == ["ready"] * NEWCOMERS
        with psycopg.connect(empty_database) as before:
            before.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
            for worker in workers:
                worker.tell("go")
            # All of them have found the database empty, and want to create the tables.
            until(lambda: before.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (NEWCOMERS,))
        assert [worker.hear() for worker in workers] == ["claimed"] * NEWCOMERS
    log = assert_sound(empty_database)
    assert {entry.job_id for entry in log} == {f"job-{n}" for n in range(NEWCOMERS)}
    with psycopg.connect(empty_database) as connection:
        versions = connection.execute("SELECT version FROM octostore.migrations ORDER BY version").fetchall()
        tables = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'counters'").fetchall()
    assert versions == [(number,) for number in range(1, KNOWN + 1)]
    assert tables == [("octostore",)]


def test_a_process_that_is_paused_during_the_migration_does_not_block_others_for_long(url: str) -> None:
    with Worker("stopper", url, "migrating", "1s") as stuck:
        pid = stuck.hear()["pid"]
        until(lambda: state_of(pid) == "T")
        with octostore.connect(url) as store:
            assert store.claim_job("job").status == "claimed"
    assert_sound(url)


# Old and new versions side by side


def pretend_upgrade(admin: psycopg.Connection, schema: str, *, reads_from: int) -> None:
    admin.execute(f"INSERT INTO {schema}.migrations VALUES ({KNOWN + 1}, {reads_from})".encode())


def test_a_newer_schema_that_we_can_still_use_is_used(admin: psycopg.Connection, url: str, schema: str) -> None:
    with octostore.connect(url) as before:
        before.claim_job("job", "ann")
        pretend_upgrade(admin, schema, reads_from=KNOWN)
        with octostore.connect(url) as after:
            assert after.claim_job("job").owner == "ann"
            assert before.claim_job("another").status == "claimed"
    rows = admin.execute(f"SELECT version, reads_from FROM {schema}.migrations ORDER BY version".encode()).fetchall()
    assert rows[-1] == (KNOWN + 1, KNOWN)


def test_a_newer_schema_that_we_cannot_use_is_left_alone(admin: psycopg.Connection, url: str, schema: str) -> None:
    made(url)
    pretend_upgrade(admin, schema, reads_from=KNOWN + 1)
    before = columns(admin, schema)
    with pytest.raises(octostore.Unreachable, match="upgrade OctoStore") as caught:
        octostore.connect(url)
    assert caught.value.reason == "newer_schema"
    assert columns(admin, schema) == before


def columns(admin: psycopg.Connection, schema: str) -> list[tuple[object, ...]]:
    return admin.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s ORDER BY 1, 2",
        (schema,),
    ).fetchall()


# Stores that cannot be opened


def error_of(url: str) -> octostore.OctoStoreError:
    """The error, which never shows the password."""
    with pytest.raises(octostore.OctoStoreError) as caught:
        octostore.connect(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return caught.value


def reason(url: str) -> str:
    fault = error_of(url)
    assert isinstance(fault, octostore.Unreachable)
    return fault.reason


@pytest.mark.parametrize("name", ["Upper", "with-dash", "1st", "", "a b", "a%3Bdrop", "x" * 64, "caf%C3%A9", "a%00"])
def test_a_bad_schema_name(name: str) -> None:
    fault = error_of(f"{postgres_url()}&schema={name}")
    assert isinstance(fault, octostore.InvalidInput)
    assert fault.field == "url"
    assert "schema" in str(fault)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}%zz@localhost/db",
        f"postgresql://ann:{SECRET}/@localhost/db",
        f"postgresql://ann:{SECRET}@x@localhost/db",
        f"postgresql://ann:/{SECRET}@localhost/db?schema=mine",
        f"postgresql://ann:{SECRET}@localhost/db?no_such_option=1",
        f"postgresql://ann@localhost/db?password={SECRET}%zz",
        f"postgresql://ann:{SECRET}",
        f"postgresql://ann:{SECRET}/db",
    ],
)
def test_the_error_for_a_malformed_url_does_not_show_its_password(url: str) -> None:
    fault = error_of(url)
    assert isinstance(fault, octostore.InvalidInput)
    assert fault.field == "url"
    assert any(hint in str(fault) for hint in ("no_such_option", "%40", "write @ and the host"))


@pytest.mark.parametrize(
    ("url", "option"),
    [
        ("postgresql://ann@127.0.0.1:1/db?connect_timeout=soon", "connect_timeout: 'soon'"),
        ("postgresql://ann@127.0.0.1:1/db?keepalives=maybe", "keepalives"),
        ("postgresql://ann@127.0.0.1:1/db?sslmode=always", "sslmode"),
    ],
)
def test_an_option_with_a_bad_value(url: str, option: str) -> None:
    fault = error_of(url)
    assert isinstance(fault, octostore.InvalidInput)
    assert str(fault) == f"url is not valid for PostgreSQL's client: bad value for {option}"


@pytest.mark.parametrize("url", ["postgresql:jobs", "postgresql:/jobs", f"postgresql:ann:{SECRET}@localhost/db"])
def test_a_url_without_its_slashes_says_so(url: str) -> None:
    fault = error_of(url)
    assert isinstance(fault, octostore.InvalidInput)
    assert str(fault) == "url must start with postgresql://, as in postgresql://user@host/database"


def test_no_such_database() -> None:
    assert reason(in_database(postgres_url(), "nowhere")) == "not_a_database"


def test_no_such_user() -> None:
    assert reason(as_user(postgres_url(), "nobody", SECRET)) == "denied"


@pytest.fixture
def guarded_user(admin: psycopg.Connection, schema: str) -> Iterator[str]:
    """A user with a password, which is not `SECRET`."""
    name = f"{schema}_guarded"
    admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'right'".encode())
    (file,) = admin.execute("SHOW hba_file").fetchone() or ("",)
    rules = Path(file).read_text()
    Path(file).write_text(f"local all {name} scram-sha-256\n{rules}")
    admin.execute("SELECT pg_reload_conf()")
    until(lambda: is_refused(as_user(postgres_url(), name)))
    yield name
    Path(file).write_text(rules)
    admin.execute("SELECT pg_reload_conf()")
    admin.execute(f"DROP OWNED BY {name}".encode())
    admin.execute(f"DROP ROLE {name}".encode())


def is_refused(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return True
    return False


def test_a_wrong_password(admin: psycopg.Connection, guarded_user: str, schema: str) -> None:
    url = f"{postgres_url()}&schema={schema}"
    admin.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {guarded_user}".encode())
    assert reason(as_user(url, guarded_user, SECRET)) == "denied"
    assert reason(as_user(url, guarded_user)) == "denied"
    with octostore.connect(as_user(url, guarded_user, "right")) as store:
        assert store.claim_job("job").status == "claimed"


@pytest.mark.parametrize("host", ["127.0.0.1:1", "no-such-host.invalid", "127.0.0.1:1,127.0.0.1:2"])
def test_no_server_there(host: str) -> None:
    assert reason(f"postgresql://ann:{SECRET}@{host}/db") == "network"


def test_a_standby_can_be_read_and_refuses_writes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a store, a database whose transactions are all read-only looks like a standby."""
    monkeypatch.setattr("octostore.stores.retrying.GIVE_UP_SECONDS", 0.2)
    with octostore.connect(url) as store:
        store.claim_job("job", "ann")
    only_reading = "options=-c%20default_transaction_read_only%3Don&target_session_attrs=any"
    with octostore.connect(f"{url}&{only_reading}") as store:
        assert store.get_job("job").owner == "ann"
        with pytest.raises(octostore.Unreachable) as caught:
            store.claim_job("other")
        assert caught.value.reason == "read_only"


@pytest.mark.parametrize("hosts", ["{}", "{},/nowhere", "/nowhere,{}"])
def test_a_standby_that_answers_is_read_only_and_not_away(url: str, hosts: str) -> None:
    """Also if it is the only one of several hosts that answers, as during a failover."""
    several = re.sub(r"(?<=host=)[^&]*", lambda host: hosts.format(host[0]), url)
    fault = error_of(f"{several}&options=-c%20default_transaction_read_only%3Don")
    assert isinstance(fault, octostore.Unreachable)
    assert "is read-only, perhaps a standby" in str(fault)
    assert "does not answer" not in str(fault)
    assert str(fault).endswith("failed: session is read-only)")
    assert not fault.is_lasting, "it may become the primary"


@pytest.mark.parametrize(
    ("url", "variable", "named"),
    [
        ("postgresql://ann@127.0.0.1:1", "", "ann"),
        ("postgresql://127.0.0.1:1?user=ann", "", "ann"),
        ("postgresql://127.0.0.1:1", "PGUSER", "bob"),
        ("postgresql://ann@127.0.0.1:1", "PGDATABASE", "bob"),
        ("postgresql://ann@127.0.0.1:1/jobs", "PGDATABASE", "jobs"),
    ],
)
def test_without_a_database_in_the_url_the_error_names_the_one_that_is_used(
    url: str, variable: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, "bob")
    assert f"PostgreSQL at 127.0.0.1:1, database {named}, schema octostore" in str(error_of(url))


def test_a_password_in_the_environment_need_not_be_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", os.fsdecode(b"p\xe9"))
    assert "PostgreSQL at 127.0.0.1:1, database ann, " in str(error_of("postgresql://ann@127.0.0.1:1"))


def test_the_error_names_the_store_without_the_password() -> None:
    fault = error_of(f"postgresql://ann:{SECRET}@127.0.0.1:1/jobs?schema=mine")
    assert "PostgreSQL at 127.0.0.1:1, database jobs, schema mine" in str(fault)
