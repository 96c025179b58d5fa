"""What a shell offers when the user presses Tab."""

import argparse
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from octostore.cli import words
from octostore.cli.store_address import resolve_store
from octostore.core.errors import OctoStoreError

if TYPE_CHECKING:
    from octostore.client.reader import Reader

OFFERED = 200
PATIENCE_SECONDS = 1.5
"""The user has pressed Tab and is waiting."""


def job_names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Jobs in the store whose names start with `prefix`."""
    return _ask_in_time(
        parsed_args, lambda store: [job.job_id for job in store.list_jobs(prefix or None, limit=OFFERED).jobs]
    )


def session_names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """All sessions, ended ones included: `octostore sessions` shows those too."""
    names = _ask_in_time(parsed_args, _session_names)
    return [name for name in names if name.startswith(prefix)][:OFFERED]


def queue_names(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """All of them: the shell drops those that do not start with what was typed."""
    return _ask_in_time(parsed_args, lambda store: [queue.queue for queue in store.list_queues().queues])


def _session_names(store: "Reader") -> list[str]:
    reader = store.whoami().name
    return [words.session_name(one.session_id, one.principal, reader) for one in store.list_sessions()]


def _ask_in_time(parsed_args: argparse.Namespace, question: "Callable[[Reader], list[str]]") -> list[str]:
    """The store's names, or none if it does not reply in time."""
    names: list[str] = []
    address = resolve_store(getattr(parsed_args, "url", None))

    def ask() -> None:
        with suppress(OctoStoreError), address.open_reader() as store:
            names.extend(question(store))

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    return names
