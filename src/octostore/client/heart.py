"""Heartbeats from a thread that the work cannot block."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future

from octostore.client.authority import Authority
from octostore.core.errors import LeaseLost, NotFound
from octostore.core.replies import HeartbeatReply, KeepaliveReply

BEATS_PER_TTL = 3
BEAT_MAX_SECONDS = 10.0
"""How long an owner may not know that its job was taken away from it, however long its TTL is."""
TICK_SECONDS = 1.0
"""How long to wait at a time at most: timers stand still while the machine sleeps, and the lease does not."""
RETRY_SECONDS = 0.1

OnLost = Callable[[LeaseLost | NotFound | None], None]
"""Told what the store said; None where it did not answer in time."""
Beat = Callable[[], "Future[HeartbeatReply] | Future[KeepaliveReply]"]


class Heart:
    """Calls `beat` in time until it is stopped, or the lease is lost; then `on_lost`, once.

    A beat that fails without an answer is tried again, but never past the end of the authority: then the lease counts
    as lost, although the store may still hold it.
    """

    def __init__(self, beat: Beat, authority: Authority, ttl: float, on_lost: OnLost) -> None:
        self._beat = beat
        self._authority = authority
        self._interval = min(ttl / BEATS_PER_TTL, BEAT_MAX_SECONDS)
        self._on_lost = on_lost
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="octostore-heart", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No beat begins after this; `on_lost` is only called if that had begun already."""
        self._stopped.set()

    def _run(self) -> None:
        next_beat_at = self._authority.now() + self._interval
        why: LeaseLost | NotFound | None = None
        while True:
            pause = min(next_beat_at - self._authority.now(), self._authority.remaining(), TICK_SECONDS)
            if self._stopped.wait(max(0.0, pause)):
                return
            if self._authority.remaining() <= 0:
                break
            if self._authority.now() >= next_beat_at:
                try:
                    next_beat_at = self._beat_once()
                except (LeaseLost, NotFound) as error:
                    why = error
                    break
        if not self._stopped.is_set():
            self._on_lost(why)

    def _beat_once(self) -> float:
        """When the next beat is due."""
        asked_at = self._authority.now()
        try:
            # Waited for only as long as there is authority left; the loop then finds that there is none.
            reply = self._beat().result(timeout=self._authority.remaining())
        except (LeaseLost, NotFound):
            raise
        except Exception:  # noqa: BLE001  # whatever it is, the heart must live to tell that the lease is lost
            return asked_at + RETRY_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311  # spreads load, guards nothing
        self._authority.renew(asked_at, reply.remaining_ms)
        return asked_at + self._interval
