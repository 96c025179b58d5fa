"""A client: a process that repeats its script, and reports to the checks what it receives."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from octostore.client.async_embedded import AsyncEmbeddedPort
from octostore.client.async_store import AsyncOctoStore
from octostore.client.authority import Authority
from octostore.client.embedded import EmbeddedPort
from octostore.client.http.async_port import AsyncHttpPort
from octostore.client.http.port import HttpPort
from octostore.client.http.server_url import ServerUrl
from octostore.client.session import Session
from octostore.client.store import OctoStore
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.replies import ClaimReply
from tests.simulation.checks import Asked, Belief, number_of, session_key
from tests.simulation.scheduler import Process
from tests.simulation.server import local_store
from tests.simulation.story import short

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")

SERVERS = ServerUrl(is_secure=False, host="localhost", port=1, base_path="")
THINK_SECONDS = (20.0, 520.0)
PATIENCE_SECONDS = 60.0
"""A reply may take this much longer than the wait that the caller asked for, whatever fails."""


class Client:
    def __init__(self, world: "World", name: str, process: Process, *, is_embedded: bool, token: str) -> None:
        self.world = world
        self.name = name
        self.process = process
        self.is_embedded = is_embedded
        self.chance = world.faults.stream(name)
        """The random stream of the current round."""
        self.checks = world.checks
        self._token = token
        self._local: Any = None
        self.store: OctoStore
        self.async_store: AsyncOctoStore

    # The connection

    def connect(self) -> None:
        self.store = OctoStore(EmbeddedPort(self._own_store()) if self.is_embedded else HttpPort(SERVERS, self._token))

    def connect_async(self) -> None:
        """In the event loop."""
        port = AsyncEmbeddedPort(self._own_store()) if self.is_embedded else AsyncHttpPort(SERVERS, self._token)
        self.async_store = AsyncOctoStore(port)

    def _own_store(self) -> Any:
        if self._local is None:
            self._local = local_store(self.process, lambda: self.world.storage.open(self.process))
        return self._local

    # Time and randomness

    @property
    def is_stopping(self) -> bool:
        return self.world.is_stopping

    def sleep(self, seconds: float) -> None:
        self.world.scheduler.sleep(seconds)

    def pick(self, choices: "list[T] | tuple[T, ...]") -> T:
        return self.chance.choice(choices)

    def new_id(self) -> str:
        return f"{self.name}-{self.chance.getrandbits(32):08x}"

    def say(self, what: str) -> None:
        self.world.story.add(self.name, what)

    # Calls and replies

    @contextmanager
    def doing(self, what: str, wait: float = 0) -> Iterator[None]:
        """A call that must return in time."""
        scheduler, process = self.world.scheduler, self.process
        began_at, paused = scheduler.now, process.paused_seconds
        self.world.operations += 1
        self.say(what)
        try:
            yield
        except OctoStoreError as error:
            self.say(f"{what} -> {type(error).__name__}: {short(error, 110)}")
            raise
        finally:
            if not scheduler.is_over:
                elapsed = scheduler.now - began_at - (process.paused_seconds - paused)
                self.world.waits.call_took(self.name, what, elapsed, wait + PATIENCE_SECONDS)

    def received_claim(self, reply: ClaimReply, asked: Asked | None, remaining: Callable[[], float]) -> Belief:
        job_id = reply.job_id or ""
        self.say(f"gets: {job_id} claimed, token {reply.fencing_token}, replayed={reply.replayed}")
        lease_id, token = reply.lease_id or "", reply.fencing_token or 0
        belief = Belief(job_id, self.name, self.process, lease_id=lease_id, token=token, remaining=remaining)
        self.checks.received_claim(belief, reply, asked)
        return belief

    def received_session(self, session: Session, asked: Asked) -> Belief:
        key = session_key(session.session_id)
        self.say(f"gets: {key} is open, number {number_of(session.context)}, replayed={session.reply.replayed}")
        lease_id = session.reply.lease_id
        token = self.checks.facts[key].token
        belief = Belief(key, self.name, self.process, lease_id=lease_id, token=token, remaining=session.remaining)
        self.checks.received_session(belief, session.reply, asked)
        return belief

    def repeat(self, what: str, call: Callable[[], T], wait: float = 0, times: int = 3) -> T:
        """Call until there is a reply, up to `times`."""
        while True:
            times -= 1
            try:
                with self.doing(what, wait):
                    return call()
            except Unreachable:
                if not times:
                    raise
                self.sleep(self.chance.uniform(0.1, 3))


class OwnClaim:
    """A claim without `hold()`, whose authority is counted with the library's own class."""

    def __init__(self, client: Client, reply: ClaimReply, asked: Asked | None, asked_at: float) -> None:
        self.reply = reply
        self.job_id = reply.job_id or ""
        self.lease_id = reply.lease_id or ""
        self.token = reply.fencing_token or 0
        self.authority = Authority()
        self.authority.renew(asked_at, reply.remaining_ms or 0)
        self.number = number_of(reply.checkpoint)
        self.belief = client.received_claim(reply, asked, self.authority.remaining)
