"""A batch takes three round trips to the database, however many commands it has."""

from collections.abc import Iterator

import pytest

import octostore
from octostore.core.commands import (
    AcquireLock,
    AnyCommand,
    CheckpointJob,
    ClaimJob,
    ClaimNext,
    CloseSession,
    Enqueue,
    HeartbeatJob,
    KeepSessionAlive,
    OpenSession,
    Recover,
    ReleaseJob,
    SaveSession,
    SetQueue,
)
from octostore.core.errors import OctoStoreError
from octostore.stores.postgres import backend
from octostore.stores.store import LocalStore
from tests.support.embedded import local_store
from tests.support.pg_proxy import PgProxy
from tests.support.postgres_soundness import assert_sound

MOST = 3


class Client:
    """A store whose round trips are counted, with leases to work with."""

    def __init__(self, store: LocalStore, proxy: PgProxy) -> None:
        self.store = store
        self.proxy = proxy
        self.number = 0
        for job in ("mine", "also-mine"):
            self.submit([ClaimJob(job_id=job, owner="me")])
        self.lease_id = self.submit([ClaimJob(job_id="held", owner="me")])[0].lease_id
        self.session_lease_id = self.submit([OpenSession(session_id="session", agent="me")])[0].lease_id

    def submit(self, commands: list[AnyCommand]) -> list[octostore.ClaimReply]:
        replies = self.store.submit(commands).result(30)
        assert not [reply for reply in replies if isinstance(reply, OctoStoreError)]
        return replies

    def round_trips(self, commands: list[AnyCommand]) -> int:
        before = len(self.proxy.trips)
        self.submit(commands)
        return len(self.proxy.trips) - before

    def mixed(self, size: int) -> list[AnyCommand]:
        """Commands of every kind, on new jobs each time."""
        return [self._next_command() for _ in range(size)]

    def _next_command(self) -> AnyCommand:
        self.number += 1
        name = f"job-{self.number}"
        some: list[AnyCommand] = [
            ClaimJob(job_id=name, owner="me", session_id="session"),
            HeartbeatJob(job_id="held", lease_id=self.lease_id or "", note=name),
            Enqueue(job_id=name, kind="letter", queue=f"queue-{self.number % 3}", payload=b"{}"),
            ClaimNext(owner="me", queue=f"queue-{self.number % 3}", request_id=name),
            ClaimNext(owner="me", queue="queue-1", kinds=("letter", "parcel")),
            ClaimJob(job_id="mine", owner="somebody-else"),
            ClaimNext(owner="me", queue="empty"),
            CheckpointJob(job_id="held", lease_id=self.lease_id or "", data=b"{}"),
            OpenSession(session_id=name, agent="me"),
            KeepSessionAlive(session_id="session", lease_id=self.session_lease_id or ""),
            SaveSession(session_id="session", lease_id=self.session_lease_id or "", context=b"{}"),
            AcquireLock(job_id=f"lock-{self.number}", owner="me", max_claims=1_000_000),
            SetQueue(queue="queue-0", max_claimed=self.number),
        ]
        return some[self.number % len(some)]


@pytest.fixture
def client(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    # On a busy machine, a transaction may take so long that it is ended and runs again.
    monkeypatch.setattr(backend, "LIMITS", dict.fromkeys(backend.LIMITS, "5min"))
    with PgProxy(url) as proxy, octostore.connect(proxy.url) as store:
        yield Client(local_store(store), proxy)


@pytest.mark.parametrize("size", [1, 64, 256])
def test_a_batch_takes_three_round_trips(client: Client, url: str, size: int) -> None:
    counts = [client.round_trips(client.mixed(size)) for _ in range(26 if size == 1 else 2)]
    assert max(counts) <= MOST
    assert_sound(url)


def test_a_batch_of_many_megabytes_takes_three_round_trips(client: Client, url: str) -> None:
    """More than the system's send and receive buffers hold, in either direction."""
    payload = b'"' + b"x" * 200_000 + b'"'
    large: list[AnyCommand] = [Enqueue(job_id=f"large-{n}", kind="l", queue="q", payload=payload) for n in range(30)]
    assert client.round_trips(large) <= MOST
    assert client.round_trips([ClaimNext(owner="me", queue="q") for _ in large]) <= MOST
    assert_sound(url)


def test_ending_everything_takes_three_round_trips(client: Client) -> None:
    mine = client.submit([ClaimJob(job_id="bound", owner="me", session_id="session")])[0].lease_id or ""
    ending: list[AnyCommand] = [
        ReleaseJob(job_id="held", lease_id=client.lease_id or "", outcome="failed", error="no"),
        ReleaseJob(job_id="bound", lease_id=mine, outcome="done", result=b"{}"),
        CloseSession(session_id="session", lease_id=client.session_lease_id or ""),
        Recover(),
    ]
    assert client.round_trips(ending) <= MOST


def test_a_command_that_changes_nothing_takes_three_round_trips(client: Client) -> None:
    assert client.round_trips([ClaimJob(job_id="mine", owner="somebody-else")]) <= MOST
