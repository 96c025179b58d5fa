"""One hook call by an agent's client, and what the store knows about that agent if it replies in time."""

import os
from collections.abc import Callable
from functools import cached_property
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from octostore.agents.hooks.memory import Remembered
from octostore.agents.hooks.payload import Payload
from octostore.cli.store_address import StoreAddress
from octostore.client.owner import OWNER_VARIABLE
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.replies import JobOwner, SessionView
from octostore.stores.opening import sqlite_path

if TYPE_CHECKING:
    from octostore.client.reader import Reader
    from octostore.keeping.leases import KeptLease
    from octostore.keeping.processes import Process

T = TypeVar("T")
PATIENCE_SECONDS = 0.2
"""How long to wait for the store: the client waits for its hooks, and a person waits for the client."""


class HookCall:
    """One event of one session of a client."""

    def __init__(self, payload: Payload, address: StoreAddress) -> None:
        self.payload = payload
        self.address = address
        self.remembered = Remembered(address.url, payload.session)

    @cached_property
    def agent(self) -> "Process | None":
        """The client's process."""
        from octostore.keeping.watching import agent_here  # noqa: PLC0415  # not for every event

        return agent_here()

    @cached_property
    def owner(self) -> str:
        """The owner name that the agent's commands use by default, as far as it can be known."""
        from octostore.keeping.watching import name_of  # noqa: PLC0415  # not for every event

        # One Cursor process runs many agents.
        of_process = None if self.payload.client == "cursor" else name_of(self.agent)
        return os.environ.get(OWNER_VARIABLE) or of_process or self.payload.owner

    @property
    def must_pass_owner(self) -> bool:
        return self.owner == self.payload.owner

    @property
    def is_named_after_its_process(self) -> bool:
        """If so, nobody else has its name."""
        from octostore.keeping.watching import name_of  # noqa: PLC0415  # not for every event

        return self.owner == name_of(self.agent)

    def is_ours(self, lease: "KeptLease") -> bool:
        """Whether this session keeps the lease: a person's agents may share one owner name."""
        return self.must_pass_owner or (self.agent is not None and lease.watched == self.agent)


def claims_held_by(hook: HookCall) -> list[JobOwner]:
    """The claims this session holds, as far as that can be known."""
    try:
        claims, sessions = ask_in_time(hook.address, _claims_and_sessions)
    except Unreachable as error:
        if error.reason == "no_store":
            return []
        raise
    held = [claim for claim in claims if claim.owner == hook.owner]
    if not held or hook.must_pass_owner:
        return held
    if any(one.agent == hook.owner and one.session_id != hook.payload.session for one in sessions):
        return []  # two sessions share the name, and either may have claimed it
    if hook.is_named_after_its_process:
        return held  # including what it claimed with MCP tools
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # not for every event

    kept = KeptLeases.of_store(hook.address.url).of(hook.owner)
    ours = {lease.fencing_token for lease in kept if hook.is_ours(lease)}
    return [claim for claim in held if claim.fencing_token in ours]


def _claims_and_sessions(store: "Reader") -> tuple[list[JobOwner], list[SessionView]]:
    return list(store.list_claimed_jobs()), list(store.list_sessions(status="open"))


def ask_in_time(address: StoreAddress, ask: "Callable[[Reader], T]") -> T:
    """Return the store's reply, or raise `Unreachable` if it takes too long."""
    replies: list[T] = []
    failed: list[OctoStoreError] = []

    def look() -> None:
        try:
            with address.open_reader() as store:
                replies.append(ask(store))
        except OctoStoreError as error:
            failed.append(error)

    import_reader(address)
    asking = Thread(target=look, daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    if replies:
        return replies[0]
    raise failed[0] if failed else Unreachable(f"no reply within {PATIENCE_SECONDS:g} s", reason="busy")


def import_reader(address: StoreAddress) -> None:
    """Import before the clock starts: on a busy machine this is slow, and the store is not to blame."""
    if address.is_server:
        import octostore.client.connect  # noqa: PLC0415
    else:
        import octostore.client.read_only  # noqa: PLC0415
    if sqlite_path(address.url) is not None:
        import octostore.stores.sqlite.backend  # noqa: F401, PLC0415
