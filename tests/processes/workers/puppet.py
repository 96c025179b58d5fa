"""Makes the calls that the test asks for, one at a time: any method of the store, or of `Puppet`."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import apsw
import msgspec

import octostore
from tests.processes.workers.talk import hear, say
from tests.support.embedded import waiting_threads
from tests.support.processes import until


class Puppet:
    def __init__(self, path: str) -> None:
        self.store = octostore.connect(path if "://" in path else f"sqlite:///{path}")
        self.block = ExitStack()
        self.claim: octostore.HeldClaim
        self.blocker: apsw.Connection
        self.following: Iterator[octostore.Event]
        self.path = path
        self.waiting: threading.Thread

    def hold(self, **values: Any) -> dict[str, Any]:
        self.claim = self.block.enter_context(self.store.hold(**values))
        return {"lease_id": self.claim.lease_id, "fencing_token": self.claim.fencing_token}

    def check(self) -> None:
        self.claim.check()

    def leave(self) -> None:
        self.block.close()

    def work(self, how: str, seconds: float) -> None:
        """Work that leaves no time for heartbeats."""
        if how == "blocks":
            time.sleep(seconds)
        else:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                pass

    def lock(self) -> None:
        """Keep everyone else from writing, as a stuck process would."""
        self.blocker = apsw.Connection(self.path)
        self.blocker.set_busy_timeout(10_000)
        self.blocker.execute("BEGIN IMMEDIATE")

    def stored_expiry(self, job_id: str) -> int:
        """In milliseconds; no one can change it while this process has the lock."""
        expires_at: int = self.blocker.execute("SELECT expires_at FROM jobs WHERE job_id = ?", (job_id,)).get
        return expires_at

    def unlock(self) -> None:
        self.blocker.execute("ROLLBACK")

    def wait(self, method: str, **values: Any) -> None:
        """Start a call that has to wait; its reply is reported when it comes."""
        called = getattr(self, method, None) or getattr(self.store, method)
        self.waiting = threading.Thread(target=run_call, args=(called, values))
        self.waiting.start()
        until(lambda: waiting_threads() == 1)

    def follow(self, after: int) -> int:
        self.following = self.store.events(after=after, follow=True)
        return next(self.following).seq

    def next_event(self) -> octostore.Event:
        return next(self.following)


def run_call(method: Any, values: dict[str, Any]) -> None:
    began_at = time.monotonic()
    try:
        reply = method(**values)
    except octostore.OctoStoreError as error:
        said = {"error": type(error).__name__, "text": str(error), **{k: plain(v) for k, v in vars(error).items()}}
    else:
        said = {"reply": plain(reply)}
    say({**said, "began_at": began_at, "at": time.monotonic(), "wall": time.time()})


def plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


if __name__ == "__main__":
    puppet = Puppet(sys.argv[1])
    say("ready")
    while (order := hear()) is not None:
        call = order.pop("call")
        run_call(getattr(puppet, call, None) or getattr(puppet.store, call), order)
