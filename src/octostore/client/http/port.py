"""A port to a server, for threads."""

import math
import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from octostore.client.http.calls import OK, HttpCall, call_of
from octostore.client.http.connections import Connections
from octostore.client.http.numbers import Numbers
from octostore.client.http.responses import check_is_stream, connection_failed, read_event, read_response
from octostore.client.http.retry_budget import (
    BEAT_SECONDS,
    FOLLOW_GIVE_UP_SECONDS,
    GIVE_UP_SECONDS,
    POLL_SECONDS,
    RESPONSE_SECONDS,
    STREAM_SECONDS,
    RetryBudget,
    time_left,
)
from octostore.client.http.server_url import ServerUrl
from octostore.client.http.sse import FrameReader
from octostore.core.commands import Batch, Command, R_co
from octostore.core.errors import InvalidInput, OctoStoreError, Unreachable
from octostore.core.events import Event
from octostore.core.questions import ListEvents, Question
from octostore.core.waiting import is_worth_waiting
from octostore.stores.base import OnStep, TryAgain
from octostore.stores.owners import owners

if TYPE_CHECKING:
    from octostore.client.spans import Spans

BEATING_THREADS = 32
STREAM_HEADERS = {"Accept": "text/event-stream"}


class HttpPort:
    spans: "Spans | None" = None

    def __init__(self, server_url: ServerUrl, token: str) -> None:
        self._connections = Connections(server_url, token)
        self._origin = server_url.origin
        self._beating: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self.numbers = Numbers()
        _ports.add(self)

    def submit(self, command: Command[R_co]) -> "Future[R_co]":
        """Make one attempt, in another thread. The caller repeats it if necessary."""
        call = call_of(command)
        with self._lock:
            self._check_open()
            if self._beating is None:
                self._beating = ThreadPoolExecutor(BEATING_THREADS, thread_name_prefix="octostore-http")
            return self._beating.submit(self._attempt, call)

    def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        deadline = time.monotonic() + wait
        while True:
            poll_until = min(deadline, time.monotonic() + POLL_SECONDS)
            reply: R_co = self._retry(command, poll_until)
            if poll_until >= deadline or not is_worth_waiting(command, reply):
                return reply

    def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        if len(commands) <= 1:
            return [self._reply_or_error(command) for command in commands]
        numbered = [self.numbers.number(command) for command in commands]
        try:
            replies = self._retry(Batch(numbered, atomic))
        except OctoStoreError as fault:
            return [fault] * len(commands)
        return [self._unless_overtaken(*one) for one in zip(numbered, replies, strict=True)]

    def ask(self, question: Question[R_co]) -> R_co:
        reply: R_co = self._retry(question)
        return reply

    def follow(self, question: ListEvents, wait: float = math.inf) -> Iterator[Event]:
        budget: RetryBudget | None = None
        deadline = time.monotonic() + wait
        while time_left(deadline):
            try:
                for event in self._stream(question, deadline):
                    budget = None
                    if event is not None:
                        owners.notify([event])
                        yield event
                        question = msgspec.structs.replace(question, after=event.seq)
            except TryAgain as failed:
                if time_left(deadline):
                    budget = budget or RetryBudget(FOLLOW_GIVE_UP_SECONDS)
                    self._pause(budget, failed)

    def back_up(self, _copy: str, _on_step: OnStep | None) -> int:
        raise InvalidInput("url", "names a server; run the backup on the server's machine, with --url sqlite:///FILE")

    def close(self) -> None:
        self._is_closed.set()
        self._connections.close()
        with self._lock:
            if self._beating is not None:
                self._beating.shutdown(wait=False)

    def reset_after_fork(self) -> None:
        """In a forked child: the parent's threads do not exist here, and their calls are the parent's."""
        is_closed = self._is_closed.is_set()
        self._beating = None
        self._lock = threading.Lock()
        self.numbers = Numbers()
        self._is_closed = threading.Event()
        if is_closed:
            self._is_closed.set()
        self._connections.reset_after_fork()

    def _attempt(self, call: HttpCall) -> Any:
        try:
            return self._once(call, BEAT_SECONDS)
        except TryAgain as failed:
            raise failed.fault from None

    def _retry(self, asked: Command[Any] | Question[Any] | Batch, wait_until: float = 0) -> Any:
        """Repeat until there is a response or time is up. A repeated wait only lasts for the rest of it."""
        budget = RetryBudget(GIVE_UP_SECONDS, time_left(wait_until))
        self._check_open()
        numbered = self.numbers.number(asked)
        while True:
            wait = time_left(wait_until)
            call = call_of(numbered, wait)
            try:
                reply = self._once(call, RESPONSE_SECONDS + wait, is_waiting=wait > 0)
            except TryAgain as failed:
                self._pause(budget, failed, call)
                continue
            overtaken = None if numbered is asked else self.numbers.overtaken(numbered, reply)
            if overtaken is None:
                return reply
            numbered = overtaken

    def _unless_overtaken(self, command: Command[Any], reply: Any) -> Any:
        newer = self.numbers.overtaken(command, reply)
        return reply if newer is None else self._reply_or_error(newer)

    def _reply_or_error(self, command: Command[Any]) -> Any:
        try:
            return self.execute(command)
        except OctoStoreError as refusal:
            return refusal

    def _once(self, call: HttpCall, seconds: float, *, is_waiting: bool = False) -> Any:
        response, body = self._connections.call(
            call.method, call.path, call.body, seconds, headers=call.headers, is_waiting=is_waiting
        )
        return read_response(call, self._origin, response.status, body, response.headers.get("retry-after"))

    def _stream(self, question: ListEvents, deadline: float) -> Iterator[Event | None]:
        """None is a keep-alive. Raises `TryAgain` when the server ends it, the connection breaks, or time is up."""
        frames = FrameReader()
        call = call_of(question)
        silence = min(STREAM_SECONDS, time_left(deadline))
        with self._connections.stream(call.path, STREAM_HEADERS, silence) as response:
            if response.status not in OK:
                read_response(call, self._origin, response.status, response.read(), response.headers.get("retry-after"))
            check_is_stream(self._origin, response.status, response.headers.get("content-type"))
            for part in response.parts():
                for data in frames.feed(part):
                    yield read_event(self._origin, data) if data else None
                response.limit_silence(min(STREAM_SECONDS, time_left(deadline)))
        raise connection_failed(self._origin, EOFError("the stream has ended"))

    def _pause(self, budget: RetryBudget, failed: TryAgain, call: HttpCall | None = None) -> None:
        self._check_open()
        self._is_closed.wait(budget.pause_after(failed, call))
        self._check_open()

    def _check_open(self) -> None:
        if self._is_closed.is_set():
            raise Unreachable("this store has been closed", reason="closed")


_ports: "weakref.WeakSet[HttpPort]" = weakref.WeakSet()


def _reset_all_after_fork() -> None:
    for port in list(_ports):
        port.reset_after_fork()


os.register_at_fork(after_in_child=_reset_all_after_fork)
