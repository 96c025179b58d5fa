"""What a shell offers when somebody presses TAB."""

import argparse
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from octostore.cli import words
from octostore.cli.place import chosen_place
from octostore.core.errors import OctoStoreError

if TYPE_CHECKING:
    from octostore.client.reader import Reader

OFFERED = 200
PATIENCE_SECONDS = 1.5
"""Somebody has pressed TAB, and waits."""


def job_names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The jobs of the store that begin like that."""
    return _asked(
        parsed_args, lambda store: [job.job_id for job in store.list_jobs(prefix or None, limit=OFFERED).jobs]
    )


def session_names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The sessions there are, whether or not they are over: these are looked at, too."""
    names = _asked(parsed_args, _session_names)
    return [name for name in names if name.startswith(prefix)][:OFFERED]


def queue_names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    names = _asked(parsed_args, lambda store: [queue.queue for queue in store.list_queues().queues])
    return [name for name in names if name.startswith(prefix)]


def _session_names(store: "Reader") -> list[str]:
    reader = store.whoami().name
    return [words.session(one.session_id, one.principal, reader) for one in store.list_sessions()]


def _asked(parsed_args: argparse.Namespace, question: "Callable[[Reader], list[str]]") -> list[str]:
    """A store that cannot be asked, or not soon, offers nothing."""
    names: list[str] = []
    place = chosen_place(getattr(parsed_args, "url", None))

    def look() -> None:
        with suppress(OctoStoreError), place.look() as store:
            names.extend(question(store))

    looking = Thread(target=look, daemon=True)
    looking.start()
    looking.join(PATIENCE_SECONDS)
    return names
