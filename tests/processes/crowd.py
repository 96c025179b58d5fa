"""Clients at work while something else is killed (`workers/served_mayhem.py`), and the replies they got."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import octostore
from tests.processes.ledger import Ack
from tests.processes.workers.mayhem import THREADS
from tests.support.processes import PATIENCE_SECONDS, Worker


@contextmanager
def at_work(clients: dict[str, tuple[str, str]]) -> Iterator[list[Worker]]:
    """`clients`: for each name, a URL and the kind of client that uses it, `sync` or `async`."""
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker("served_mayhem", *client, name)) for name, client in clients.items()]
        assert [worker.hear() for worker in workers] == ["ready"] * len(workers)
        for worker in workers:
            worker.tell("go")
        yield workers


def threads_of(*names: str) -> set[str]:
    return {f"{name}-{number}" for name in names for number in range(THREADS)}


def stop(workers: list[Worker]) -> list[Ack]:
    """The rest of their output."""
    for worker in workers:
        worker.tell("stop")
    said = [ack for worker in workers for ack in worker.rest()]
    assert [worker.exit_code() for worker in workers] == [0] * len(workers)
    return said


class Follower:
    """Reads the log as it grows, whatever happens to its servers."""

    def __init__(self, store: octostore.OctoStore) -> None:
        self.seqs: list[int] = []
        self.fault: Exception | None = None
        self._events = store.events(follow=True)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            for event in self._events:
                self.seqs.append(event.seq)
        except octostore.OctoStoreError as fault:
            self.fault = fault

    def end(self) -> None:
        """Call it after the store was closed, which ends the iteration."""
        self._thread.join(PATIENCE_SECONDS)
        assert isinstance(self.fault, octostore.Unreachable)
        assert self.fault.reason == "closed", self.fault


def listen(workers: list[Worker], seconds: float = 0) -> list[Ack]:
    """The replies they got within `seconds`."""
    until_then = time.monotonic() + seconds
    heard: list[Ack] = []
    while True:
        heard += [said for worker in workers for said in worker.said()]
        left = until_then - time.monotonic()
        if left <= 0:
            return heard
        time.sleep(min(left, 0.02))  # their pipes hold more than they can write in this time


def listen_for(workers: list[Worker], field: str, values: set[str]) -> list[Ack]:
    """Listen until there has been a reply with each of these values: a `thread` has come back, or a `what` happened."""
    heard: list[Ack] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while missing := values - {ack[field] for ack in acknowledged(heard)}:
        assert time.monotonic() < deadline, missing
        if news := listen(workers, 0.05):
            heard += news
            deadline = time.monotonic() + PATIENCE_SECONDS
    return heard


def acknowledged(acks: list[Ack]) -> list[Ack]:
    return [ack for ack in acks if ack["what"] not in {"took_long", "given_up"}]
