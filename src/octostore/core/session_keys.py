"""Session keys: two principals that choose the same id have two sessions, and neither learns of the other's."""

from typing import NewType, Protocol

from octostore.core.errors import NotFound

SessionKey = NewType("SessionKey", str)
"""`principal/id`: how rows and events name a session. Events from earlier versions have the id alone.

The id follows the last slash: a principal's name may contain slashes.
"""


class NamesSession(Protocol):
    @property
    def principal(self) -> str: ...

    @property
    def session_id(self) -> str | None: ...


def session_key(principal: str, session_id: str) -> SessionKey:
    """The session that `principal` calls `session_id`: its own, unless the id names a principal, as in `ci/main`."""
    return SessionKey(session_id if "/" in session_id else f"{principal}/{session_id}")


def key_in(command: NamesSession) -> SessionKey:
    return session_key(command.principal, command.session_id or "")


def id_of(key: SessionKey) -> str:
    return key.rpartition("/")[2]


def whose(key: SessionKey) -> str | None:
    """None if an earlier version left it out."""
    return key.rpartition("/")[0] or None


def no_such_session(key: SessionKey) -> NotFound:
    """The same whether or not it exists, for callers who must not know."""
    return NotFound(f"principal {whose(key)!r} has no session named {id_of(key)!r}")
