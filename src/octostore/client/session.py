"""A worker's session: one heartbeat for any number of claims, and a context that outlives the worker."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Self

from octostore.client.authority import Authority
from octostore.client.calls import build
from octostore.client.claiming import ClaimCall, claim
from octostore.client.heartbeater import Heartbeater
from octostore.client.methods import Blocking, thread_method
from octostore.client.port import Port
from octostore.core.commands import CloseSession, Command, KeepSessionAlive, R_co
from octostore.core.errors import LeaseLost, NotFound, OctoStoreError
from octostore.core.events import Event
from octostore.core.model import Phase
from octostore.core.paging import pages
from octostore.core.questions import ListEvents
from octostore.core.replies import HandedOverReply, HeartbeatReply, InFlight, KeepaliveReply, SessionReply, StopView
from octostore.stores.clock import boottime

if TYPE_CHECKING:
    from octostore.stores.loop_flag import LoopFlag


def open_session(port: Port, call: ClaimCall[SessionReply]) -> "Session":
    asked_at = boottime()
    return Session(port, claim(port, *call), asked_at)


class KeptSession:
    """A session that this process has open: `Session` and `AsyncSession`."""

    reply: SessionReply
    """The reply to the call that opened it."""
    session_id: str
    """Its id, to resume it with."""
    context: Any
    """What was last saved, by this session or by the one it resumes."""
    resumed: bool
    """Whether a session with this id existed before."""
    phase: Phase
    """What it was doing when it was last saved."""
    note: str | None
    """The note from the agent that handed it over, if any."""
    in_flight: list[InFlight]
    """The jobs it was working on before it was resumed, with their checkpoints."""
    stop_requested: dict[str, StopView]
    """The jobs of this session that someone wants stopped, as of the last heartbeat."""

    def __init__(
        self,
        port: Port,
        reply: SessionReply,
        asked_at: float,
        lost: "threading.Event | LoopFlag",
        *,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self.reply = reply
        self.session_id = reply.session_id
        self.context = reply.context
        self.resumed = reply.resumed
        self.phase = reply.phase
        self.note = reply.note
        self.in_flight = reply.in_flight
        self.stop_requested = {}
        self._port = port
        self._lost = lost
        self._authority = Authority()
        self._authority.renew(asked_at, reply.remaining_ms)
        self._on_lost = on_lost
        self._pid = os.getpid()
        self._is_handed_over = False
        self._heartbeater = Heartbeater(self._beat, self._authority, reply.ttl, self._lose, self._take_reply)

    @thread_method
    def keepalive(self) -> KeepaliveReply:
        """Send one heartbeat for the session and all its claims. A `with` block does this for you.

        Returns:
            The new `expires_at`, and the session's jobs that an operator wants stopped.

        Raises:
            LeaseLost: The session has ended.

        Example:
            >>> session = store.open_session("agent-3")
            >>> session.keepalive().stop_requested
            {}
        """
        asked_at = self._authority.now()
        reply = self._execute(self._keepalive_command())
        self._authority.renew(asked_at, reply.remaining_ms)
        self._take_reply(reply)
        return reply

    @thread_method
    def save(self, context: Any, *, phase: Phase | None = None) -> None:
        """Save the session's context, for this session and the next one with its id.

        Args:
            context: Any JSON value up to 256 KiB. It replaces the last one.
            phase: `idle`, `planning`, `executing`, `blocked`, `done` or `error`.

        Raises:
            LeaseLost: The session has ended.
            Conflict: This phase cannot follow the last one.

        Example:
            >>> with store.open_session("agent-3", session_id="main") as session:
            ...     session.save({"turn": 4}, phase="planning")
            >>> store.get_session("main").context
            {'turn': 4}
        """
        reply = self._execute(build.save_session(self.session_id, self.reply.lease_id, context, phase=phase))
        self.context, self.phase = context, reply.phase

    @thread_method
    def hand_over(self, to_agent: str, note: str | None = None) -> HandedOverReply:
        """Pass the session on to another agent, with its context and its claims. Your lease ends at once.

        Args:
            to_agent: The agent that may open the session.
            note: A note for that agent.

        Returns:
            The deadline for opening the session (`expires_at`), and the jobs that went with it.

        Raises:
            LeaseLost: The session has ended.

        Example:
            >>> with store.open_session("agent-3", session_id="main") as session:
            ...     session.hand_over("agent-4", "tests are red").jobs
            []
        """
        reply = self._execute(build.hand_over(self.session_id, to_agent, note, lease_id=self.reply.lease_id))
        self._is_handed_over = True
        self._heartbeater.stop()
        self._authority.end()
        return reply

    @thread_method
    def close(self) -> None:
        """End the session and release its claims. The context is kept for the next session with this id.

        Raises:
            LeaseLost: The session has already ended.

        Example:
            >>> session = store.open_session("agent-3")
            >>> session.close()
        """
        self._close()

    def remaining(self) -> float:
        """Return how long the session is certain to live if no more heartbeats get through.

        Returns:
            Seconds, or 0 once the session is lost.

        Example:
            >>> session = store.open_session("agent-3", ttl=120)
            >>> 110 < session.remaining() <= 120
            True
        """
        return 0.0 if self._lost.is_set() else self._authority.remaining()

    def _since(self) -> Iterator[Event]:
        question = ListEvents(after=self.reply.context_seq or 0, session_id=self.session_id)
        return (event for page in pages(self._port.ask, question) for event in page.events)

    def _close(self) -> None:
        self._heartbeater.stop()
        self._authority.end()
        self._port.execute(CloseSession(session_id=self.session_id, lease_id=self.reply.lease_id))

    def _leave(self, error: BaseException | None) -> None:
        if os.getpid() != self._pid or self._is_handed_over:
            return  # a forked child leaves the block, too; the session is its parent's, or another agent's
        # What the block raised matters more than a session that could not be closed, and expires.
        with suppress(OctoStoreError) if error else nullcontext():
            self._close()

    def _execute(self, command: Command[R_co]) -> R_co:
        try:
            return self._port.execute(command)
        except (LeaseLost, NotFound) as lost:
            self._lost.set()
            self._heartbeater.lose(lost)
            raise

    def _keepalive_command(self) -> KeepSessionAlive:
        return KeepSessionAlive(session_id=self.session_id, lease_id=self.reply.lease_id)

    def _take_reply(self, reply: HeartbeatReply | KeepaliveReply) -> None:
        if isinstance(reply, KeepaliveReply):
            self.stop_requested = reply.stop_requested

    def _lose(self, _why: object) -> None:
        self._lost.set()
        if self._on_lost is not None:
            self._on_lost()

    def _beat(self) -> Any:
        return self._port.submit(self._keepalive_command())


class Session(Blocking, KeptSession):
    """A worker's session: one heartbeat for any number of claims, and a context that outlives the process.

    In a `with` block, it sends its own heartbeats and is closed at the end; otherwise, call `keepalive()`. The event
    `lost` is set once the session, and every claim bound to it, has ended or may have expired.

    Example:
        >>> with store.open_session("agent-3", session_id="main") as session:
        ...     claims = store.claim_many(["issue-1", "issue-2"], session_id="main")
        ...     session.save({"issues": [1, 2]})
    """

    lost: threading.Event

    def __init__(
        self, port: Port, reply: SessionReply, asked_at: float, *, on_lost: Callable[[], None] | None = None
    ) -> None:
        self.lost = threading.Event()
        super().__init__(port, reply, asked_at, self.lost, on_lost=on_lost)

    def since(self) -> Iterator[Event]:
        """Read what has happened to the session and its jobs since `reply.context` was saved.

        Returns:
            The events, oldest first. `AsyncSession` returns a list.

        Example:
            >>> session = store.open_session("agent-3")
            >>> [event.type for event in session.since()]
            ['session_opened']
        """
        return self._since()

    def __enter__(self) -> Self:
        try:
            self._heartbeater.start()
        except BaseException:  # Ctrl-C, for one: no `__exit__` follows, and heartbeats would keep it forever
            with suppress(OctoStoreError):
                self._close()
            raise
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._leave(error)
