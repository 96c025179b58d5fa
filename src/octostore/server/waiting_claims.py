"""Claims that wait: in the order of their arrival, and without a thread or a connection to the database."""

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
"""How long somebody whose wait has run out may come back to the same place in the line, with the same request id."""

ClaimCommand: TypeAlias = ClaimJob | ClaimNext | ClaimTask
_Key: TypeAlias = tuple[object, ...]


class _Waiter:
    def __init__(self, command: ClaimCommand, deadline: float) -> None:
        self.command = command
        self.deadline = deadline
        self.arrival = 0
        self.has_been_tried = False
        self.is_for_session = isinstance(command, ClaimTask)
        self.answer: asyncio.Future[ReplyOrError] = asyncio.get_running_loop().create_future()
        self.request: _Key = (command.principal, command.request_id, *_key(command)) if command.request_id else ()
        """What it has in common with a repetition of the same call, and with nothing else; empty without an id."""


class _KeptPosition(NamedTuple):
    arrival: int
    until: float


class WaitingClaims:
    def __init__(self, store: ServedStore) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._lines: dict[_Key, _WaitLine] = {}
        self._arrivals = count(1)
        self._places: dict[_Key, _KeptPosition] = {}
        self._is_stopping = False

    async def claim(self, command: ClaimCommand, wait: float, request: Request) -> ClaimReply:
        """Claim within `wait` seconds. Raises `ClientDisconnected`, and then the job is nobody's on this account."""
        waiter = _Waiter(command, self._loop.time() + wait)
        try:
            return await self._wait(waiter, request.disconnected())
        finally:
            self._keep_place(waiter)

    def stop(self) -> None:
        """Whoever waits gets an answer now."""
        self._is_stopping = True
        for line in self._lines.values():
            line.hurry()

    def try_again(self, token_ids: set[str]) -> None:
        """Those who came with one of these tokens: if it is over, the store says so."""
        for line in self._lines.values():
            line.try_again(token_ids)

    @property
    def waiting(self) -> int:
        return sum(len(line.waiters) for line in self._lines.values())

    async def _wait(self, waiter: _Waiter, gone: "asyncio.Future[None]") -> ClaimReply:
        command, key = waiter.command, _key(waiter.command)
        topics = topics_of_claim(command)
        if key not in self._lines:
            (reply,) = await asyncio.shield(self._store.submit([command]))
            if not is_worth_waiting(command, reply):
                waiter.answer.set_result(reply)
                return self._answer(waiter, gone)
            waiter.has_been_tried = True
            topics = topics_of_claim(command, reply)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _WaitLine(self._store, topics, on_end=partial(self._lines.pop, key))
        waiter.arrival = self._place_of(waiter)
        line.join(waiter)
        if self._is_stopping:
            line.hurry()
        try:
            await asyncio.wait((waiter.answer, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            line.leave(waiter)
        return self._answer(waiter, gone)

    def _answer(self, waiter: _Waiter, gone: "asyncio.Future[None]") -> ClaimReply:
        if gone.done():
            waiter.answer.add_done_callback(lambda answer: self.undo(waiter.command, answer.result()))
            raise ClientDisconnected
        reply = waiter.answer.result()
        if isinstance(reply, Exception):
            raise reply
        claim: ClaimReply = reply
        return claim

    def undo(self, command: Command[Any], reply: ReplyOrError) -> None:
        """A claim that nobody will hear of would keep everybody else waiting until it expires.

        Only the store knows whether somebody has: the same request may have come again, here or at another server.
        """
        undo = undo_of(reply, command.principal)
        if undo is not None:
            self._store.submit([undo])

    # The place of somebody who comes back

    def _place_of(self, waiter: _Waiter) -> int:
        now = self._loop.time()
        while self._places and next(iter(self._places.values())).until <= now:  # they are in the order of their ends
            del self._places[next(iter(self._places))]
        known = self._places.pop(waiter.request, None) if waiter.request else None
        return known.arrival if known else next(self._arrivals)

    def _keep_place(self, waiter: _Waiter) -> None:
        now = self._loop.time()
        if waiter.request and waiter.arrival and now >= waiter.deadline:
            self._places.pop(waiter.request, None)
            self._places[waiter.request] = _KeptPosition(waiter.arrival, now + POSITION_KEPT_SECONDS)


class _WaitLine:
    """Those who wait for the same job, or for the next one of the same queue. Only the first of them is tried."""

    def __init__(self, store: ServedStore, topics: list[Topic], on_end: Callable[[], object]) -> None:
        self.waiters: list[_Waiter] = []
        self._store = store
        self._bell = LoopFlag()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._serve(topics, on_end))

    def join(self, waiter: _Waiter) -> None:
        bisect.insort(self.waiters, waiter, key=lambda other: other.arrival)
        self._bell.event.set()

    def leave(self, waiter: _Waiter) -> None:
        """It may be in the middle of being tried, and still get an answer."""
        if waiter in self.waiters:
            self.waiters.remove(waiter)
            self._bell.event.set()

    def hurry(self) -> None:
        for waiter in self.waiters:
            waiter.deadline = 0
        self._bell.event.set()

    def try_again(self, token_ids: set[str]) -> None:
        for waiter in self.waiters:
            permit = waiter.command.permit
            if permit is not None and permit.token_id in token_ids:
                waiter.has_been_tried = False
                self._bell.event.set()

    async def _serve(self, topics: list[Topic], on_end: Callable[[], object]) -> None:
        try:
            with self._store.local.listening(topics, self._bell.set):
                while self.waiters:
                    self._bell.event.clear()
                    pause = await self._try()
                    if pause > 0:
                        with suppress(TimeoutError):
                            await asyncio.wait_for(self._bell.event.wait(), pause)
        except Exception as fault:  # noqa: BLE001  # whatever it is, nobody is left waiting
            for waiter in self.waiters:
                _settle(waiter, fault)
        finally:
            on_end()

    def _to_try(self, now: float) -> list[_Waiter]:
        others = (w for w in self.waiters[1:] if w.deadline <= now or not w.has_been_tried or w.is_for_session)
        tried = [self.waiters[0], *islice(others, MAX_BATCH)]
        # A queue may have several jobs, which are for those who stand before the last of these.
        ahead = self.waiters.index(tried[-1]) + 1
        return self.waiters[:ahead] if isinstance(tried[0].command, ClaimNext) and ahead <= MAX_BATCH else tried

    async def _try(self) -> float:
        """Claim for the first in line, and then for those who have just come or whose time is over.

        All in one transaction, so that nobody jumps the line. Newcomers are tried because theirs may be an earlier
        claim of their own, whose answer they have not got; those who wait for a session because it may have been
        handed over to any of them. Returns how long to wait before it makes sense to go on.
        """
        first = self.waiters[0]
        now = self._loop.time()
        tried = self._to_try(now)
        for waiter in tried:
            waiter.has_been_tried = True
        replies = await self._store.submit([waiter.command for waiter in tried])
        for waiter, reply in zip(tried, replies, strict=True):
            if waiter.deadline <= now or not is_worth_waiting(waiter.command, reply):
                self._answer(waiter, reply)
        if getattr(replies[0], "all_done", None):
            # So it is for all who wait for the same; those who came until then need not be tried for it.
            for waiter in [w for w in self.waiters if not is_worth_waiting(w.command, replies[0])]:
                self._answer(waiter, replies[0])
        if self.waiters[:1] != [first]:
            return 0
        until_deadline = min(waiter.deadline for waiter in self.waiters) - self._loop.time()
        # A millisecond more, to be past the moment and not at it.
        return max(0.001, min(until_deadline, ((replies[0].retry_after_ms or 0) + 1) / 1_000))

    def _answer(self, waiter: _Waiter, reply: ReplyOrError) -> None:
        if waiter in self.waiters:
            self.waiters.remove(waiter)
        _settle(waiter, reply)


def _settle(waiter: _Waiter, reply: ReplyOrError) -> None:
    if not waiter.answer.done():
        waiter.answer.set_result(reply)


def _key(command: ClaimCommand) -> _Key:
    match command:
        case ClaimJob():
            return "job", command.job_id
        case ClaimNext():
            return "queue", command.queue, command.kinds, command.prefix
        case ClaimTask():
            return "session", key_in(command), command.queues, command.kinds, command.prefix
