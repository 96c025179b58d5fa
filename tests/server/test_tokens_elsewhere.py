"""All servers of a store notice changes of tokens, and after a start the first token is valid."""

import asyncio
import http.client
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import octostore
from octostore.core.commands import CreateToken, RevokeToken
from octostore.core.questions import FindToken, ListTokens
from octostore.server import auth
from octostore.server import store as served
from octostore.stores.memory import MemoryBackend
from octostore.stores.postgres.connection import parse_address
from octostore.stores.store import LocalStore, open_store
from octostore.wire.token_files import read_token_file, write_token_file
from octostore.wire.tokens import new_token, token_digest
from tests.support.postgres import new_schema
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.served import ServedStore


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/octostore.db" if request.param == "sqlite" else new_schema()


class Servers:
    """Servers on one store. Each starts on demand, and has seen no earlier event."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self.at_end = ExitStack()

    def start(self, name: str) -> ServedStore:
        folder = self._folder / name
        folder.mkdir()
        server = ServedStore(open_store(self._url), folder)
        self.at_end.callback(server.stop)
        return server


@pytest.fixture
def servers(url: str, tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(url, tmp_path)
    with servers.at_end:
        yield servers


def call(server: ServedStore, method: str, path: str, token: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.place.port, timeout=PATIENCE_SECONDS)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        content = response.read()
        return response.status, json.loads(content) if content else None
    finally:
        connection.close()


def admits(server: ServedStore, token: str) -> bool:
    status, _ = call(server, "GET", "/jobs", token)
    assert status in {200, 401}
    return status == 200


def cannot_claim(server: ServedStore, token: str) -> bool:
    status, _ = call(server, "POST", "/jobs/wanted/claim", token, {"owner": "someone"})
    assert status in {200, 401}
    return status == 401


def create_token(server: ServedStore, name: str = "ci") -> Any:
    status, token = call(server, "POST", "/tokens", server.token, {"name": name})
    assert status == 201
    return token


def test_every_server_notices_a_rotation(servers: Servers) -> None:
    one = servers.start("one")
    old = create_token(one)["token"]
    other = servers.start("other")
    assert [admits(server, old) for server in (one, other)] == [True, True]
    new = call(one, "POST", "/auth/token/rotate", old)[1]["token"]
    assert cannot_claim(other, old), "even before it has read the event"
    assert call(other, "POST", "/auth/token/rotate", old)[0] == 401
    assert (admits(one, old), admits(one, new)) == (False, True)
    until(lambda: not admits(other, old))
    assert admits(other, new)


def test_every_server_notices_a_revocation(servers: Servers) -> None:
    one = servers.start("one")
    kept, gone = create_token(one, "kept"), create_token(one, "gone")
    other = servers.start("other")
    assert [admits(server, gone["token"]) for server in (one, other)] == [True, True]
    assert call(one, "DELETE", f"/tokens/{gone['token_id']}", one.token)[0] in {200, 204}
    assert cannot_claim(other, gone["token"]), "even before it has read the event"
    assert not admits(one, gone["token"])
    until(lambda: not admits(other, gone["token"]))
    assert [admits(server, kept["token"]) for server in (one, other)] == [True, True]


def test_a_waiting_claim_is_dropped_when_its_token_is_revoked_elsewhere(servers: Servers, url: str) -> None:
    one = servers.start("one")
    gone = create_token(one, "gone")
    assert call(one, "POST", "/jobs/wanted/claim", one.token, {"owner": "holder"})[0] == 200
    with ThreadPoolExecutor(1) as pool, closing(octostore.connect(url)) as store:
        waiting = {"owner": "gone", "wait_seconds": 60}
        waiter = pool.submit(call, one, "POST", "/jobs/wanted/claim", gone["token"], waiting)
        until(lambda: one.waiting == 1)
        store.revoke_token(gone["token_id"])
        status, error = waiter.result(PATIENCE_SECONDS)
    assert (status, error["code"]) == (401, "authentication_failed")
    assert one.waiting == 0


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_every_server_notices_a_restored_backup(servers: Servers, url: str) -> None:
    """A backup lacks tokens created after it; only the restore event informs the servers."""
    one = servers.start("one")
    late = create_token(one)
    other = servers.start("other")
    assert [admits(server, late["token"]) for server in (one, other)] == [True, True]
    place = parse_address(url)
    with psycopg.connect(place.url) as connection:
        connection.execute(f"DELETE FROM {place.schema}.tokens WHERE token_id = %s".encode(), (late["token_id"],))
        connection.execute(f"SELECT {place.schema}.resume_after_restore(10)".encode())
    until(lambda: not admits(one, late["token"]))
    until(lambda: not admits(other, late["token"]))


# The first token


def start_and_read_tokens(
    path: Path, prepare: Callable[[LocalStore], None] = lambda _store: None
) -> tuple[str, list[str]]:
    """The token in the file after a server has started, and the names of the valid tokens in the store."""

    async def start() -> tuple[str, list[str]]:
        local = LocalStore(MemoryBackend)
        prepare(local)
        store = served.ServedStore(local)
        await auth.ensure_admin_token(store, path)
        token = read_token_file(path)
        view = await store.ask(FindToken(digest=token_digest(token)))
        assert view.revoked_at is None, "the token is valid"
        assert set(view.scopes) == set(auth.ALL_SCOPES)
        tokens = (await store.ask(ListTokens())).tokens
        await store.close()
        return token, sorted(token.name for token in tokens if token.revoked_at is None)

    return asyncio.run(start())


def create(token: str, *, revoked: bool = False) -> Callable[[LocalStore], None]:
    def prepare(store: LocalStore) -> None:
        digest = token_digest(token)
        store.submit([CreateToken(token_id="t", name="before", digest=digest, scopes=auth.ALL_SCOPES)]).result(30)
        if revoked:
            store.submit([RevokeToken(token_id="t")]).result(30)

    return prepare


def test_a_missing_first_token_is_created(tmp_path: Path) -> None:
    assert start_and_read_tokens(tmp_path / "store.admin.token")[1] == ["admin"]


def test_a_valid_first_token_is_kept(tmp_path: Path) -> None:
    token = new_token()
    write_token_file(tmp_path / "store.admin.token", token)
    assert start_and_read_tokens(tmp_path / "store.admin.token", create(token)) == (token, ["before"])


def test_a_revoked_first_token_is_replaced(tmp_path: Path) -> None:
    token = new_token()
    write_token_file(tmp_path / "store.admin.token", token)
    new, names = start_and_read_tokens(tmp_path / "store.admin.token", create(token, revoked=True))
    assert new != token
    assert names == ["admin"]


def test_a_first_token_of_another_store_is_replaced(tmp_path: Path) -> None:
    token = new_token()
    write_token_file(tmp_path / "store.admin.token", token)
    new, names = start_and_read_tokens(tmp_path / "store.admin.token")
    assert new != token
    assert names == ["admin"]


def test_the_first_token_of_an_earlier_version_is_kept(tmp_path: Path) -> None:
    token = new_token()
    earlier = tmp_path / "admin.token"
    write_token_file(earlier, token)
    assert start_and_read_tokens(tmp_path / "store.admin.token", create(token)) == (token, ["before"])
    assert read_token_file(earlier) == token, "scripts still find it at its old path"
    assert earlier.resolve().name == "store.admin.token", "and will after it is replaced"


def test_the_first_token_of_an_earlier_version_for_another_store_is_left_alone(tmp_path: Path) -> None:
    token = new_token()
    write_token_file(tmp_path / "admin.token", token)
    assert start_and_read_tokens(tmp_path / "store.admin.token")[0] != token
    assert read_token_file(tmp_path / "admin.token") == token
