"""Fifty clients that behave, each with its own connection: they claim, heartbeat, release and follow the log.

They work at their own pace until the test says stop. Then they report their replies, how long each reply took, and
what the followers saw.
"""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

import octostore
from tests.processes.workers.talk import hear, say

CLAIMERS, FOLLOWERS = 40, 10
SHARED = 3
"""Number of jobs that several clients want, so that some must wait."""
TTL = 30
PAUSE_SECONDS = 0.1
METADATA = {"note": "x" * 900}
SAID_AT_ONCE = 500

T = TypeVar("T")


class Claimer:
    def __init__(self, store: octostore.OctoStore, number: int) -> None:
        self.name = f"good-{number}"
        self.acks: list[dict[str, Any]] = []
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self._store = store
        self._is_sharing = number % 4 == 0
        self._job_id = f"shared-{number % SHARED}" if self._is_sharing else f"own/{number}"
        self._numbers = count(1)

    def run(self, stop: threading.Event) -> None:
        while not (stop.wait(PAUSE_SECONDS) and self.acks):  # each gets a turn, however slow the machine
            if self._is_sharing:
                reply = self._store.claim_job(self._job_id, self.name, metadata=METADATA, ttl=TTL, wait=2)
            else:
                reply = self._timed("claim", self._claim)
            if reply.status == "claimed":
                self._own(reply.lease_id or "", reply.fencing_token or 0)

    def _claim(self) -> Any:
        return self._store.claim_job(self._job_id, self.name, metadata=METADATA, ttl=TTL)

    def _own(self, lease_id: str, token: int) -> None:
        job_id = self._job_id
        self._ack("claimed", token, owner=self.name)
        for _ in range(2):
            time.sleep(PAUSE_SECONDS)
            number = next(self._numbers)
            note = str(number)
            beat = self._timed("heartbeat", lambda: self._store.heartbeat_job(job_id, lease_id, progress=note))  # noqa: B023
            self._ack("heartbeat", token, number=number, at_ms=round(beat.expires_at.timestamp() * 1_000) - TTL * 1_000)
        self._timed("release", lambda: self._store.release_job(job_id, lease_id))
        self._ack("ended", token, how="released")

    def _timed(self, what: str, call: Callable[[], T]) -> T:
        began_at = time.perf_counter()
        reply = call()
        self.seconds[what].append(time.perf_counter() - began_at)
        return reply

    def _ack(self, what: str, token: int, **more: object) -> None:
        self.acks.append({"what": what, "thread": self.name, "job": self._job_id, "token": token, **more})


class Follower:
    def __init__(self, store: octostore.OctoStore, after: int) -> None:
        self.seqs: list[int] = []
        self.seconds: list[float] = []
        self._store = store
        self._after = after

    def run(self, _stop: threading.Event) -> None:
        try:
            for event in self._store.events(after=self._after, follow=True):
                self.seqs.append(event.seq)
                self.seconds.append(time.time() - event.at.timestamp())
        except octostore.Unreachable as closed:
            if closed.reason != "closed":
                raise


def main(url: str, after: int) -> None:
    stores = [octostore.connect(url) for _ in range(CLAIMERS + FOLLOWERS)]
    claimers = [Claimer(store, number) for number, store in enumerate(stores[:CLAIMERS])]
    followers = [Follower(store, after) for store in stores[CLAIMERS:]]
    faults: list[str] = []
    stop = threading.Event()
    threads = [threading.Thread(target=_run, args=(one, stop, faults)) for one in (*claimers, *followers)]
    say("ready")
    if hear() is None:
        return
    for thread in threads:
        thread.start()
    hear()
    stop.set()
    for thread in threads[:CLAIMERS]:
        thread.join()
    _let_all_see(max([after, *(ack["token"] for one in claimers for ack in one.acks)]), followers)
    for store in stores:
        store.close()
    for thread in threads:
        thread.join()
    _report(claimers, followers, faults)


def _run(one: Claimer | Follower, stop: threading.Event, faults: list[str]) -> None:
    try:
        one.run(stop)
    except Exception as fault:  # noqa: BLE001  # reported to the test
        faults.append(f"{type(fault).__name__}: {fault}")


def _let_all_see(seq: int, followers: list[Follower]) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not all(one.seqs and one.seqs[-1] >= seq for one in followers):
        time.sleep(0.01)


def _report(claimers: list[Claimer], followers: list[Follower], faults: list[str]) -> None:
    acks = [ack for claimer in claimers for ack in claimer.acks]
    for start in range(0, len(acks), SAID_AT_ONCE):
        say({"acks": acks[start : start + SAID_AT_ONCE]})
    for what in ("claim", "heartbeat", "release"):
        say({"call": what, "seconds": [took for one in claimers for took in one.seconds[what]]})
    say({"call": "event", "seconds": [took for one in followers for took in one.seconds]})
    for follower in followers:
        say({"seqs": [follower.seqs[0], follower.seqs[-1], len(follower.seqs)] if follower.seqs else []})
    for fault in faults:
        say({"fault": fault})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
