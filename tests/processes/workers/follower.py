"""Follows the log of a store up to the event the test names, and reports the events it saw."""

import sys
import threading

import octostore
from tests.processes.workers.talk import hear, say


class Follower:
    def __init__(self, store: octostore.OctoStore) -> None:
        self.seqs: list[int] = []
        self.last_seq: int | None = None
        self.has_all = threading.Event()
        threading.Thread(target=self.run, args=(store,), daemon=True).start()

    def run(self, store: octostore.OctoStore) -> None:
        for event in store.events(follow=True):
            self.seqs.append(event.seq)
            self.look()

    def look(self) -> None:
        if self.last_seq is not None and self.seqs and self.seqs[-1] >= self.last_seq:
            self.has_all.set()

    def until(self, last_seq: int) -> list[int]:
        self.last_seq = last_seq
        self.look()
        self.has_all.wait()
        return self.seqs


if __name__ == "__main__":
    follower = Follower(octostore.connect(sys.argv[1]))
    say("ready")
    order = hear()
    if order is not None:
        say(follower.until(order["seq"]))
