"""Our own threads for blocking calls: the loop's default ones may be busy with the caller's work for too long."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

MAX_THREADS = 32

P = ParamSpec("P")
T = TypeVar("T")

_pools: list[ThreadPoolExecutor] = []
"""The pool, once it exists."""

os.register_at_fork(after_in_child=_pools.clear)


async def in_thread(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    loop: Any = asyncio.get_running_loop()
    result: T = await loop.run_in_executor(_pool(), partial(call, *args, **options))
    return result


def in_background(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> "Future[T]":
    """It continues if no one waits for it any more."""
    return _pool().submit(call, *args, **options)


def _pool() -> ThreadPoolExecutor:
    if not _pools:
        _pools.append(ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="octostore-async"))
    return _pools[0]
