"""Does a bit of everything, in three threads, as fast as it can, until it is killed.

It reports every reply before the next call: what it reported was acknowledged. The test sets the time: it starts at a
given moment and moves a little with every reading of the clock, so leases expire without a real wait.
"""

import random
import sys
import threading
from itertools import count
from pathlib import Path

import octostore
from octostore.core.replies import ClaimReply
from octostore.stores.clock import Mark
from tests.processes.workers.talk import hear, say
from tests.support.embedded import open_with_clock

THREADS = 3
TICK_MS = 20
TTL = 2


class Mayhem:
    def __init__(self, store: octostore.OctoStore, name: str) -> None:
        self.store = store
        self.name = name
        self.chance = random.Random(name)
        self.numbers = count(1)

    def run(self) -> None:
        while True:
            self.step()

    def step(self) -> None:
        acts = [self.lock, self.lock, self.lock, self.enqueue, self.take_next, self.remember]
        self.chance.choice(acts)()

    def lock(self) -> None:
        self.own(self.store.claim_job(f"lock-{self.chance.randrange(12)}", self.name, ttl=TTL, again=True))

    def take_next(self) -> None:
        self.own(self.store.claim_next(owner=self.name, ttl=TTL))

    def enqueue(self) -> None:
        number = next(self.numbers)
        job_id = f"task/{self.name}-{number}"
        self.store.enqueue("task", {"number": number}, job_id=job_id, max_attempts=1_000)
        self.ack("enqueued", job=job_id, number=number)

    def remember(self) -> None:
        session = self.store.open_session(self.name, ttl=TTL)
        number = next(self.numbers)
        try:
            session.save({"number": number})
            self.ack("saved", session=session.session_id, number=number)
            if self.chance.random() < 0.5:
                session.close()
                self.ack("closed", session=session.session_id)
        except octostore.LeaseLost:
            return

    def own(self, reply: ClaimReply) -> None:
        if reply.status != "claimed" or reply.lease_id is None or reply.job_id is None:
            return
        job_id, lease_id, token = reply.job_id, reply.lease_id, reply.fencing_token
        self.ack("claimed", job=job_id, token=token, owner=self.name, replayed=reply.replayed)
        try:
            for _ in range(self.chance.randrange(4)):
                number = next(self.numbers)
                if self.chance.random() < 0.5:
                    beat = self.store.heartbeat_job(job_id, lease_id, progress=str(number))
                    at_ms = round(beat.expires_at.timestamp() * 1_000) - TTL * 1_000
                    self.ack("heartbeat", job=job_id, token=token, number=number, at_ms=at_ms)
                else:
                    self.store.checkpoint_job(job_id, lease_id, {"token": token, "number": number})
                    self.ack("checkpoint", job=job_id, token=token, number=number)
            self.end(job_id, lease_id, token)
        except octostore.LeaseLost:
            return

    def end(self, job_id: str, lease_id: str, token: int | None) -> None:
        how = self.chance.choice(["released", "done", "failed", "forgotten"])
        number = next(self.numbers)
        if how == "done":
            self.store.release_job(job_id, lease_id, "done", result={"number": number})
        elif how == "failed":
            self.store.release_job(job_id, lease_id, "failed", error=str(number))
        elif how == "released":
            self.store.release_job(job_id, lease_id)
        if how != "forgotten":
            self.ack("ended", job=job_id, token=token, how=how, number=number)

    def ack(self, what: str, **values: object) -> None:
        say({"what": what, "thread": self.name, **values})


def main(path: Path, name: str, start_ms: int) -> None:
    ticks = count(start_ms, TICK_MS)
    say("ready")
    if hear() is None:
        return
    store = open_with_clock(path, lambda last: Mark(max(next(ticks), last.now), "mayhem", 0))
    threads = [threading.Thread(target=Mayhem(store, f"{name}-{n}").run, daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
