"""`OctoStore`: the library's interface."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Concatenate

from octostore.client.calls import Blocks, Calls, build
from octostore.client.claiming import ClaimCall, HoldCall, claim
from octostore.client.hold import LONG_AGO, HeldClaim, claim_to_hold, granted, refresh_if_old
from octostore.client.lateness import check_ttl_is_safe_here
from octostore.client.methods import P
from octostore.client.port import Port
from octostore.client.reader import Reader
from octostore.client.session import Session
from octostore.client.verification import OnEvent, verify
from octostore.client.work import AnyClaim, Handler, WorkLoop
from octostore.client.work_limits import WorkLimits
from octostore.core.errors import InvalidInput
from octostore.core.limits import TTL_DEFAULT_SECONDS, check_whole
from octostore.core.replies import ClaimReply, SessionReply
from octostore.core.verify import Verification
from octostore.stores.clock import boottime

CONCURRENCY_MAX = 1_000


def held(
    make: Callable[Concatenate[Any, P], HoldCall],
) -> Callable[Concatenate[Any, P], AbstractContextManager[HeldClaim]]:
    @wraps(make)
    @contextmanager
    def method(self: Any, /, *args: P.args, **options: P.kwargs) -> Iterator[HeldClaim]:
        call, ttl, outcome, on_lost = make(self, *args, **options)
        check_ttl_is_safe_here(ttl)
        claim = HeldClaim(self._port, claim_to_hold(self._port, *call), on_lost=on_lost)
        claim.end_as(outcome)
        with claim:
            yield claim

    return method


def opened(
    make: Callable[Concatenate[Any, P], ClaimCall[SessionReply]],
) -> Callable[Concatenate[Any, P], Session]:
    @wraps(make)
    def method(self: Any, /, *args: P.args, **options: P.kwargs) -> Session:
        asked_at = boottime()
        return Session(self._port, claim(self._port, *make(self, *args, **options)), asked_at)

    return method


class OctoStore(Calls, Reader):
    """One owner per job, ownership that anyone can see, and recovery when an owner disappears.

    Made by `octostore.connect()`. Safe to use from many threads, and after `fork()`. Every method can be repeated: a
    second call with the same `request_id`, lease or name finds what the first one did (so give an `enqueue` or a
    session that is to be repeated its id). All raise `InvalidInput` for arguments out of bounds (nothing has changed
    then) and `Unreachable` where the store cannot answer.
    """

    _port: Port

    def __init__(self, port: Port) -> None:
        super().__init__(port)

    hold = held(Blocks.hold)
    open_session = opened(Blocks.open_session)

    @contextmanager
    def keep(
        self, reply: ClaimReply, *, asked_at: float = LONG_AGO, on_lost: Callable[[], None] | None = None
    ) -> Iterator[HeldClaim]:
        """`hold()` for a claim that is made already, by `claim_job` or `claim_next`.

        It begins with a heartbeat, because how long a claim lasts is counted from when it was asked for. Whoever knows
        that does without: `asked_at` is what `time.clock_gettime(time.CLOCK_BOOTTIME)` gave just before. Raises
        `LeaseLost` if the claim is over, and what `hold` raises if `reply` is none.
        """
        with HeldClaim(self._port, refresh_if_old(self._port, granted(reply, asked_at)), on_lost=on_lost) as claim:
            yield claim

    # Queues

    def work(
        self,
        queue: str,
        handler: Handler,
        *,
        kinds: Sequence[str] | None = None,
        owner: str | None = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        max_silence: float | None = None,
        concurrency: int = 1,
        stop: threading.Event | None = None,
        until_empty: bool = False,
        until_done: bool = False,
        max_jobs: int | None = None,
    ) -> int:
        """Run `handler(claim)` for each job of a queue, until `stop` is set.

        With `until_empty`, it also ends when no job can be claimed now. With `until_done`, it stays until every job in
        the queue is settled (done or dead): those that others hold may come back, and those due later will. With
        `max_jobs`, it ends after that many jobs, whatever became of them.

        What the handler returns is the job's result; what it raises is noted, and the job retried; `Deferred` puts it
        off without using up an attempt. Heartbeats go on whatever the handler does. Returns how many jobs were handled.
        `stop` is noticed within a second, and waits for the handlers that run. So do TERM and Ctrl-C, which set it, if
        this is the main thread and the program has no handler of its own for them. A second one sets
        `claim.stop_requested`, gives jobs back two seconds later, and ends the program as usual (SystemExit,
        KeyboardInterrupt); no attempt is used up.
        """
        limits = WorkLimits(until_empty=until_empty, until_done=until_done, max_jobs=max_jobs)
        claim = build.claim_next(
            queue, kinds=kinds, owner=owner, ttl=ttl, max_silence=max_silence, until_done=until_done
        )
        return self._run_loop(claim.command, ttl, handler, concurrency, stop, limits=limits)

    def work_session(
        self,
        session_id: str,
        handler: Handler,
        *,
        agent: str | None = None,
        queues: Sequence[str] = ("default",),
        kinds: Sequence[str] | None = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        max_silence: float | None = None,
        stop: threading.Event | None = None,
        until_empty: bool = False,
    ) -> int:
        """`work` for the tasks of a session: one at a time, each with the session's context (`claim.reply.session`)."""
        claim = build.claim_task(session_id, agent, queues=queues, kinds=kinds, ttl=ttl, max_silence=max_silence)
        return self._run_loop(claim.command, ttl, handler, 1, stop, limits=WorkLimits(until_empty=until_empty))

    def verify(self, on_event: OnEvent | None = None) -> Verification:
        """Whether the log has no gap, leads to what is stored, and every claim in it ended once. For operators.

        It reads the whole log and every job, beside whatever else is going on. `on_event` is told the `seq` of each
        event as it is read.
        """
        return verify(self, on_event)

    def _run_loop(
        self,
        claim: AnyClaim,
        ttl: float,
        handler: Handler,
        concurrency: int,
        stop: threading.Event | None,
        *,
        limits: WorkLimits,
    ) -> int:
        from inspect import iscoroutinefunction  # noqa: PLC0415  # takes long to import, and only this needs it

        check_whole("concurrency", concurrency, 1, CONCURRENCY_MAX)
        if not callable(handler) or iscoroutinefunction(handler):
            raise InvalidInput("handler", "must be a plain function of one claim; connect_async() takes coroutines")
        check_ttl_is_safe_here(ttl)
        return WorkLoop(self._port, claim, handler, stop or threading.Event(), limits).run(concurrency)
