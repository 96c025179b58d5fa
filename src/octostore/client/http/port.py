"""A server as a port, for threads."""

import http.client
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec

from octostore.client.http.answers import OK, TryAgain, not_reached, read_answer
from octostore.client.http.calls import HttpCall, call_of, event_from, events_path
from octostore.client.http.connections import Connections
from octostore.client.http.patience import (
    ANSWER_SECONDS,
    BEAT_SECONDS,
    FOLLOW_GIVE_UP_SECONDS,
    GIVE_UP_SECONDS,
    POLL_SECONDS,
    STREAM_SECONDS,
    Patience,
)
from octostore.client.http.server_url import ServerUrl
from octostore.client.http.sse import FrameReader
from octostore.client.port import is_worth_waiting
from octostore.core.commands import Command, R_co
from octostore.core.errors import Unreachable
from octostore.core.events import Event
from octostore.core.limits import WAIT_MAX_SECONDS, check_range
from octostore.core.questions import ListEvents, Question

BEATING_THREADS = 32
STREAM_HEADERS = {"Accept": "text/event-stream"}


class HttpPort:
    def __init__(self, place: ServerUrl, token: str) -> None:
        self._connections = Connections(place, token)
        self._where = place.origin
        self._beating: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._is_closed = threading.Event()

    def submit(self, command: Command[R_co]) -> "Future[R_co]":
        """One attempt, in another thread; whoever asks repeats it if need be."""
        call = call_of(command)
        with self._lock:
            self._check_open()
            if self._beating is None or self._pid != os.getpid():  # after a fork its threads are not there
                self._beating = ThreadPoolExecutor(BEATING_THREADS, thread_name_prefix="octostore-http")
                self._pid = os.getpid()
            return self._beating.submit(self._attempt, call)

    def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        check_range("wait", wait, 0, WAIT_MAX_SECONDS)
        deadline = time.monotonic() + wait
        while True:
            left = max(0.0, deadline - time.monotonic())
            poll = min(left, POLL_SECONDS)
            reply: R_co = self._persist(call_of(command, poll), poll)
            if left <= POLL_SECONDS or not is_worth_waiting(reply):
                return reply

    def ask(self, question: Question[R_co]) -> R_co:
        reply: R_co = self._persist(call_of(question))
        return reply

    def follow(self, question: ListEvents) -> Iterator[Event]:
        patience = Patience(FOLLOW_GIVE_UP_SECONDS)
        while True:
            try:
                for event in self._stream(question):
                    yield event
                    question = msgspec.structs.replace(question, after=event.seq)
                    patience = Patience(FOLLOW_GIVE_UP_SECONDS)
            except TryAgain as failed:
                self._is_closed.wait(patience.after(failed))
                self._check_open()

    def close(self) -> None:
        self._is_closed.set()
        self._connections.close()
        if self._beating is not None:
            self._beating.shutdown(wait=False)

    def _attempt(self, call: HttpCall) -> Any:
        try:
            return self._once(call, BEAT_SECONDS)
        except TryAgain as failed:
            raise failed.fault from None

    def _persist(self, call: HttpCall, wait: float = 0) -> Any:
        patience = Patience(GIVE_UP_SECONDS + wait)
        while True:
            self._check_open()
            try:
                return self._once(call, ANSWER_SECONDS + wait)
            except TryAgain as failed:
                self._is_closed.wait(patience.after(failed))

    def _once(self, call: HttpCall, seconds: float) -> Any:
        status, body = self._connections.call(call.method, call.path, call.body, seconds)
        return read_answer(call, self._where, status, body)

    def _stream(self, question: ListEvents) -> Iterator[Event]:
        """Until the server ends it, or the connection breaks: raises `TryAgain` in any case."""
        frames = FrameReader()
        with self._connections.stream(events_path(question), STREAM_HEADERS, STREAM_SECONDS) as response:
            if response.status not in OK:
                read_answer(call_of(question), self._where, response.status, response.read())
            try:
                while line := response.readline():
                    for data in frames.feed(line):
                        yield event_from(data)
            except (OSError, http.client.HTTPException) as error:
                raise not_reached(self._where, error) from None
        raise not_reached(self._where, EOFError("the stream has ended"))

    def _check_open(self) -> None:
        if self._is_closed.is_set():
            raise Unreachable("this store has been closed", reason="closed")
