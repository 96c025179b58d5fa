"""What a shell offers when somebody presses TAB."""

import argparse
from contextlib import suppress
from threading import Thread
from typing import Any

from octostore.cli.place import chosen_place
from octostore.core.errors import OctoStoreError

OFFERED = 200
PATIENCE_SECONDS = 1.5
"""Somebody has pressed TAB, and waits."""


def job_names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The jobs of the store that begin like that. A store that cannot be asked, or not soon, offers nothing."""
    names: list[str] = []
    place = chosen_place(getattr(parsed_args, "url", None))

    def look() -> None:
        with suppress(OctoStoreError), place.open() as store:
            names.extend(job.job_id for job in store.list_jobs(prefix or None, limit=OFFERED).jobs)

    looking = Thread(target=look, daemon=True)
    looking.start()
    looking.join(PATIENCE_SECONDS)
    return names
