"""Our own threads for blocking calls: the loop's default ones may be busy with the caller's work for too long."""

import asyncio
import atexit
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, ParamSpec, TypeVar

from octostore.client.daemon_thread import run_in_daemon_thread

MAX_THREADS = 32
EXIT_SECONDS = 3.0
"""How long the process waits at its end for what runs in the background."""

P = ParamSpec("P")
T = TypeVar("T")

_pools: list[ThreadPoolExecutor] = []
"""The pool, once it exists."""

_unfinished: set[Future[Any]] = set()

os.register_at_fork(after_in_child=_pools.clear)
os.register_at_fork(after_in_child=_unfinished.clear)


async def in_thread(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    loop: Any = asyncio.get_running_loop()
    result: T = await loop.run_in_executor(_pool(), partial(call, *args, **options))
    return result


def in_background(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> "Future[T]":
    """It continues if no one waits for it any more, even if it takes long: so each has a thread of its own."""
    future = run_in_daemon_thread(partial(call, *args, **options), "octostore-background")
    _unfinished.add(future)
    future.add_done_callback(_unfinished.discard)
    return future


@atexit.register
def _wait_for_unfinished() -> None:
    """But not for as long as they would retry."""
    wait(_unfinished, EXIT_SECONDS)


def _pool() -> ThreadPoolExecutor:
    if not _pools:
        _pools.append(ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="octostore-async"))
    return _pools[0]
