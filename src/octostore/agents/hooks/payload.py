"""What a client sends to its hooks: one JSON document on stdin. Nothing in it is trusted."""

import os
import re
import select
import time
from hashlib import sha256
from typing import Any, Literal, TextIO

import msgspec

READ_SECONDS = 1.0
MAX_BYTES = 32 * 1024 * 1024
"""Large, because a payload includes tool output."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

ClientName = Literal["claude", "codex", "cursor"]


class BadPayload(Exception):
    """Not what a client sends; the message says why."""


class Payload(msgspec.Struct, frozen=True):
    """The fields that matter, from any client; any of them may be missing."""

    session_id: Any = None
    conversation_id: Any = None
    """Cursor's name for a session in all events but the first and the last."""
    hook_event_name: Any = None
    cursor_version: Any = None
    turn_id: Any = None
    """Only Codex has turns."""
    source: Any = None
    stop_hook_active: Any = None
    loop_count: Any = None
    status: Any = None

    @property
    def client(self) -> ClientName:
        event = self.hook_event_name
        if self.cursor_version or self.conversation_id or (isinstance(event, str) and event[:1].islower()):
            return "cursor"
        return "codex" if self.turn_id else "claude"

    @property
    def session(self) -> str:
        """The client's session id, as a valid name for one of our sessions."""
        named = self.conversation_id or self.session_id
        if not isinstance(named, str) or not named:
            raise BadPayload("it names no session")
        return named if _NAME.fullmatch(named) else sha256(named.encode(errors="surrogatepass")).hexdigest()[:32]

    @property
    def owner(self) -> str:
        """The default name of an agent: not the start of its session's id, which is often the time."""
        return f"agent-{sha256(self.session.encode()).hexdigest()[:8]}"

    @property
    def is_after_compaction(self) -> bool:
        return bool(self.source == "compact")

    @property
    def is_stopping_again(self) -> bool:
        """Or was interrupted. A hook that stops an agent twice never lets it finish."""
        return bool(self.stop_hook_active or self.loop_count) or self.status not in [None, "completed"]


def read_payload(stream: TextIO | None) -> Payload:
    if stream is None or stream.isatty():
        raise BadPayload("nothing was piped to stdin; hooks are run by clients, not by people")
    try:
        return msgspec.json.decode(_read(stream.fileno()), type=Payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadPayload(f"it is not a JSON object ({error})") from None


def _read(descriptor: int) -> bytes:
    """Everything, from a client that may forget to close its end."""
    deadline, content = time.monotonic() + READ_SECONDS, bytearray()
    while select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(descriptor, 1 << 20)
        content += part
        if not part or len(content) > MAX_BYTES:
            break
    if len(content) > MAX_BYTES:
        raise BadPayload(f"it has more than {MAX_BYTES:,} bytes")
    return bytes(content)
