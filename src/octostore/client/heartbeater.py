"""Heartbeats from a thread that the work cannot block: one for all claims and sessions of the process."""

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from heapq import heapify, heappop, heappush
from itertools import count

from octostore.client.authority import Authority
from octostore.client.lateness import own_lateness
from octostore.core.beats import BEATS_PER_TTL
from octostore.core.errors import LeaseLost, NotFound
from octostore.core.replies import HeartbeatReply, KeepaliveReply
from octostore.stores.clock import boottime
from octostore.stores.pausing import jittered

log = logging.getLogger("octostore.heartbeats")

BEAT_MAX_SECONDS = 10.0
"""The longest interval, however long the TTL: an owner should soon learn that its job was taken away."""
TICK_SECONDS = 1.0
"""The longest single wait: timers stop while the machine sleeps, but leases keep running."""
RETRY_SECONDS = 0.1

OnLost = Callable[[LeaseLost | NotFound | None], None]
"""Called with the store's error, or None if there was no reply in time."""
OnReply = Callable[[HeartbeatReply | KeepaliveReply], None]
"""Called with each reply, by the thread that sends all heartbeats, so the callback must not block."""
Beat = Callable[[], "Future[HeartbeatReply] | Future[KeepaliveReply]"]
"""Must not block."""


class Heartbeater:
    """Calls `beat` in time until it is stopped or the lease is lost; then `on_lost`, once, in another thread.

    A heartbeat without a reply is retried, but never past the end of the authority: then the lease counts
    as lost, although the store may still hold it.
    """

    def __init__(
        self, beat: Beat, authority: Authority, ttl: float, on_lost: OnLost, on_reply: OnReply | None = None
    ) -> None:
        self._beat: Beat | None = beat
        self._authority = authority
        self._interval = min(ttl / BEATS_PER_TTL, BEAT_MAX_SECONDS)
        self._on_lost: OnLost | None = on_lost
        self._on_reply = on_reply
        self._losing = threading.Lock()
        self._due_at = 0.0
        self._asked_at = 0.0
        self._pending: Future[HeartbeatReply] | Future[KeepaliveReply] | None = None
        self.fault: BaseException | None = None
        """Why the last heartbeat got no reply; None while heartbeats get through."""

    def start(self) -> None:
        self._schedule(self._authority.now() + self._interval)

    def stop(self) -> None:
        """Start no heartbeat after this. `on_lost` is only called if it was already under way."""
        self._beat = None
        # The thread keeps this object until it would be due. It need not keep the claim.
        self._on_lost = self._on_reply = None

    def beat_now(self) -> None:
        """Send a heartbeat now: the reply may have news."""
        if self._beat is not None:
            self._schedule(self._authority.now())

    def lose(self, why: LeaseLost | NotFound | None) -> None:
        """Report that the lease is lost. For callers whose own write was refused, too."""
        with self._losing:
            on_lost, self._beat, self._on_lost = self._on_lost, None, None
        if on_lost is not None:
            threading.Thread(target=on_lost, args=(why,), name="octostore-lost", daemon=True).start()

    def step(self) -> None:
        """Do what is due: send a heartbeat, handle its reply, or report that the lease is lost."""
        beat = self._beat
        if beat is None or self._authority.now() < self._due_at:
            return
        pending, self._pending = self._pending, None
        if pending is not None and pending.done():
            self._take(pending)
        elif self._authority.remaining() <= 0:
            self.lose(None)
        elif pending is not None:
            self._wait_for(pending)  # the lease has been renewed in another way
        else:
            self._asked_at = self._authority.now()
            try:
                pending = beat()
            except Exception as error:  # noqa: BLE001  # this thread must survive, to report lost leases
                pending = Future()
                pending.set_exception(error)
            self._wait_for(pending)
            pending.add_done_callback(self._hurry)

    def _wait_for(self, pending: "Future[HeartbeatReply] | Future[KeepaliveReply]") -> None:
        """But no longer than the authority lasts."""
        self._pending = pending
        self._schedule(self._authority.deadline)

    def _hurry(self, _future: object) -> None:
        self._schedule(self._authority.now())

    def _take(self, pending: "Future[HeartbeatReply] | Future[KeepaliveReply]") -> None:
        error = self.fault = pending.exception()
        if isinstance(error, LeaseLost | NotFound):
            self.lose(error)
        elif error is not None:
            self._schedule(self._asked_at + jittered(RETRY_SECONDS))
        else:
            try:
                reply = pending.result()
                self._authority.renew(self._asked_at, reply.remaining_ms)
                on_reply = self._on_reply
                if on_reply is not None:
                    on_reply(reply)
            finally:
                self._schedule(self._asked_at + self._interval)

    def _schedule(self, moment: float) -> None:
        self._due_at = min(moment, self._authority.deadline)
        _heartbeat_thread.schedule(self, self._due_at)

    def give_up_sooner(self) -> float:
        """Return when this is due, now that the machine is known to be busier."""
        self._due_at = min(self._due_at, self._authority.deadline)
        return self._due_at


class _HeartbeatThread:
    """Steps each heartbeater when it is due."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._due: list[tuple[float, int, Heartbeater]] = []
        """A heap. Stopped heartbeaters and outdated entries stay in it until they are due, and then do nothing."""
        self._numbers = count()
        self._thread: threading.Thread | None = None

    def schedule(self, heartbeater: Heartbeater, due_at: float) -> None:
        with self._news:
            heappush(self._due, (due_at, next(self._numbers), heartbeater))
            if self._thread is None or self._thread.ident is None:  # Ctrl-C may have interrupted its start
                self._thread = threading.Thread(target=self._run, name="octostore-heartbeats", daemon=True)
                self._thread.start()
            elif self._due[0][2] is heartbeater:
                self._news.notify()

    def _run(self) -> None:
        while True:
            try:
                self._next().step()
            except Exception:  # from a callback; the other leases still need their heartbeats
                log.exception("a heartbeat failed")

    def _next(self) -> Heartbeater:
        with self._news:
            while True:
                pause = self._due[0][0] - boottime() if self._due else TICK_SECONDS
                if pause <= 0:
                    return heappop(self._due)[2]
                self._wait(min(pause, TICK_SECONDS) if self._due else None)

    def _wait(self, seconds: float | None) -> None:
        due_at = boottime() + (seconds or 0)
        if not self._news.wait(seconds) and own_lateness.note(due_at, boottime()):
            self._due = [(one.give_up_sooner(), number, one) for _, number, one in self._due]
            heapify(self._due)


_heartbeat_thread = _HeartbeatThread()
# The parent's thread does not exist in a forked child, and its claims are not the child's.
os.register_at_fork(after_in_child=_heartbeat_thread.__init__)  # type: ignore[misc]
