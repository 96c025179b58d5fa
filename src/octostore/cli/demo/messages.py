"""What happens in the demo: what the agents say, in lines of JSON over their pipes, and what is done to them."""

from typing import Any, TypeAlias

import msgspec

from octostore.core.moments import Moment


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="what", tag=str.lower):
    pass


class Ready(_Message, frozen=True):
    """The store is open; the race can begin."""


class Claimed(_Message, frozen=True):
    """The job is mine, with what an earlier owner has left."""

    attempt: int
    took_over_from: str | None
    checkpoint: Any


class Held(_Message, frozen=True):
    """The job is somebody else's, so I wait for it."""

    owner: str
    claimed_at: Moment
    heartbeat_at: Moment


class _Step(_Message, frozen=True):
    step: int
    steps: int
    note: str


class Working(_Step, frozen=True):
    """A step of the work begins."""


class Saved(_Step, frozen=True):
    """A step has ended, and nobody will have to do it again."""

    checkpoint: Any


class Finished(_Message, frozen=True):
    result: Any


class Done(_Message, frozen=True):
    """I was told that somebody else has finished it."""

    result: Any


class Killed(_Step, frozen=True):
    """The demo has killed the agent, in the middle of this step."""

    pid: int
    signal: int


class TakenOver(_Message, frozen=True, tag="taken_over"):
    """How long that took, by the event log."""

    dead: str
    ttl: float
    seconds_after_last_heartbeat: float
    seconds_after_expiry: float


Said: TypeAlias = Ready | Claimed | Held | Working | Saved | Finished | Done
Happened: TypeAlias = Said | Killed | TakenOver

encode = msgspec.json.Encoder().encode
read_said = msgspec.json.Decoder(Said).decode


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """Something that has happened to an agent, so many seconds after the demo began."""

    elapsed: float
    agent: str
    pid: int
    message: Happened

    @property
    def document(self) -> dict[str, Any]:
        about = {"elapsed": round(self.elapsed, 3), "agent": self.agent, "pid": self.pid}
        return {**about, **msgspec.to_builtins(self.message)}
