"""Does a bit of everything on any store, in three threads, until the test says stop.

A server may go away at any moment: a thread whose call fails simply goes on. Slow calls and calls that gave up are
reported too.
"""

import sys
import threading
import time
from typing import Any

import octostore
from tests.processes.workers.mayhem import THREADS, Mayhem
from tests.processes.workers.talk import hear, say
from tests.support.async_as_sync import Loop, StoreAsSync

LONG_SECONDS = 0.02


class ServedMayhem(Mayhem):
    def __init__(self, store: octostore.OctoStore, name: str, stop: threading.Event) -> None:
        super().__init__(store, name)
        self.stop = stop

    def run(self) -> None:
        while not self.stop.is_set():
            began_at = time.monotonic()
            try:
                self.step()
            except octostore.Unreachable as fault:
                self.ack("given_up", reason=fault.reason, text=str(fault))
            took = time.monotonic() - began_at
            if took > LONG_SECONDS:
                self.ack("took_long", seconds=took)

    def ack(self, what: str, **values: object) -> None:
        super().ack(what, **values, at=time.monotonic())


def connect(url: str, kind: str) -> Any:
    if kind == "sync":
        return octostore.connect(url)
    loop = Loop()
    return StoreAsSync(loop, loop.run(octostore.connect_async(url)))


def main(url: str, kind: str, name: str) -> None:
    store, stop = connect(url, kind), threading.Event()
    threads = [threading.Thread(target=ServedMayhem(store, f"{name}-{n}", stop).run) for n in range(THREADS)]
    say("ready")
    if hear() is None:
        return
    for thread in threads:
        thread.start()
    hear()
    stop.set()
    for thread in threads:
        thread.join()
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
