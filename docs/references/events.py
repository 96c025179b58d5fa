"""The reference of events, from the details of each type."""

from collections.abc import Iterator

from docs.references.markdown import FOLDER, code, field_notes, field_types, is_optional, page, table
from octostore.core.events import DETAILS, Details, Event

PATH = FOLDER / "events.md"
ABOUT = """\
The log has one event for each change to a job, a session, a queue or a token, in the order in which they happened.
`seq` increases by 1, and skips numbers only after a [restore](#restored). Replaying the events reproduces the stored
state, except heartbeats, progress, checkpoints and session contexts, which are not in the log. No event contains a
lease id, an access token, a payload or a result.

Read the log with [`octostore events`](cli.md#octostore-events), [`store.events()`](python.md#octostoreevents), or [`GET
/events`](http.md#get-events), which can stream the log and resume from `Last-Event-ID`.

## Every event
"""
MEANINGS = {
    "enqueued": "A job was put in a queue.",
    "claimed": "A job got an owner. `seq` is the fencing token of the claim.",
    "stuck": "An owner sends heartbeats, but has reported no progress for its `max_silence`. Recorded once per stall.",
    "released": "The owner released the job: it is free, or back in its queue.",
    "done": "The owner finished the job.",
    "failed": "The attempt failed. The job can be claimed again at `available_at`, or is dead.",
    "deferred": "The owner put the job off until `available_at`. This does not count as an attempt.",
    "expired": "No heartbeat came for `ttl_ms`. This was recorded `late_ms` after the lease had expired.",
    "force_released": "An operator took the job away from its owner.",
    "cancelled": "A job was cancelled and is dead. If it was claimed, the event has the fields of `released`.",
    "undone": "A claim was undone because its caller was already gone when the claim was made.",
    "stop_requested": "An owner was asked to stop. If `cancels` is true, the job is cancelled when the claim ends, "
    "unless it ends as `done`.",
    "stop_delivered": "The owner received the request to stop for the first time.",
    "discarded": "A dead job left its queue for good; its name is free.",
    "requeued": "A dead or finished job was queued again.",
    "queue_limited": "A queue's settings changed: how many jobs may be claimed at once, and whether it is paused.",
    "session_opened": "A session was opened or resumed.",
    "session_saved": "A session's context was saved. The context itself is not in the log.",
    "session_handed_over": "A session was handed over to `to_agent`, which has until `expires_at` to open it.",
    "session_closed": "A session was closed.",
    "session_expired": "A session's TTL passed without a heartbeat.",
    "session_undone": "A session was undone because its caller was already gone when the session was opened.",
    "token_created": "A token was created. The log never contains its secret.",
    "token_rotated": "A token's secret was replaced.",
    "token_revoked": "A token was revoked.",
    "restored": "A backup was restored; its last event is `after`. The numbers between that and `seq` are skipped.",
}


def reference() -> str:
    return page("Events", "src/octostore/core/events.py", _lines())


def _lines() -> Iterator[str]:
    yield from ABOUT.splitlines()
    yield from ("", *(Event.__doc__ or "").replace("\n    ", "\n").strip().splitlines(), "")
    yield from table(["field", "type"], ((code(name), code(kind)) for name, kind in field_types(Event).items()))
    yield from ("", "## Types", "")
    yield from table(["type", "when"], ((f"[`{name}`](#{name})", MEANINGS[name]) for name in DETAILS))
    for name, kind in DETAILS.items():
        yield from ("", f"### {name}", "", MEANINGS[name], "", *_fields(name, kind))


def _fields(name: str, kind: type[Details]) -> Iterator[str]:
    first = next(other for other in DETAILS if DETAILS[other] is kind)
    if first != name:
        yield f"`data` has the fields of [`{first}`](#{first})."
        return
    notes = field_notes(kind)
    rows = (
        (code(field), code(_shown(field, hint)), "" if is_optional(kind, field) else "always", notes.get(field, ""))
        for field, hint in field_types(kind).items()
    )
    yield from table(["`data`", "type", "present", "meaning"], rows)


def _shown(field: str, hint: str) -> str:
    """As readers get it: moments as times, documents as JSON."""
    hint = hint.replace("Any", "JSON").removesuffix(" | None")
    return "datetime" if field.endswith("_at") else hint
