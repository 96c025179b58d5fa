"""A store for event loops: everything a loop submits in one turn goes to the writer together, and wakes it once."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, TypeAlias

import msgspec

from octostore.core.commands import AnyCommand, Command
from octostore.core.errors import Unreachable
from octostore.core.undo import undo_of
from octostore.stores.batch import ReplyOrError
from octostore.stores.store import LocalStore
from octostore.stores.writer import MAX_BATCH

FutureReplies: TypeAlias = "asyncio.Future[list[ReplyOrError]]"


class LoopStore:
    """For tasks of any loop. Never blocks a loop, except for up to `RUN_HERE_MAX` commands on a fast disk."""

    RUN_HERE_MAX = 0

    def __init__(self, store: LocalStore) -> None:
        self.local = store
        self._turn: _Turn | None = None
        """The turn that is collecting commands, until it is handed to the writer."""

    def submit(self, commands: Sequence[AnyCommand]) -> FutureReplies:
        """Run in one transaction, whether or not anyone still waits for it."""
        future: FutureReplies = self.ask_for(commands).future
        return future

    async def execute_all(self, commands: Sequence[Command[Any]]) -> list[ReplyOrError]:
        """Like `submit`, but undoes what was claimed for a caller that is cancelled meanwhile."""
        asked = self.ask_for(commands)
        future: FutureReplies = asked.future
        try:
            return await future
        except asyncio.CancelledError:
            asked.outcome.abandoned.append(asked)
            self._undo_abandoned(asked.outcome)
            raise

    def ask_for(self, commands: Sequence[AnyCommand], future: Any = None) -> "_Asked":
        """`future` receives the replies: a real one, or an object with its `done`, `set_result` and `set_exception`."""
        loop = asyncio.get_running_loop()
        turn = self._turn
        if turn is None or turn.loop is not loop or turn.size >= MAX_BATCH:
            turn = self._turn = _Turn(loop)
            loop.call_soon(self._end_turn, turn)
        asked = _Asked(commands, future or loop.create_future(), turn.outcome, turn.size)
        turn.asked.append(asked)
        turn.size += len(commands)
        return asked

    def _end_turn(self, turn: "_Turn") -> None:
        if self._turn is turn:
            self._turn = None
        self._hand_over(turn)

    def _hand_over(self, turn: "_Turn") -> None:
        commands = [command for asked in turn.asked for command in asked.commands]
        outcome = turn.outcome
        try:
            if len(commands) <= self.RUN_HERE_MAX:
                outcome.replies = self.local.run_here(commands)
            if outcome.replies is None:
                self.local.submit_to(commands, partial(self._on_done, turn))
                return
        except Unreachable as fault:
            outcome.replies = fault
        self._deliver(turn)
        self._undo_abandoned(outcome)

    def _on_done(self, turn: "_Turn", replies: list[ReplyOrError] | Exception) -> None:
        """In the writer's thread."""
        turn.outcome.replies = replies
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            turn.loop.call_soon_threadsafe(self._deliver, turn)
        self._undo_abandoned(turn.outcome)

    def _deliver(self, turn: "_Turn") -> None:
        if isinstance(turn.outcome.replies, Exception):
            self._fail(turn, turn.outcome.replies)
            return
        for asked in turn.asked:
            if not asked.future.done():  # its caller may have been cancelled
                asked.future.set_result(asked.replies)

    def _fail(self, turn: "_Turn", fault: Exception) -> None:
        waiting = [asked for asked in turn.asked if not asked.future.done()]
        if len(turn.asked) > 1 and not isinstance(fault, Unreachable):
            for asked in waiting:  # one caller's bug must not fail the others
                asked.outcome, asked.start = _Outcome(), 0
                self._hand_over(_Turn(turn.loop, asked.outcome, [asked]))
            return
        for asked in waiting:
            # Each caller raises, and so modifies, its own exception.
            asked.future.set_exception(copy(fault))

    def _undo_abandoned(self, outcome: "_Outcome") -> None:
        """Undo claims and sessions whose callers were cancelled; otherwise nobody would know about them.

        The loop's thread cancels and the writer's thread replies, in either order. Both call this; the later one acts.
        """
        while outcome.replies is not None and outcome.abandoned:
            with suppress(IndexError, Unreachable):  # the other thread was faster, or the store is closed
                self._undo(outcome.abandoned.pop())

    def _undo(self, abandoned: "_Asked") -> None:
        undoing = (
            undo_of(reply, command.principal)
            for command, reply in zip(abandoned.commands, abandoned.replies, strict=False)
        )
        commands: list[AnyCommand] = [undo for undo in undoing if undo is not None]
        if commands:
            self.local.submit_to(commands, lambda _: None)  # nobody waits for this either


# A turn refers to its callers, and they to its outcome, but never back to the turn. Such a cycle would keep everything
# about a call, from the request to the response, until the garbage collector runs, and give it most of its work.


class _Outcome(msgspec.Struct, eq=False):
    """The outcome of a turn, shared by its callers."""

    replies: Any = None
    """The replies to all commands in order, or a fault; None until there are any."""
    abandoned: list["_Asked"] = []
    """Callers that were cancelled."""


class _Asked(msgspec.Struct, eq=False):
    """Commands, and who waits for their replies."""

    commands: Sequence[AnyCommand]
    future: Any
    outcome: _Outcome
    start: int
    """How many commands of others come first in the turn."""

    @property
    def replies(self) -> list[ReplyOrError]:
        """Empty without an outcome, or after a fault."""
        replies = self.outcome.replies
        return replies[self.start : self.start + len(self.commands)] if isinstance(replies, list) else []


class _Turn(msgspec.Struct, eq=False):
    """What a loop submitted in one turn."""

    loop: asyncio.AbstractEventLoop
    outcome: _Outcome = msgspec.field(default_factory=_Outcome)
    asked: list[_Asked] = []
    size: int = 0
