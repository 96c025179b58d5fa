"""Any command is a sign of life of its owner, for those who watch over kept claims."""

import os
from contextlib import suppress

from octostore.cli.command import Arguments
from octostore.cli.place import Place
from octostore.client.owner import person
from octostore.core.errors import OctoStoreError
from octostore.stores.opening import keeping_root


def show_life(arguments: Arguments, place: Place) -> None:
    """Takes one `stat` where nothing is kept. It never fails: what is wrong, the command itself finds out."""
    with suppress(OctoStoreError, OSError):
        if os.path.exists(keeping_root(place.url)):  # noqa: PTH110  # pathlib is not needed for that
            from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # only for those who keep something

            KeptLeases.of_store(place.url).show_life(getattr(arguments, "owner", None) or person())
