"""A thread for one call, which nobody has to wait for: not those who asked for it, nor the process when it ends."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def run_in_daemon_thread(call: Callable[[], T], name: str) -> "Future[T]":
    """What `call` gives or raises."""
    answer: Future[T] = Future()
    threading.Thread(target=_answer, args=(answer, call), name=name, daemon=True).start()
    return answer


def _answer(answer: "Future[T]", call: Callable[[], T]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # noqa: BLE001  # for whoever waits for it
        answer.set_exception(error)
