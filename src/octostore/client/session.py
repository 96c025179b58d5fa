"""A worker's session: one heartbeat for any number of claims, and a context that outlives the worker."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any, Self

from octostore.client.authority import Authority
from octostore.client.calls import build
from octostore.client.heartbeater import Heartbeater
from octostore.client.port import Port
from octostore.core.commands import CloseSession, KeepSessionAlive
from octostore.core.errors import OctoStoreError
from octostore.core.events import Event
from octostore.core.model import Phase
from octostore.core.paging import pages
from octostore.core.questions import ListEvents
from octostore.core.replies import HandedOverReply, HeartbeatReply, KeepaliveReply, SessionReply, StopView


class Session:
    """Keep it alive with `keepalive()`, or use it as a block: that heartbeats by itself and closes it at the end.

    `context` is what was last saved, by this session or by the one it resumes, and `phase` what it was doing then;
    `in_flight` are the jobs that it was working on, with their checkpoints, and `note` what the agent that handed it
    over had to say. `lost` is set when the block's heartbeats fail for so long that the session, and with it every
    claim bound to it, may have ended. `stop_requested` are the jobs that somebody wants it to stop, as of its last
    keepalive.
    """

    def __init__(
        self, port: Port, reply: SessionReply, asked_at: float, *, on_lost: Callable[[], None] | None = None
    ) -> None:
        self.reply = reply
        self.session_id = reply.session_id
        self.context: Any = reply.context
        self.resumed = reply.resumed
        self.phase: Phase = reply.phase
        self.note = reply.note
        self.in_flight = reply.in_flight
        self.lost = threading.Event()
        self._port = port
        self._authority = Authority()
        self._authority.renew(asked_at, reply.remaining_ms)
        self._on_lost = on_lost
        self._pid = os.getpid()
        self._is_handed_over = False
        self.stop_requested: dict[str, StopView] = {}
        self._heart = Heartbeater(self._beat, self._authority, reply.ttl, self._lose, self._take_reply)

    def keepalive(self) -> KeepaliveReply:
        """Prove you are alive, for the session and all its claims. Raises `LeaseLost` when it has ended."""
        asked_at = self._authority.now()
        reply = self._port.execute(self._keepalive_command())
        self._authority.renew(asked_at, reply.remaining_ms)
        self._take_reply(reply)
        return reply

    def save(self, context: Any, *, phase: Phase | None = None) -> None:
        """Keep `context` (JSON of up to 256 KiB), for this session and whoever resumes it.

        `phase` says what it is doing from now on: `idle`, `planning`, `executing`, `blocked`, `done` or `error`. Raises
        `Conflict` for one that cannot follow on the last.
        """
        reply = self._port.execute(build.save_session(self.session_id, self.reply.lease_id, context, phase=phase))
        self.context, self.phase = context, reply.phase

    def since(self) -> Iterator[Event]:
        """What happened to the session and its jobs after the context that it was opened with had been saved."""
        question = ListEvents(after=self.reply.context_seq or 0, session_id=self.session_id)
        return (event for page in pages(self._port.ask, question) for event in page.events)

    def hand_over(self, to_agent: str, note: str | None = None) -> HandedOverReply:
        """Pass the session on, with its context and its claims. This one is over then, and `to_agent` opens it."""
        reply = self._port.execute(build.hand_over(self.session_id, to_agent, note, lease_id=self.reply.lease_id))
        self._is_handed_over = True
        self._heart.stop()
        self._authority.end()
        return reply

    def close(self) -> None:
        """End the session and release its claims. The context stays, for the next one with this id."""
        self._heart.stop()
        self._authority.end()
        self._port.execute(CloseSession(session_id=self.session_id, lease_id=self.reply.lease_id))

    def remaining(self) -> float:
        """For how many seconds the session surely lives if no heartbeat gets through any more."""
        return 0.0 if self.lost.is_set() else self._authority.remaining()

    def __enter__(self) -> Self:
        self._heart.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if os.getpid() != self._pid or self._is_handed_over:
            return  # a forked child leaves the block, too; the session is its parent's, or another agent's
        # What the block raised matters more than that its session could not be closed; it expires by itself.
        with suppress(OctoStoreError) if error else nullcontext():
            self.close()

    def _keepalive_command(self) -> KeepSessionAlive:
        return KeepSessionAlive(session_id=self.session_id, lease_id=self.reply.lease_id)

    def _take_reply(self, reply: HeartbeatReply | KeepaliveReply) -> None:
        if isinstance(reply, KeepaliveReply):
            self.stop_requested = reply.stop_requested

    def _lose(self, _why: object) -> None:
        self.lost.set()
        if self._on_lost is not None:
            self._on_lost()

    def _beat(self) -> Any:
        return self._port.submit(self._keepalive_command())
