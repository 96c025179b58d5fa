"""What a command learns about the previous attempt."""

import json

import msgspec

from octostore.core.encoding import shorten
from octostore.core.replies import ClaimReply

TEXT_BYTES = 1_000
"""How much of each text to pass on: an environment has little room, but the job's history has the full text."""


def previous_as_json(reply: ClaimReply) -> str:
    """Who owned the job last, and when, how and why that ended; empty if nobody did.

    ASCII, so that it is one line in every locale, whatever the texts contain.
    """
    last = next((attempt for attempt in reply.previous if attempt.how != "undone"), None)
    if last is None:
        return ""
    texts = {"note": last.note or reply.note, "error": last.error, "reason": last.reason}
    attempt_fields = {
        "owner": last.owner,
        "attempt": last.attempt,
        "how": last.how,
        "claimed_at": last.claimed_at,
        "ended_at": last.ended_at,
        **{name: None if text is None else shorten(text, TEXT_BYTES) for name, text in texts.items()},
    }
    return json.dumps(msgspec.to_builtins(attempt_fields))
