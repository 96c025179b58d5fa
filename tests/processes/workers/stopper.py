"""Pauses itself (SIGSTOP) at a chosen point of a PostgreSQL transaction, until the test continues it.

`limit` is the time after which others may continue without it.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import octostore
from octostore.stores.postgres import backend, connection
from octostore.stores.postgres.pipeline import Pipeline
from octostore.stores.transaction import Transaction
from tests.processes.workers.talk import hear, say


def stop_once() -> Callable[[], None]:
    chances = [None]

    def stop() -> None:
        if chances:
            chances.pop()
            # To this very thread: through another thread, the stop could come later.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    return stop


def stop_at(point: str) -> None:
    stop = stop_once()
    if point == "migrating":
        around(connection, "_has_schema", lambda *_: stop())
    elif point == "deciding":
        around(Transaction, "save", lambda *_: stop())
    elif point == "asking":  # the lock was requested, and no one reads the reply
        around(Pipeline, "_send", after=lambda pipeline, _: stop() if has(pipeline, b"lock") else None)
    else:  # everything to save is known, and nothing has been sent
        around(Pipeline, "_send", before=lambda pipeline, _: stop() if has(pipeline, b"save_counters") else None)


def has(pipeline: Pipeline, name: bytes) -> bool:
    return any(statement.name == name for statement, _, _ in pipeline._pending)


def around(
    owner: Any, name: str, before: Callable[..., None] = lambda *_: None, after: Callable[..., None] = lambda *_: None
) -> None:
    called = getattr(owner, name)

    def call(*args: Any, **options: Any) -> Any:
        before(*args)
        result = called(*args, **options)
        after(*args)
        return result

    setattr(owner, name, call)


def main(url: str, point: str, limit: str) -> None:
    if limit:
        backend.LIMITS["idle"] = limit
        connection.MIGRATION_LIMITS["idle_in_transaction_session_timeout"] = limit
    if point == "migrating":
        say({"pid": os.getpid()})
        stop_at(point)
    store = octostore.connect(url)
    store.claim_job("before", "stopper", ttl=3_600)
    if point != "migrating":
        say({"pid": os.getpid()})
        stop_at(point)
    while (order := hear()) is not None:
        reply = store.claim_job(order["call"], "stopper", ttl=3_600)
        say({"status": reply.status, "token": reply.fencing_token, "owner": reply.owner})


if __name__ == "__main__":
    main(*sys.argv[1:])
