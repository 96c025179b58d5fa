"""Who runs a command. Its activity, the leases it finds and its claims all go by this."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from octostore.client.owner import OWNER_VARIABLE, person
from octostore.core.errors import InvalidInput

if TYPE_CHECKING:
    from octostore.keeping.leases import KeptLease, KeptLeases

SHOWN_MAX = 10
KEEPING_OWNER_DEFAULT = f"{OWNER_VARIABLE}, else your agent's process, else the only owner who keeps claims here"
"""What `keeping_owner` falls back to, for the help."""


def claiming_owner(owner: str | None) -> str:
    """Who a new claim is for: `owner`, else OCTOSTORE_OWNER, else the agent that runs this command, else the user."""
    return owner or os.environ.get(OWNER_VARIABLE) or _agent_name() or person()


def acting_owner(owner: str | None, leases: "KeptLeases | None") -> str:
    """Who runs this command: the owner of the leases it uses, else of a new claim.

    Raises `InvalidInput` if it could be one of several owners.
    """
    return (None if leases is None else keeping_owner(owner, leases)) or claiming_owner(owner)


def keeping_owner(owner: str | None, leases: "KeptLeases") -> str | None:
    """`owner`, else OCTOSTORE_OWNER, else the agent that runs this command, else the only owner with kept claims here.

    None if there is none. Claims that another agent's process keeps do not count.
    """
    named = owner or os.environ.get(OWNER_VARIABLE)
    if named:
        return named
    from octostore.keeping.watching import agent_here, is_of_another_agent, name_of  # noqa: PLC0415  # rarely needed

    agent = agent_here()
    owners = owners_of([lease for lease in leases.all() if not is_of_another_agent(lease, agent)])
    if name_of(agent) in owners or not owners:
        return name_of(agent)
    if len(owners) > 1:
        raise InvalidInput(
            "owner",
            f"is required: {join_names(owners)} keep claims here. Say which of them you are: add `--owner NAME` to "
            f"every command, or set {OWNER_VARIABLE}",
        )
    return owners[0]


def _agent_name() -> str | None:
    from octostore.keeping.watching import agent_here, name_of  # noqa: PLC0415  # rarely needed

    return name_of(agent_here())


def owners_of(leases: "Sequence[KeptLease]") -> list[str]:
    """Owners with live keepers, or if there are none, those whose keepers are gone."""
    return sorted({lease.owner for lease in leases if lease.is_kept} or {lease.owner for lease in leases})


def join_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_MAX])
    return shown if len(names) <= SHOWN_MAX else f"{shown} and {len(names) - SHOWN_MAX} more"
