"""One transaction: load what a batch of commands needs, decide each in order, save."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from octostore.core.commands import AnyCommand
from octostore.core.decide import decide
from octostore.core.decide.expiry import sweep
from octostore.core.decide.rules import needs_of
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.events import LogEntry
from octostore.core.model import Job
from octostore.core.permit import TokenOver
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet
from octostore.stores.base import Backend
from octostore.stores.clock import Clock, boottime

ReplyOrError: TypeAlias = Any
"""The reply to a command, or the `OctoStoreError` that refuses it."""


class Committed(NamedTuple):
    """The outcome of a durable transaction."""

    replies: list[ReplyOrError]
    entries: list[LogEntry]
    hastened: list[Job]
    """Jobs that will be free earlier than their waiters expect."""
    renewed: list[str]
    """Jobs whose claims were renewed."""
    seconds: float = 0.0
    """How long the commit took, after everything was decided."""


def run_batch(
    backend: Backend, commands: Sequence[AnyCommand], clock: Clock, sources: Sources, *, at_once: bool = False
) -> Committed:
    """Raises `Unreachable` or `TryAgain` if the store fails; as far as it can tell, nothing was saved then."""
    needs = needs_of(commands)
    begin = (at_once and backend.writing_at_once) or backend.writing
    with begin(needs) as writing:
        counters = writing.counters()
        # Read after taking the lock, so that transactions are ordered in time, across processes too.
        mark = clock(counters.mark)
        ws = WorkingSet(now=mark.now, seq=counters.seq)
        writing.load(ws, needs)
        sweep(ws, sources)
        begun_at = boottime()
        replies = [_reply_to(ws, command, sources, begun_at) for command in commands]
        # A mark from before a reboot does not advance on its own, so replace it in any case.
        if ws.has_changes or mark.boot_id != counters.mark.boot_id:
            writing.save(ws, mark)
        saved_at = time.monotonic()
    return Committed(replies, ws.entries, ws.hastened, list(ws.renewed_jobs), time.monotonic() - saved_at)


def _reply_to(ws: WorkingSet, command: AnyCommand, sources: Sources, begun_at: float) -> ReplyOrError:
    if command.until is not None and command.until <= begun_at:
        return Unreachable("the call came too late: its caller has given up; nothing was done", reason="late")
    if command.permit is not None and not command.permit.is_issued_by(ws.token(command.permit.token_id), ws.now):
        return TokenOver()
    try:
        return decide(ws, command, sources)
    except OctoStoreError as refusal:
        # Its traceback leads to everything the transaction loaded, including other callers' leases.
        return refusal.with_traceback(None)
