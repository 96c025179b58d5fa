"""A thread for one call that no one has to wait for: neither the caller nor the process when it exits."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def run_in_daemon_thread(call: Callable[[], T], name: str) -> "Future[T]":
    """Return what `call` returns, or raise what it raises."""
    future: Future[T] = Future()
    threading.Thread(target=_complete, args=(future, call), name=name, daemon=True).start()
    return future


def _complete(future: "Future[T]", call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001  # for the caller
        future.set_exception(error)
