"""Every command counts as activity of its owner, which keeps its kept claims alive."""

import os
from contextlib import suppress

from octostore.cli.store_address import StoreAddress
from octostore.cli.subcommands import Arguments
from octostore.client.owner import OWNER_VARIABLE, person
from octostore.core.errors import OctoStoreError
from octostore.stores.opening import keeping_root


def record_activity(arguments: Arguments, address: StoreAddress) -> None:
    """One `stat` if nothing is kept. Never fails; the command itself will report any problem."""
    with suppress(OctoStoreError, OSError):
        if os.path.exists(keeping_root(address.url)):  # noqa: PTH110  # pathlib is slow to import
            from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # only if something is kept

            KeptLeases.of_store(address.url).show_life(current_owner(getattr(arguments, "owner", None)))


def current_owner(owner: str | None) -> str:
    """`owner`, else OCTOSTORE_OWNER, else the agent that runs this command, else the user."""
    from octostore.keeping.watching import agent_here, name_of  # noqa: PLC0415  # rarely needed

    return owner or os.environ.get(OWNER_VARIABLE) or name_of(agent_here()) or person()
