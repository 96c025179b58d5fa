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
"""How long an owner may not know that its job was taken away from it, however long its TTL is."""
TICK_SECONDS = 1.0
"""How long to wait at a time at most: timers stand still while the machine sleeps, and the lease does not."""
RETRY_SECONDS = 0.1

OnLost = Callable[[LeaseLost | NotFound | None], None]
"""Told what the store said; None where it did not answer in time."""
OnAnswer = Callable[[HeartbeatReply | KeepaliveReply], None]
"""Told what the store said to a beat, by the thread of all hearts: it must not wait for anything."""
Beat = Callable[[], "Future[HeartbeatReply] | Future[KeepaliveReply]"]
"""Must not wait for anything."""


class Heartbeater:
    """Calls `beat` in time until it is stopped, or the lease is lost; then `on_lost`, once, in a thread of its own.

    A beat that fails without an answer is tried again, but never past the end of the authority: then the lease counts
    as lost, although the store may still hold it.
    """

    def __init__(
        self, beat: Beat, authority: Authority, ttl: float, on_lost: OnLost, on_answer: OnAnswer | None = None
    ) -> None:
        self._beat: Beat | None = beat
        self._authority = authority
        self._interval = min(ttl / BEATS_PER_TTL, BEAT_MAX_SECONDS)
        self._on_lost: OnLost | None = on_lost
        self._on_answer = on_answer
        self._due_at = 0.0
        self._asked_at = 0.0
        self._answer: Future[HeartbeatReply] | Future[KeepaliveReply] | None = None
        self.fault: BaseException | None = None
        """Why the last beat got no answer; None while they get through."""

    def start(self) -> None:
        self._look_at(self._authority.now() + self._interval)

    def stop(self) -> None:
        """No beat begins after this; `on_lost` is only called if that had begun already."""
        self._beat = None
        # Until it would have been due the pulse knows it, and need not know its claim.
        self._on_lost = self._on_answer = None

    def beat_now(self) -> None:
        """Beat now: there may be something to hear."""
        if self._beat is not None:
            self._look_at(self._authority.now())

    def step(self) -> None:
        """What is due, if anything: a beat, what was answered to it, or to say that the lease is lost."""
        beat = self._beat
        if beat is None or self._authority.now() < self._due_at:
            return
        answer, self._answer = self._answer, None
        if answer is not None and answer.done():
            self._take(answer)
        elif self._authority.remaining() <= 0:
            self._lose(None)
        elif answer is not None:
            self._wait_for(answer)  # it has been renewed in another way meanwhile
        else:
            self._asked_at = self._authority.now()
            try:
                answer = beat()
            except Exception as error:  # noqa: BLE001  # whatever it is, somebody must live to tell that the lease is lost
                answer = Future()
                answer.set_exception(error)
            self._wait_for(answer)
            answer.add_done_callback(self._hurry)

    def _wait_for(self, answer: "Future[HeartbeatReply] | Future[KeepaliveReply]") -> None:
        """Only as long as there is authority left."""
        self._answer = answer
        self._look_at(self._authority.gives_up_at)

    def _hurry(self, _answer: object) -> None:
        self._look_at(self._authority.now())

    def _take(self, answer: "Future[HeartbeatReply] | Future[KeepaliveReply]") -> None:
        error = self.fault = answer.exception()
        if isinstance(error, LeaseLost | NotFound):
            self._lose(error)
        elif error is not None:
            self._look_at(self._asked_at + jittered(RETRY_SECONDS))
        else:
            try:
                reply = answer.result()
                self._authority.renew(self._asked_at, reply.remaining_ms)
                tell = self._on_answer
                if tell is not None:
                    tell(reply)
            finally:
                self._look_at(self._asked_at + self._interval)

    def _look_at(self, moment: float) -> None:
        self._due_at = min(moment, self._authority.gives_up_at)
        _heartbeat_thread.schedule(self, self._due_at)

    def give_up_sooner(self) -> float:
        """When to look again, now that the machine is known to be busier than it was."""
        self._due_at = min(self._due_at, self._authority.gives_up_at)
        return self._due_at

    def _lose(self, why: LeaseLost | NotFound | None) -> None:
        self._beat = None
        threading.Thread(target=self._on_lost, args=(why,), name="octostore-lost", daemon=True).start()


class _HeartbeatThread:
    """Looks after each heart when it is due."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._due: list[tuple[float, int, Heartbeater]] = []
        """A heap. Hearts that were stopped, or looked after meanwhile, are still in it, and find nothing to do."""
        self._numbers = count()
        self._thread: threading.Thread | None = None

    def schedule(self, heart: Heartbeater, due_at: float) -> None:
        with self._news:
            heappush(self._due, (due_at, next(self._numbers), heart))
            if self._thread is None or self._thread.ident is None:  # Ctrl-C may have come before it was started
                self._thread = threading.Thread(target=self._run, name="octostore-heartbeats", daemon=True)
                self._thread.start()
            elif self._due[0][2] is heart:
                self._news.notify()

    def _run(self) -> None:
        while True:
            try:
                self._next().step()
            except Exception:  # somebody else's; the other hearts have to go on
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
            self._due = [(heart.give_up_sooner(), number, heart) for _, number, heart in self._due]
            heapify(self._due)


_heartbeat_thread = _HeartbeatThread()
# The thread of the parent is not in the child of a fork, and neither are its claims.
os.register_at_fork(after_in_child=_heartbeat_thread.__init__)  # type: ignore[misc]
