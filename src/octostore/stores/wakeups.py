"""Wake waiters: directly after a commit in this process, and by reading the log after commits in others."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from octostore.core.commands import ClaimJob, ClaimNext, ClaimTask
from octostore.core.errors import Unreachable
from octostore.core.events import LogEntry
from octostore.core.model import Job
from octostore.core.replies import ClaimReply
from octostore.core.session_keys import key_in
from octostore.stores.owners import owners

log = logging.getLogger("octostore.wakeups")

Topic: TypeAlias = tuple[Literal["job", "renewal", "queue", "session", "all"], str]
EVERYTHING: Topic = ("all", "")
Follower: TypeAlias = Callable[[list[LogEntry]], None]


def topics_of_all(entries: Iterable[LogEntry]) -> Iterator[Topic]:
    for entry in entries:
        yield EVERYTHING
        yield from topics_of(entry)
        if entry.session_id is not None:
            yield "session", entry.session_id


def topics_of(subject: LogEntry | Job) -> Iterator[Topic]:
    if subject.job_id is not None:
        yield "job", subject.job_id
    if subject.queue is not None:
        yield "queue", subject.queue


def topics_of_claim(command: object, reply: object = None) -> list[Topic]:
    """The topics to listen to while waiting for this claim to succeed."""
    match command:
        case ClaimTask():
            return [("session", key_in(command)), *(("queue", queue) for queue in command.queues)]
        case ClaimNext():
            return [("queue", command.queue)]
        case ClaimJob() if isinstance(reply, ClaimReply) and reply.queue is not None:
            # It may be waiting for room in its queue.
            return [("job", command.job_id), ("queue", reply.queue)]
        case ClaimJob():
            return [("job", command.job_id)]
        case _:
            return []


class Wakeups:
    """`read_after(seq)` returns the new log entries and the end of the log; with None, only the end.

    `on_foreign_commit` registers a callback for other processes' commits; `poll_seconds` is how often to poll as well.
    """

    def __init__(
        self,
        read_after: Callable[[int | None], tuple[list[LogEntry], int]],
        on_foreign_commit: Callable[[Callable[[], None]], None],
        poll_seconds: Callable[[], float],
    ) -> None:
        self._read_after = read_after
        self._on_foreign_commit = on_foreign_commit
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._bells: dict[Topic, list[Callable[[], None]]] = defaultdict(list)
        self._followers: list[Follower] = []
        self._seen_lock = threading.Lock()
        """Held while followers are called, so that they see everything in order."""
        self._seen_seq = 0
        self._somebody_listens = threading.Event()
        self._look_now = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @contextmanager
    def listening(self, topics: Iterable[Topic], ring: Callable[[], None]) -> Iterator[None]:
        """Call `ring`, from any thread, after each later commit that touches one of `topics`."""
        topics = tuple(topics)
        with self._lock:
            self._begin()
            for topic in topics:
                self._bells[topic].append(ring)
        try:
            yield
        finally:
            with self._lock:
                for topic in topics:
                    self._bells[topic].remove(ring)
                    if not self._bells[topic]:
                        del self._bells[topic]
                self._end()

    @contextmanager
    def following(self, take: Follower) -> Iterator[int]:
        """Call `take` with all new log entries, in order and without gaps, from one thread at a time.

        Yields the seq after which they begin.
        """
        with self._lock, self._seen_lock:
            self._begin()
            self._followers.append(take)
            seq = self._seen_seq
        try:
            yield seq
        finally:
            with self._lock:
                self._followers.remove(take)
                self._end()

    def publish(self, topics: Iterable[Topic]) -> None:
        with self._lock:
            if not self._bells:
                return
            # Each once, and always in the same order: `tests/simulation` replays runs exactly.
            rings = dict.fromkeys(ring for topic in topics for ring in self._bells.get(topic, ()))
        for ring in rings:
            ring()

    def publish_commit(self, entries: list[LogEntry]) -> None:
        """Announce a commit of this process. Entries that directly follow the last seen are not read from the log."""
        if not entries:
            return
        with self._seen_lock:
            if entries[0].seq == self._seen_seq + 1:
                self._see(entries, entries[-1].seq)
            elif self._followers:
                self._look_now.set()  # another process committed in between
        owners.notify(entries)
        self.publish(topics_of_all(entries))

    def close(self) -> None:
        """Wake everyone, to find the store closed."""
        with self._lock:
            self._is_closed = True
            self._somebody_listens.set()
            self._look_now.set()
            rings = dict.fromkeys(ring for rings in self._bells.values() for ring in rings)
        for ring in rings:
            ring()
        thread = self._thread
        if thread is not None and thread.ident is not None and thread is not threading.current_thread():
            thread.join()

    def _begin(self) -> None:
        if not self._somebody_listens.is_set():
            # Read before the listener starts, so that nothing that happens after goes unnoticed.
            _, self._seen_seq = self._read_after(None)
        if self._thread is None or self._thread.ident is None:
            self._thread = threading.Thread(target=self._look, name="octostore-wakeups", daemon=True)
            self._thread.start()
            self._on_foreign_commit(self._look_now.set)
        self._somebody_listens.set()

    def _end(self) -> None:
        if not self._bells and not self._followers and not self._is_closed:
            self._somebody_listens.clear()

    def _see(self, entries: list[LogEntry], last_seq: int) -> None:
        self._seen_seq = last_seq
        if entries:
            for take in self._followers:
                take(entries)

    def _look(self) -> None:
        """Finds the commits of other processes; being woken twice by our own is harmless."""
        while not self._is_closed:
            self._look_now.wait(self._poll_seconds())
            self._look_now.clear()
            self._somebody_listens.wait()
            # If the store cannot be read now, try again: waiters have deadlines of their own.
            try:
                while self._look_at_a_page():
                    pass
            except Unreachable:
                pass
            except Exception:  # this thread is the only one that looks
                log.exception("reading the log failed")

    def _look_at_a_page(self) -> bool:
        """Whether there was anything new: under load there may be more than a page."""
        with self._seen_lock:
            seen_seq = self._seen_seq
        entries, last_seq = self._read_after(seen_seq)
        with self._seen_lock:
            if self._seen_seq != seen_seq:
                return not self._is_closed  # a commit of our own came first; look again
            self._see(entries, last_seq)
        owners.notify(entries)
        self.publish(topics_of_all(entries))
        return bool(entries) and not self._is_closed
