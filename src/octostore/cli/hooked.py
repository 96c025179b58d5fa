"""One event of one session of a client, and what the store says about its agent, if it does so in time."""

import os
from collections.abc import Callable
from functools import cached_property
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from octostore.agents.hooks.memory import Remembered
from octostore.agents.hooks.payload import Payload
from octostore.cli.place import Place
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
"""For the store. A client waits for its hooks, and a person for the client."""


class Hook:
    """One event of one session."""

    def __init__(self, payload: Payload, place: Place) -> None:
        self.payload = payload
        self.place = place
        self.remembered = Remembered(place.url, payload.session)

    @cached_property
    def agent(self) -> "Process | None":
        """The process of the client."""
        from octostore.keeping.watching import agent_here  # noqa: PLC0415  # not for every event

        return agent_here()

    @cached_property
    def owner(self) -> str:
        """As commands of the agent are called that do not say who they are, if that can be known."""
        from octostore.keeping.watching import name_of  # noqa: PLC0415  # not for every event

        # One process of Cursor has many agents.
        of_process = None if self.payload.client == "cursor" else name_of(self.agent)
        return os.environ.get(OWNER_VARIABLE) or of_process or self.payload.owner

    @property
    def has_to_say_who_it_is(self) -> bool:
        return self.owner == self.payload.owner

    @property
    def is_named_after_its_process(self) -> bool:
        """Then nobody else has its name."""
        from octostore.keeping.watching import name_of  # noqa: PLC0415  # not for every event

        return self.owner == name_of(self.agent)

    def is_ours(self, lease: "KeptLease") -> bool:
        """People name themselves, and have several agents."""
        return self.has_to_say_who_it_is or (self.agent is not None and lease.watched == self.agent)


def held_by(hook: Hook) -> list[JobOwner]:
    """What this session holds, as far as that can be known."""
    try:
        claims, sessions = asked(hook.place, _claims_and_sessions)
    except Unreachable as error:
        if error.reason == "no_store":
            return []
        raise
    held = [claim for claim in claims if claim.owner == hook.owner]
    if not held or hook.has_to_say_who_it_is:
        return held
    if any(one.agent == hook.owner and one.session_id != hook.payload.session for one in sessions):
        return []  # they share a name, and nobody knows which of them it was
    if hook.is_named_after_its_process:
        return held  # also what it claimed with MCP tools
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # not for every event

    kept = KeptLeases.of_store(hook.place.url).of(hook.owner)
    ours = {lease.fencing_token for lease in kept if hook.is_ours(lease)}
    return [claim for claim in held if claim.fencing_token in ours]


def _claims_and_sessions(store: "Reader") -> tuple[list[JobOwner], list[SessionView]]:
    """What is claimed, and who is there."""
    return list(store.list_claimed_jobs()), list(store.list_sessions(status="open"))


def asked(place: Place, ask: "Callable[[Reader], T]") -> T:
    """What the store says, if it does so in time."""
    answer: list[T] = []
    failed: list[OctoStoreError] = []

    def look() -> None:
        try:
            with place.look() as store:
                answer.append(ask(store))
        except OctoStoreError as error:
            failed.append(error)

    import_what_looking_takes(place)
    asking = Thread(target=look, daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    if answer:
        return answer[0]
    raise failed[0] if failed else Unreachable(f"no answer within {PATIENCE_SECONDS:g} s", reason="busy")


def import_what_looking_takes(place: Place) -> None:
    """Before the clock starts: on a busy machine this takes long, and is not the store's fault."""
    if place.is_server:
        import octostore.client.connect  # noqa: PLC0415
    else:
        import octostore.client.read_only  # noqa: PLC0415
    if sqlite_path(place.url) is not None:
        import octostore.stores.sqlite.backend  # noqa: F401, PLC0415
