"""The session in the store that represents a client's: opened, kept alive and closed by detached children."""

from collections.abc import Sequence
from contextlib import suppress

from octostore.agents.hooks.memory import Remembered
from octostore.client.connect import connect
from octostore.client.store import OctoStore
from octostore.core.errors import LeaseLost, NotFound, OctoStoreError
from octostore.keeping.leases import KeptLease, KeptLeases
from octostore.keeping.releasing import release

TTL_SECONDS = 1_800.0
"""Long, because agents wait for people. An expired session is resumed at the agent's next activity."""
END_NOTE = "released when the agent's session ended"


def keep_session(url: str | None, session: str, owner: str, remembered: Remembered) -> None:
    """Alive, or opened (again) if it is not."""
    with connect(url) as store:
        lease_id = remembered.lease_id()
        if lease_id is not None and _is_alive(store, session, lease_id):
            remembered.note_that_it_lives()
        else:
            reply = store.open_session(agent=owner, ttl=TTL_SECONDS, session_id=session).reply
            remembered.keep_lease(reply.lease_id)


def end_session(url: str | None, session: str, owner: str, remembered: Remembered, leases: Sequence[KeptLease]) -> None:
    """Also release these claims, unless another session of the same owner may need them."""
    lease_id = remembered.lease_id()
    with connect(url) as store:
        if lease_id is not None:
            with suppress(OctoStoreError):  # it has ended, or will when its TTL passes
                store.close_session(session, lease_id=lease_id)
        if not any(one.agent == owner for one in store.list_sessions(status="open")):
            for lease in leases:
                with suppress(OctoStoreError):  # likewise
                    release(store, KeptLeases.of_store(url), lease, note=END_NOTE)
    remembered.forget()


def _is_alive(store: OctoStore, session: str, lease_id: str) -> bool:
    try:
        store.keep_session_alive(session, lease_id)
    except (LeaseLost, NotFound):
        return False
    return True
