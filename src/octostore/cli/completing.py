"""What a shell offers when somebody presses TAB."""

import argparse
from contextlib import suppress
from typing import Any

from octostore.cli.place import chosen_place
from octostore.core.errors import OctoStoreError

OFFERED = 200


def job_names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The jobs of the store that begin like that. A store that cannot be asked offers nothing."""
    with suppress(OctoStoreError), chosen_place(getattr(parsed_args, "url", None)).open() as store:
        return [job.job_id for job in store.list_jobs(prefix or None, limit=OFFERED).jobs]
    return []
