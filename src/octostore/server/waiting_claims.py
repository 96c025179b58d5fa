"""Claims that wait for a job, in order of arrival, without using a thread or a database connection."""

import asyncio
import bisect
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count, islice
from typing import Any, NamedTuple, TypeAlias

from octostore.core.commands import ClaimJob, ClaimNext, ClaimTask, Command
from octostore.core.replies import ClaimReply
from octostore.core.session_keys import key_in
from octostore.core.undo import undo_of
from octostore.core.waiting import is_worth_waiting
from octostore.server.http import ClientDisconnected, Request
from octostore.server.store import ServedStore
from octostore.stores.batch import ReplyOrError
from octostore.stores.loop_flag import LoopFlag
from octostore.stores.wakeups import Topic, topics_of_claim
from octostore.stores.writer import MAX_BATCH

POSITION_KEPT_SECONDS = 5
"""How long a position in line is kept after a wait times out, for a repeat with the same request id."""

ClaimCommand: TypeAlias = ClaimJob | ClaimNext | ClaimTask
_Key: TypeAlias = tuple[object, ...]


class _Waiter:
    def __init__(self, command: ClaimCommand, deadline: float) -> None:
        self.command = command
        self.deadline = deadline
        self.arrival = 0
        self.has_been_tried = False
        self.is_for_session = isinstance(command, ClaimTask)
        self.reply: asyncio.Future[ReplyOrError] = asyncio.get_running_loop().create_future()
        self.request: _Key = (command.principal, command.request_id, *_key(command)) if command.request_id else ()
        """Identifies repeats of the same call; empty without a request id."""


class _KeptPosition(NamedTuple):
    arrival: int
    until: float


class WaitingClaims:
    def __init__(self, store: ServedStore) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._lines: dict[_Key, _WaitLine] = {}
        self._arrivals = count(1)
        self._kept_positions: dict[_Key, _KeptPosition] = {}
        self._is_stopping = False

    async def claim(self, command: ClaimCommand, wait: float, request: Request) -> ClaimReply:
        """Claim within `wait` seconds. If it raises `ClientDisconnected`, the claim is undone."""
        waiter = _Waiter(command, self._loop.time() + wait)
        try:
            return await self._wait(waiter, request.disconnected())
        finally:
            self._keep_position(waiter)

    def stop(self) -> None:
        """Reply to all waiting claims now."""
        self._is_stopping = True
        for line in self._lines.values():
            line.end_waits()

    def recheck_tokens(self, token_ids: set[str]) -> None:
        """Try the claims made with these tokens again: the store refuses them if the token is no longer valid."""
        for line in self._lines.values():
            line.recheck_tokens(token_ids)

    @property
    def waiting(self) -> int:
        return sum(len(line.waiters) for line in self._lines.values())

    async def _wait(self, waiter: _Waiter, disconnected: "asyncio.Future[None]") -> ClaimReply:
        command, key = waiter.command, _key(waiter.command)
        topics = topics_of_claim(command)
        if key not in self._lines:
            (reply,) = await asyncio.shield(self._store.submit([command]))
            if not is_worth_waiting(command, reply):
                waiter.reply.set_result(reply)
                return self._reply_or_raise(waiter, disconnected)
            waiter.has_been_tried = True
            topics = topics_of_claim(command, reply)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _WaitLine(self._store, topics, on_end=partial(self._lines.pop, key))
        waiter.arrival = self._position(waiter)
        line.join(waiter)
        if self._is_stopping:
            line.end_waits()
        try:
            await asyncio.wait((waiter.reply, disconnected), return_when=asyncio.FIRST_COMPLETED)
        finally:
            line.leave(waiter)
        return self._reply_or_raise(waiter, disconnected)

    def _reply_or_raise(self, waiter: _Waiter, disconnected: "asyncio.Future[None]") -> ClaimReply:
        if disconnected.done():
            waiter.reply.add_done_callback(lambda reply: self.undo(waiter.command, reply.result()))
            raise ClientDisconnected
        reply = waiter.reply.result()
        if isinstance(reply, Exception):
            raise reply
        claim: ClaimReply = reply
        return claim

    def undo(self, command: Command[Any], reply: ReplyOrError) -> None:
        """Undo a claim whose response nobody will receive. Otherwise it would block the job until it expires.

        The store decides: a repeat of the same request may have got its reply, here or by another server.
        """
        undo = undo_of(reply, command.principal)
        if undo is not None:
            self._store.submit([undo])

    # Positions kept for repeated calls

    def _position(self, waiter: _Waiter) -> int:
        now = self._loop.time()
        while self._kept_positions and next(iter(self._kept_positions.values())).until <= now:  # oldest first
            del self._kept_positions[next(iter(self._kept_positions))]
        known = self._kept_positions.pop(waiter.request, None) if waiter.request else None
        return known.arrival if known else next(self._arrivals)

    def _keep_position(self, waiter: _Waiter) -> None:
        now = self._loop.time()
        if waiter.request and waiter.arrival and now >= waiter.deadline:
            self._kept_positions.pop(waiter.request, None)
            self._kept_positions[waiter.request] = _KeptPosition(waiter.arrival, now + POSITION_KEPT_SECONDS)


class _WaitLine:
    """The claims waiting for the same job, or the next one in the same queue. Only the first in line is tried."""

    def __init__(self, store: ServedStore, topics: list[Topic], on_end: Callable[[], object]) -> None:
        self.waiters: list[_Waiter] = []
        self._store = store
        self._wakeup = LoopFlag()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._serve(topics, on_end))

    def join(self, waiter: _Waiter) -> None:
        bisect.insort(self.waiters, waiter, key=lambda other: other.arrival)
        self._wakeup.event.set()

    def leave(self, waiter: _Waiter) -> None:
        """A claim that is being tried right now may still get its reply."""
        if waiter in self.waiters:
            self.waiters.remove(waiter)
            self._wakeup.event.set()

    def end_waits(self) -> None:
        for waiter in self.waiters:
            waiter.deadline = 0
        self._wakeup.event.set()

    def recheck_tokens(self, token_ids: set[str]) -> None:
        for waiter in self.waiters:
            permit = waiter.command.permit
            if permit is not None and permit.token_id in token_ids:
                waiter.has_been_tried = False
                self._wakeup.event.set()

    async def _serve(self, topics: list[Topic], on_end: Callable[[], object]) -> None:
        try:
            with self._store.local.listening(topics, self._wakeup.set):
                while self.waiters:
                    self._wakeup.event.clear()
                    pause = await self._try()
                    if pause > 0:
                        with suppress(TimeoutError):
                            await asyncio.wait_for(self._wakeup.event.wait(), pause)
        except Exception as fault:  # noqa: BLE001  # whatever it is, the waiting callers must get it
            for waiter in self.waiters:
                _complete(waiter, fault)
        finally:
            on_end()

    def _to_try(self, now: float) -> list[_Waiter]:
        others = (w for w in self.waiters[1:] if w.deadline <= now or not w.has_been_tried or w.is_for_session)
        tried = [self.waiters[0], *islice(others, MAX_BATCH)]
        # A queue may have several jobs. They belong to those further ahead in line.
        ahead = self.waiters.index(tried[-1]) + 1
        return self.waiters[:ahead] if isinstance(tried[0].command, ClaimNext) and ahead <= MAX_BATCH else tried

    async def _try(self) -> float:
        """Try the first in line, then those that just arrived or whose wait is over.

        All in one transaction, so that nobody jumps the line. New arrivals are tried because they may repeat a call
        that already succeeded; those waiting for a session because it may have been handed over to any of them. Returns
        how long to wait before the next try.
        """
        first = self.waiters[0]
        now = self._loop.time()
        tried = self._to_try(now)
        for waiter in tried:
            waiter.has_been_tried = True
        replies = await self._store.submit([waiter.command for waiter in tried])
        for waiter, reply in zip(tried, replies, strict=True):
            if waiter.deadline <= now or not is_worth_waiting(waiter.command, reply):
                self._finish(waiter, reply)
        if getattr(replies[0], "all_done", None):
            # This holds for all who wait for the same jobs, so they need not be tried.
            for waiter in [w for w in self.waiters if not is_worth_waiting(w.command, replies[0])]:
                self._finish(waiter, replies[0])
        if self.waiters[:1] != [first]:
            return 0
        until_deadline = min(waiter.deadline for waiter in self.waiters) - self._loop.time()
        # One millisecond more, to be past that time and not at it.
        return max(0.001, min(until_deadline, ((replies[0].retry_after_ms or 0) + 1) / 1_000))

    def _finish(self, waiter: _Waiter, reply: ReplyOrError) -> None:
        if waiter in self.waiters:
            self.waiters.remove(waiter)
        _complete(waiter, reply)


def _complete(waiter: _Waiter, reply: ReplyOrError) -> None:
    if not waiter.reply.done():
        waiter.reply.set_result(reply)


def _key(command: ClaimCommand) -> _Key:
    match command:
        case ClaimJob():
            return "job", command.job_id
        case ClaimNext():
            return "queue", command.queue, command.kinds, command.prefix
        case ClaimTask():
            return "session", key_in(command), command.queues, command.kinds, command.prefix
