"""A worker's session: one heartbeat for any number of claims, and a context that outlives the worker."""

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Any, Self

from octostore.client import requests
from octostore.client.authority import Authority
from octostore.client.heart import Heart
from octostore.client.port import Port
from octostore.core.commands import CloseSession, KeepSessionAlive
from octostore.core.errors import OctoStoreError
from octostore.core.replies import KeepaliveReply, SessionReply


class Session:
    """Keep it alive with `keepalive()`, or use it as a block: that heartbeats by itself and closes it at the end.

    `context` is what was last saved, by this session or by the one it resumes. `lost` is set when the block's
    heartbeats fail for so long that the session, and with it every claim bound to it, may have ended.
    """

    def __init__(
        self, port: Port, reply: SessionReply, asked_at: float, *, on_lost: Callable[[], None] | None = None
    ) -> None:
        self.reply = reply
        self.session_id = reply.session_id
        self.context: Any = reply.context
        self.resumed = reply.resumed
        self.lost = threading.Event()
        self._port = port
        self._authority = Authority()
        self._authority.renew(asked_at, reply.remaining_ms)
        self._on_lost = on_lost
        self._pid = os.getpid()
        self._heart = Heart(self._beat, self._authority, reply.ttl, self._lose)

    def keepalive(self) -> KeepaliveReply:
        """Prove to be alive, for the session and all its claims. Raises `LeaseLost` when it has ended."""
        asked_at = self._authority.now()
        reply = self._port.execute(self._keepalive_command())
        self._authority.renew(asked_at, reply.remaining_ms)
        return reply

    def save(self, context: Any) -> None:
        """Keep `context` (JSON of up to 256 KiB), for this session and whoever resumes it."""
        self._port.execute(requests.save_session(self.session_id, self.reply.lease_id, context))
        self.context = context

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

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            return  # a forked child leaves the block, too; the session is its parent's
        # What the block raised matters more than that its session could not be closed; it expires by itself.
        with suppress(OctoStoreError) if error else nullcontext():
            self.close()

    def _keepalive_command(self) -> KeepSessionAlive:
        return KeepSessionAlive(session_id=self.session_id, lease_id=self.reply.lease_id)

    def _lose(self, _why: object) -> None:
        self.lost.set()
        if self._on_lost is not None:
            self._on_lost()

    def _beat(self) -> Any:
        return self._port.submit(self._keepalive_command())
