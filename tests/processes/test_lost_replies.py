"""Replies that get lost, and calls that arrive twice, late or elsewhere: a caller with a confirmed claim has the job.

Real servers, broken connections, and paused processes. The simulator finds such moments; these tests provoke them.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import octostore
from octostore.stores.postgres.connection import parse_address
from octostore.stores.sqlite.connection import connect, make
from tests.support.connections import Connection
from tests.support.postgres import new_schema
from tests.support.processes import PATIENCE_SECONDS, Worker, until
from tests.support.proxy import Exchange, Proxy
from tests.support.server import ServerProcess

AGENTS = 5
ROUNDS = 1_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), "--max-locks", "10000") as process:
        yield process
        process.check_has_not_failed()


@contextmanager
def busy(home: Path) -> Iterator[None]:
    """Another transaction keeps the file busy."""
    blocker = connect(home / "octostore.db")
    blocker.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        blocker.execute("ROLLBACK")
        blocker.close()


def claim_and_break(server: ServerProcess, job_id: str) -> None:
    """Send a claim that waits, and break its connection before the reply."""
    with sent_claim(server, job_id, wait=30):
        pass
    wait_until_read(server)


def sent_claim(server: ServerProcess, job_id: str, wait: float) -> Connection:
    """Send a claim. The server has read it; the response may come at any time."""
    connection = Connection(server.port)
    body = {"owner": "ann", "request_id": job_id, "wait_seconds": wait}
    connection.request("POST", f"/jobs/{job_id}/claim", body, token=server.token)
    wait_until_read(server)
    return connection


def wait_until_read(server: ServerProcess) -> None:
    """Return when the server has read all earlier requests: it serves connections in turn."""
    for _ in range(2):
        assert server.get("/livez").status == 200


def types_of(server: ServerProcess, job_id: str) -> list[str]:
    return [event["type"] for event in server.events(job_id)]


def assert_keeps_it(server: ServerProcess, job_id: str, mine: Any) -> None:
    """The reply is true for every caller, and for as long as the owner wants."""
    assert (mine["status"], mine["owner"]) == ("claimed", "ann"), mine
    server.post("/recover")  # comes after everything the server still had to do
    assert server.post(f"/jobs/{job_id}/claim", {"owner": "bob"}).json["status"] == "held"
    assert server.post(f"/jobs/{job_id}/heartbeat", {"lease_id": mine["lease_id"]}).status == 200
    assert server.post(f"/jobs/{job_id}/release", {"lease_id": mine["lease_id"]}).status == 200
    last_claim = [event for event in server.events(job_id) if event["type"] == "claimed"][-1]
    assert (last_claim["seq"], types_of(server, job_id)[-1]) == (mine["fencing_token"], "released")


@pytest.mark.parametrize("wait", [30, 0], ids=["waiting", "not waiting"])
def test_a_repeated_claim_is_not_undone_with_the_first(server: ServerProcess, wait: float) -> None:
    for attempt in range(8):
        job_id = f"repeated-{wait}-{attempt}"
        with busy(server.home):
            claim_and_break(server, job_id)
            again = sent_claim(server, job_id, wait)
        with again:
            assert_keeps_it(server, job_id, again.response().json)


def test_a_claim_repeated_at_another_server_is_not_undone(tmp_path: Path) -> None:
    url = new_schema()
    address = parse_address(url)
    environment = {"OCTOSTORE_URL": url}
    with (
        ServerProcess(tmp_path, env=environment) as first,
        ServerProcess(tmp_path, env=environment) as second,
        psycopg.connect(address.url) as blocker,
        psycopg.connect(address.url, autocommit=True) as observer,
    ):
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"

        def is_waiting_for_lock() -> bool:
            row = observer.execute(blocked, (blocker.info.backend_pid,)).fetchone()
            return row is not None and row[0] > 0

        for number in range(3):
            job_id = f"elsewhere-{number}"
            blocker.execute(f"SELECT FROM {address.schema}.counters FOR UPDATE".encode())
            claim_and_break(first, job_id)
            until(is_waiting_for_lock)
            with sent_claim(second, job_id, wait=0) as again:
                blocker.rollback()
                assert_keeps_it(second, job_id, again.response().json)


def test_locks_and_sessions_of_a_client_that_left_are_undone(server: ServerProcess) -> None:
    sent = {"/locks/of-the-gone/acquire": {"ttl_seconds": 60}, "/sessions": {"session_id": "of-the-gone", "agent": "a"}}
    with busy(server.home):
        for path, body in sent.items():
            with Connection(server.port) as connection:
                connection.request("POST", path, body, token=server.token)
                wait_until_read(server)
    until(lambda: server.get("/locks/of-the-gone").json["status"] == "free")
    until(
        lambda: (
            server.get("/sessions/of-the-gone").status == 404 or not server.get("/sessions/of-the-gone").json["active"]
        )
    )


def test_a_claim_that_timed_out_and_is_repeated_in_one_process_is_not_undone(path: Path) -> None:
    """Without a server."""
    make(str(path))
    blocker = connect(path)

    async def main() -> None:
        async with await octostore.connect_async(f"sqlite:///{path}") as store:
            for number in range(5):
                job_id = f"here-{number}"
                blocker.execute("BEGIN IMMEDIATE")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(store.claim_job(job_id, owner="ann", request_id="r"), 0.05)
                again = asyncio.create_task(store.claim_job(job_id, owner="ann", request_id="r"))
                await asyncio.sleep(0)
                blocker.execute("ROLLBACK")
                mine = await again
                await store.recover()
                assert (await store.claim_job(job_id, owner="bob")).status == "held"
                assert (await store.release_job(job_id, mine.lease_id or "")).fencing_token == mine.fencing_token

    asyncio.run(main())
    blocker.close()


def test_a_claim_that_is_never_repeated_is_undone_with_the_reason(server: ServerProcess) -> None:
    """The caller is gone and does not repeat the claim, so the job goes to the next one."""
    with busy(server.home):
        claim_and_break(server, "gone")
    until(lambda: types_of(server, "gone") == ["claimed", "undone"])
    undone = server.events("gone")[1]
    assert (undone["agent"], undone["reason"]) == ("ann", "the caller had already gone")
    response = server.post("/jobs/gone/claim", {"owner": "bob"}).json
    assert (response["status"], response["attempt"]) == ("claimed", 1)


# Late calls


@contextmanager
def paused(server: ServerProcess) -> Iterator[None]:
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def leave_in_socket(server: ServerProcess, path: str, body: Any, headers: str = "") -> None:
    """Send a request to a paused server, and cut the connection."""
    with Connection(server.port) as lost:
        lost.request("POST", path, body, token=server.token, headers=headers)


def test_a_late_duplicate_of_a_claim_does_not_claim_again(server: ServerProcess) -> None:
    body = {"owner": "ann", "request_id": "late"}
    with ServerProcess(server.home) as other:
        with paused(server):
            leave_in_socket(server, "/jobs/late/claim", body)
            mine = other.post("/jobs/late/claim", body).json
            assert other.post("/jobs/late/release", {"lease_id": mine["lease_id"]}).status == 200
        server.post("/recover")  # read after the request left in the socket
        assert other.get("/jobs/late").json["status"] == "free"
        assert types_of(other, "late") == ["claimed", "released"]
        response = other.post("/jobs/late/claim", body)
        assert (response.status, response.json["code"], response.json["ended"]["how"]) == (
            409,
            "lease_lost",
            "released",
        )


def test_a_request_whose_caller_gave_up_is_not_executed(server: ServerProcess) -> None:
    """Without a request id, the deadline is the only way to know."""
    with paused(server):
        leave_in_socket(server, "/jobs/given-up/claim", {"owner": "ann"}, "X-OctoStore-Deadline-Ms: 900\r\n")
        threading.Event().wait(1.1)  # the length of a pause needs real time
    server.post("/recover")
    assert types_of(server, "given-up") == []


def test_a_caller_that_still_waits_gets_too_late(server: ServerProcess) -> None:
    headers = {"X-OctoStore-Deadline-Ms": "200"}
    responses: list[Any] = []
    with busy(server.home):
        sent = threading.Thread(
            target=lambda: responses.append(server.post("/jobs/too-late/claim", {"owner": "ann"}, headers=headers))
        )
        sent.start()
        threading.Event().wait(0.3)
    sent.join(PATIENCE_SECONDS)
    (response,) = responses
    assert (response.status, response.json["code"], response.json["reason"]) == (408, "too_late", "late")
    assert server.get("/jobs/too-late").json["status"] == "free"


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "soon", "99999999999999"])
def test_a_deadline_is_a_number_of_milliseconds(server: ServerProcess, text: str) -> None:
    response = server.post("/jobs/odd-deadline/claim", {}, headers={"X-OctoStore-Deadline-Ms": text})
    assert (response.status, response.json["code"], response.json["field"]) == (
        400,
        "invalid_input",
        "X-OctoStore-Deadline-Ms",
    )
    assert server.get("/jobs/odd-deadline").json["status"] == "free"


# Calls out of order


def delivered_twice(when: threading.Event, delivered: threading.Event) -> Callable[[Exchange], None]:
    """The client's connection breaks, but the request still reaches the server, after `when` is set."""

    def act(exchange: Exchange) -> None:
        def later() -> None:
            assert when.wait(PATIENCE_SECONDS)
            exchange.ask()
            delivered.set()

        threading.Thread(target=later, daemon=True).start()
        exchange.reset()

    return act


class Overtaken:
    """A store whose next call arrives twice: at once, and again when the block ends."""

    def __init__(self, server: ServerProcess) -> None:
        self._proxy = Proxy(server.port)
        self.store = octostore.connect(self._proxy.url, token=server.token)

    @contextmanager
    def first_arrives_last(self) -> Iterator[octostore.OctoStore]:
        when, delivered = threading.Event(), threading.Event()
        self._proxy.then(delivered_twice(when, delivered))
        yield self.store
        when.set()
        assert delivered.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self.store.close()
        self._proxy.close()


@pytest.fixture
def overtaken(server: ServerProcess) -> Iterator[Overtaken]:
    opened = Overtaken(server)
    yield opened
    opened.close()


def test_a_late_checkpoint_does_not_overwrite_a_newer_one(overtaken: Overtaken) -> None:
    mine = overtaken.store.claim_job("checkpointed")
    with overtaken.first_arrives_last() as store:
        store.checkpoint_job("checkpointed", mine.lease_id or "", {"step": 1})
        store.checkpoint_job("checkpointed", mine.lease_id or "", {"step": 2})
    overtaken.store.release_job("checkpointed", mine.lease_id or "")
    assert overtaken.store.claim_job("checkpointed").checkpoint == {"step": 2}


def test_a_late_context_does_not_overwrite_a_newer_one(overtaken: Overtaken) -> None:
    session = overtaken.store.open_session("ann")
    with overtaken.first_arrives_last():
        session.save({"turn": 1}, phase="planning")
        session.save({"turn": 2}, phase="executing")
    view = overtaken.store.get_session(session.session_id)
    assert (view.context, view.phase) == ({"turn": 2}, "executing")
    assert [event.type for event in overtaken.store.events(session_id=session.session_id)].count("session_saved") == 2


def test_late_progress_and_a_late_ttl_do_not_replace_newer_ones(overtaken: Overtaken) -> None:
    mine = overtaken.store.claim_job("progressing", ttl=60)
    with overtaken.first_arrives_last() as store:
        store.heartbeat_job("progressing", mine.lease_id or "", progress="reading", ttl=1)
        beat = store.heartbeat_job("progressing", mine.lease_id or "", progress="writing", ttl=90)
    owner = overtaken.store.get_job_owner("progressing")
    assert owner is not None
    assert owner.progress is not None
    assert (owner.progress.note, owner.expires_at) == ("writing", beat.expires_at)


def test_a_process_that_gets_a_lease_from_another_can_write_after_it(
    server: ServerProcess, overtaken: Overtaken
) -> None:
    mine = overtaken.store.claim_job("inherited")
    for step in range(5):
        overtaken.store.checkpoint_job("inherited", mine.lease_id or "", {"step": step})
    with octostore.connect(server.url, token=server.token) as successor:
        successor.checkpoint_job("inherited", mine.lease_id or "", {"step": 5})
        successor.release_job("inherited", mine.lease_id or "")
        assert successor.claim_job("inherited").checkpoint == {"step": 5}


# One access token for several agents


def test_one_of_five_agents_that_share_a_token_gets_the_lock(server: ServerProcess) -> None:
    """The recipe for hosted agents: each acquires the lock, and names itself in the metadata."""
    with ExitStack() as stack:
        agents = [
            stack.enter_context(Worker("lock_agent", server.port, f"agent-{number}", ROUNDS))
            for number in range(AGENTS)
        ]
        for agent in agents:
            assert agent.hear() == "ready"
        for agent in agents:
            agent.tell("go", token=server.token)
        won = [agent.hear(90) for agent in agents]
    assert sorted(name for names in won for name in names) == sorted(f"github-issue-{n}" for n in range(ROUNDS))


def test_an_agent_that_names_itself_gets_its_lock_again_and_no_other_does(server: ServerProcess) -> None:
    def acquire(body: Any, **headers: str) -> Any:
        return server.post(
            "/locks/named/acquire", body, headers={k.replace("_", "-"): v for k, v in headers.items()}
        ).json

    first = acquire({"holder": "agent-1", "metadata": "step=1"})
    again = acquire({"holder": "agent-1", "metadata": "step=2"})
    assert (again["status"], again["lease_id"], again["metadata"]) == ("acquired", first["lease_id"], "step=1")
    assert acquire({}, Idempotency_Key="agent-1")["lease_id"] == first["lease_id"]
    for other in ({"holder": "agent-2", "metadata": "step=1"}, {"metadata": "step=1"}, {}):
        response = acquire(other)
        assert (response["status"], response["metadata"]) == ("held", "step=1")
