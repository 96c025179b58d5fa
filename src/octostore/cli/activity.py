"""Every command counts as activity of the owner who runs it, which keeps that owner's kept claims alive."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from octostore.cli.store_address import StoreAddress
from octostore.cli.subcommands import Arguments
from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.stores.opening import keeping_root

if TYPE_CHECKING:
    from octostore.keeping.leases import KeptLeases


def record_activity(arguments: Arguments, address: StoreAddress) -> None:
    """One `stat` if nothing is kept. Never fails; the command itself will report any problem."""
    if arguments.command == "hook":
        return  # only its payload says which agent it is for; see `hook_events`
    with suppress(OctoStoreError, OSError):
        leases = kept_leases(address)
        if leases is not None:
            leases.show_life(active_owner(getattr(arguments, "owner", None), leases))


def kept_leases(address: StoreAddress) -> "KeptLeases | None":
    """None if nothing is kept, determined without importing anything."""
    if not os.path.exists(keeping_root(address.url)):  # noqa: PTH110  # pathlib is slow to import
        return None
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # only if something is kept

    return KeptLeases.of_store(address.url)


def active_owner(owner: str | None, leases: "KeptLeases") -> str:
    """Whose activity a command is. If it could be that of several owners, only the default owner's is certain."""
    from octostore.cli.owners import acting_owner, claiming_owner  # noqa: PLC0415  # only if something is kept

    try:
        return acting_owner(owner, leases)
    except InvalidInput:  # several owners, or a file that cannot be read
        return claiming_owner(owner)
