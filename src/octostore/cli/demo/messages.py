"""What happens in the demo: messages from the agents, as lines of JSON over pipes, and what the demo does to them."""

from typing import Any, TypeAlias

import msgspec

from octostore.core.moments import Moment


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="what", tag=str.lower):
    pass


class Ready(_Message, frozen=True):
    """The store is open; the race can start."""


class Claimed(_Message, frozen=True):
    """The agent owns the job, with the previous owner's checkpoint."""

    attempt: int
    took_over_from: str | None
    checkpoint: Any


class Held(_Message, frozen=True):
    """Another agent owns the job, so this one waits."""

    owner: str
    claimed_at: Moment
    heartbeat_at: Moment


class _Step(_Message, frozen=True):
    step: int
    steps: int
    note: str


class Working(_Step, frozen=True):
    """A step has started."""


class Saved(_Step, frozen=True):
    """A step is finished and saved, so nobody has to repeat it."""

    checkpoint: Any


class Finished(_Message, frozen=True):
    result: Any


class Done(_Message, frozen=True):
    """Another agent has finished the job."""

    result: Any


class Killed(_Step, frozen=True):
    """The demo killed the agent during this step."""

    pid: int
    signal: int


class TakenOver(_Message, frozen=True, tag="taken_over"):
    """How long the takeover took, according to the event log."""

    dead: str
    ttl: float
    seconds_after_last_heartbeat: float
    seconds_after_expiry: float


AgentMessage: TypeAlias = Ready | Claimed | Held | Working | Saved | Finished | Done
DemoMessage: TypeAlias = AgentMessage | Killed | TakenOver

encode = msgspec.json.Encoder().encode
decode_message = msgspec.json.Decoder(AgentMessage).decode


class DemoEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to an agent, `elapsed` seconds into the demo."""

    elapsed: float
    agent: str
    pid: int
    message: DemoMessage

    @property
    def document(self) -> dict[str, Any]:
        about = {"elapsed": round(self.elapsed, 3), "agent": self.agent, "pid": self.pid}
        return {**about, **msgspec.to_builtins(self.message)}
