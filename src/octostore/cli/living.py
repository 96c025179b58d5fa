"""Any command is a sign of life of its owner, for those who watch over kept claims."""

import os
from contextlib import suppress

from octostore.cli.command import Arguments
from octostore.cli.place import Place
from octostore.client.owner import OWNER_VARIABLE, person
from octostore.core.errors import OctoStoreError
from octostore.stores.opening import keeping_root


def show_life(arguments: Arguments, place: Place) -> None:
    """Takes one `stat` where nothing is kept. It never fails: what is wrong, the command itself finds out."""
    with suppress(OctoStoreError, OSError):
        if os.path.exists(keeping_root(place.url)):  # noqa: PTH110  # pathlib is not needed for that
            from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # only for those who keep something

            KeptLeases.of_store(place.url).show_life(my_name(getattr(arguments, "owner", None)))


def my_name(owner: str | None) -> str:
    """Of whoever types this: `owner`, else OCTOSTORE_OWNER, else the agent whose command this is, else the user."""
    from octostore.keeping.watching import agent_here, name_of  # noqa: PLC0415  # few need it

    return owner or os.environ.get(OWNER_VARIABLE) or name_of(agent_here()) or person()
