"""The database is killed and comes back: calls fail meanwhile, and nothing has to be restarted afterwards."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import octostore
from octostore.stores import retrying
from tests.support.cluster import Node
from tests.support.documents import Machine, blocks_of
from tests.support.pg_programs import programs
from tests.support.postgres_soundness import assert_sound
from tests.support.processes import ROOT, until
from tests.support.server import ServerProcess

numbers = count(1)


@pytest.fixture(scope="module")
def database() -> Iterator[Node]:
    # Not pytest's folder: if we are root, the server runs as another user, who may not enter it.
    folder = Path(tempfile.mkdtemp(prefix="octostore-outage-"))
    os.chown(folder, *programs().owner)
    node = Node(folder / "data")
    programs().run("initdb", "-D", node.data, "-Upostgres", "-Atrust", "-Eutf8", "--no-sync")
    yield node
    node.kill()
    shutil.rmtree(folder)


@pytest.fixture
def url(database: Node) -> str:
    if not database.is_running:
        database.start()
    return f"postgresql://postgres@127.0.0.1:{database.port}/postgres?schema=store_{next(numbers)}"


def calls(store: octostore.OctoStore, lease_id: str) -> list[Callable[[], Any]]:
    return [
        lambda: store.claim_job("job", "bob"),
        lambda: store.claim_job("other", "bob"),
        lambda: store.claim_next(owner="bob"),
        lambda: store.get_job("job"),
        lambda: store.get_job_owner("other"),
        lambda: store.heartbeat_job("job", lease_id),
        lambda: store.release_job("job", lease_id),
        lambda: store.enqueue("letter", job_id="letter"),
        lambda: list(store.events()),
        store.list_jobs,
        store.probe,
    ]


def test_the_library_raises_unreachable_and_works_again_when_the_database_is_back(
    database: Node, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with octostore.connect(url) as store:
        held = store.claim_job("job", "ann", ttl=600)
        store.get_job("job")
        following = store.events(follow=True)
        assert next(following).type == "claimed"
        database.kill()
        monkeypatch.setattr(retrying, "GIVE_UP_SECONDS", 0.1)
        for call in calls(store, held.lease_id or ""):
            with pytest.raises(octostore.Unreachable) as caught:
                call()
            assert caught.value.reason == "network"
        database.start()
        assert store.claim_job("job").owner == "ann"
        assert store.claim_job("other", "ann").status == "claimed"
        assert store.get_job("letter").status == "free"
        assert next(following).job_id == "other"
    assert [entry.job_id for entry in assert_sound(url)] == ["job", "other"]


def test_a_short_outage_is_not_noticed(database: Node, url: str) -> None:
    with octostore.connect(url) as store, ThreadPoolExecutor(2) as pool:
        held = store.claim_job("job", "ann", ttl=600)
        store.get_job("job")
        database.kill()
        claiming = pool.submit(store.claim_job, "job", "bob")
        asking = pool.submit(store.get_job_owner, "job")
        database.start()
        assert (claiming.result(30).status, claiming.result().owner) == ("held", "ann")
        owner = asking.result(30)
        assert owner is not None
        assert owner.fencing_token == held.fencing_token


def test_a_server_responds_503_and_works_again_when_the_database_is_back(
    database: Node, url: str, tmp_path: Path
) -> None:
    with ServerProcess(tmp_path, "--url", url) as server:
        held = server.post("/jobs/job/claim", {"owner": "ann", "ttl_seconds": 600}).json
        database.kill()
        requests: list[tuple[str, str, Any]] = [
            ("POST", "/jobs/job/claim", {"owner": "bob"}),
            ("POST", "/jobs/other/claim", {"owner": "bob", "wait_seconds": 30}),
            ("POST", "/jobs/job/heartbeat", {"lease_id": held["lease_id"]}),
            ("GET", "/jobs/job", None),
            ("GET", "/events", None),
            ("GET", "/readyz", None),
        ]
        began_at = time.monotonic()
        with ThreadPoolExecutor(len(requests)) as pool:
            responses = list(pool.map(lambda request: server.request(*request), requests))
        assert time.monotonic() - began_at < 3 * retrying.GIVE_UP_SECONDS, "they all wait at the same time"
        for request, response in zip(requests, responses, strict=True):
            assert response.status == 503, (request, response)
            assert int(response.headers["retry-after"]) >= 1
        assert {response.json["reason"] for response in responses if "reason" in response.json} == {"network"}
        database.start()
        assert server.post("/jobs/job/claim", {"owner": "bob"}).json["owner"] == "ann"
        assert server.post("/jobs/other/claim", {"owner": "ann"}).json["status"] == "claimed"
        until(lambda: server.get("/readyz").status == 200)
        server.check_has_not_failed()
    assert [entry.job_id for entry in assert_sound(url) if entry.type == "claimed"] == ["job", "other"]


def test_the_page_for_three_in_the_morning_helps(database: Node, url: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "at-three-in-the-morning.md"
    (look,) = [block.text for block in blocks_of(page, "sh", under="The database is gone")]
    is_ready, doctor = look.splitlines()
    with Machine(tmp_path / "machine", OCTOSTORE_URL=url.partition("?")[0]) as machine:
        machine.env["PATH"] += f":{programs().folder}"
        machine.do("octostore claim nightly-report --owner ann --ttl 1h")
        assert "accepting connections" in machine.do(look)
        database.kill()
        assert "no response" in machine.do(is_ready, code=2)
        assert "check that the database is running" in machine.do(doctor, code=69)
        database.start()
        machine.do(look)
        assert "ann has nightly-report" in machine.do("octostore owner nightly-report")
