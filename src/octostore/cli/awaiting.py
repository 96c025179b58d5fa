"""Somebody at a terminal who waits for a server that does not answer is told so, instead of wondering."""

import threading
import time
import weakref
from datetime import datetime, timedelta
from queue import SimpleQueue

from octostore.cli.console import complain
from octostore.client.http.patience import ANSWER_SECONDS, Patience

AFTER_SECONDS = 1.0
RECENT_SECONDS = 2.0
"""A failure that is longer ago than two attempts are apart has been got over."""
AGAIN_SECONDS = 60.0
"""How often it is said to somebody who goes on calling."""


def tell_of_silence(where: str) -> None:
    """From now on, in this process."""
    Patience.on_new = _Lookout(where).see


class _Lookout:
    """Looks at each call once a second until it is over, in a thread of its own."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._calls: SimpleQueue[tuple[float, weakref.ref[Patience]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._silent_until = 0.0

    def see(self, call: "weakref.ref[Patience]") -> None:
        self._calls.put((time.monotonic() + AFTER_SECONDS, call))
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="octostore-lookout", daemon=True)
            self._thread.start()

    def _look(self) -> None:
        while True:
            due_at, reference = self._calls.get()
            time.sleep(max(0.0, due_at - time.monotonic()))
            call = reference()
            if call is not None:
                self._tell(call)
                self._calls.put((time.monotonic() + AFTER_SECONDS, reference))
            del call  # or it would seem to go on

    def _tell(self, call: Patience) -> None:
        now = time.monotonic()
        problem = _problem(call, now)
        if problem is None or now < self._silent_until:
            return
        self._silent_until = now + AGAIN_SECONDS
        until = max(call.until, now) if call.fault else now - AFTER_SECONDS + ANSWER_SECONDS
        complain(f"octostore: {problem} {self._where}, trying until {moment_in(until - now)}")


def _problem(call: Patience, now: float) -> str | None:
    if call.fault is None:
        return None if call.is_waiting else "no answer yet from"
    return "cannot reach" if now < call.until and now - call.failed_at < RECENT_SECONDS else None


def moment_in(seconds: float) -> str:
    """On the clock of whoever reads it."""
    return f"{datetime.now().astimezone() + timedelta(seconds=seconds):%H:%M:%S}"
