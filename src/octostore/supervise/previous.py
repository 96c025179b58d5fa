"""What a command is told of the attempt before it."""

import json

import msgspec

from octostore.core.encoding import shorten
from octostore.core.replies import ClaimReply

TEXT_BYTES = 1_000
"""Of each text that others wrote: an environment has little room, and the job's history has all of it."""


def previous_as_json(reply: ClaimReply) -> str:
    """Who had the job last, when and how that ended, and why; empty if nobody has.

    In ASCII: whatever others wrote, it is one line, in every locale.
    """
    last = next((attempt for attempt in reply.previous if attempt.how != "undone"), None)
    if last is None:
        return ""
    texts = {"note": last.note or reply.note, "error": last.error, "reason": last.reason}
    told = {
        "owner": last.owner,
        "attempt": last.attempt,
        "how": last.how,
        "claimed_at": last.claimed_at,
        "ended_at": last.ended_at,
        **{name: None if text is None else shorten(text, TEXT_BYTES) for name, text in texts.items()},
    }
    return json.dumps(msgspec.to_builtins(told))
