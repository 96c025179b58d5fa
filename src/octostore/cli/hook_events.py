"""Handle each event of an agent's client: see `octostore.agents.hooks`."""

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from octostore.agents.hooks import replies
from octostore.agents.hooks.detached import in_a_detached_child
from octostore.cli import words
from octostore.cli.activity import active_owner, kept_leases
from octostore.cli.hook_call import PATIENCE_SECONDS, HookCall, ask_in_time, claims_held_by, import_reader
from octostore.client.owner import OWNER_VARIABLE
from octostore.core.errors import OctoStoreError
from octostore.core.visible import visible

if TYPE_CHECKING:
    from octostore.client.reader import Reader

LIFE_SECONDS = 30.0
SHOWN_MAX = 8
REASON_MAX = 200
ENV_FILE_VARIABLE = "CLAUDE_ENV_FILE"


def at_session_start(hook: HookCall) -> str:
    _ = hook.owner  # cached here: the detached child could not determine it
    in_a_detached_child(partial(_begin, hook))
    _show_life(hook)
    with hook.remembered.memory() as memory:
        memory.life_at, memory.is_compacted = time.time(), False
    _name_the_agent(hook)
    from octostore.cli.prime import prime  # noqa: PLC0415  # not for every event

    import_reader(hook.address)
    text = prime(hook.owner, hook.address, patience=PATIENCE_SECONDS).text
    if hook.must_pass_owner:
        text += f"\nUse `--owner {hook.owner}` in every octostore command, or `export {OWNER_VARIABLE}={hook.owner}`."
    if hook.payload.is_after_compaction:
        with suppress(OctoStoreError):  # `prime` has reported it
            text += "".join(f"\n{line}" for line in _held_lines(hook))
    return replies.context_at_start(hook.payload.client, text, hook.owner)


def at_tool_use(hook: HookCall) -> str | None:
    _record_activity(hook)
    with hook.remembered.memory() as memory:
        must_remind, memory.is_compacted = memory.is_compacted, False
    if not must_remind:
        return None
    with suppress(OctoStoreError):
        text = "\n".join(_held_lines(hook))
        return replies.context_after_tool(hook.payload.client, text) if text else None
    with hook.remembered.memory() as memory:
        memory.is_compacted = True  # next time
    return None


def at_compaction(hook: HookCall) -> str | None:
    _show_life(hook)
    client = hook.payload.client
    if client == "cursor":
        # Cursor cannot show the agent a message now, and does not restart its session after compacting.
        with hook.remembered.memory() as memory:
            memory.is_compacted = True
    try:
        return replies.before_compaction(client, "\n".join(_held_lines(hook))) or None
    except OctoStoreError as error:
        return replies.notice(client, _unreadable_message(error), is_compaction=True)


def at_stop(hook: HookCall) -> str | None:
    _record_activity(hook)
    if hook.payload.is_stopping_again:
        return None
    try:
        held = [claim.job_id for claim in claims_held_by(hook)]
    except OctoStoreError as error:
        return replies.notice(hook.payload.client, _unreadable_message(error))
    with hook.remembered.memory() as memory:
        new = [job for job in held if job not in memory.reported]
        memory.reported = held
    return replies.not_yet(hook.payload.client, _still_held_message(new, hook)) if new else None


def at_session_end(hook: HookCall) -> None:
    _ = hook.owner, hook.agent  # cached here: the detached child could not determine them
    in_a_detached_child(partial(_end, hook))


EVENTS: dict[str, Callable[[HookCall], str | None]] = {
    "session-start": at_session_start,
    "tool-use": at_tool_use,
    "compaction": at_compaction,
    "stop": at_stop,
    "session-end": at_session_end,
}


# In the background


def _begin(hook: HookCall) -> None:
    hook.remembered.forget_old()
    _keep_session(hook)


def _record_activity(hook: HookCall) -> None:
    """At most once in `LIFE_SECONDS`: agents use tools all the time."""
    with hook.remembered.memory() as memory:
        if not memory.needs_sign_of_life(time.time(), LIFE_SECONDS):
            return
        memory.life_at = time.time()
    _show_life(hook)
    in_a_detached_child(partial(_keep_session, hook))


def _show_life(hook: HookCall) -> None:
    """Tell the keepers of its agent's claims. Never fails; the hook itself will report any problem."""
    with suppress(OctoStoreError, OSError):
        leases = kept_leases(hook.address)
        if leases is not None:
            # An agent named after its session may share its process with others, so it is nobody else.
            leases.show_life(hook.owner if hook.must_pass_owner else active_owner(None, leases))


def _keep_session(hook: HookCall) -> None:
    from octostore.agents.hooks.sessions import keep_session  # noqa: PLC0415  # imports all of a client

    keep_session(hook.address.url, hook.payload.session, hook.owner, hook.remembered)


def _end(hook: HookCall) -> None:
    from octostore.agents.hooks.sessions import end_session  # noqa: PLC0415  # imports all of a client
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # not for every event

    ours = [lease for lease in KeptLeases.of_store(hook.address.url).of(hook.owner) if hook.is_ours(lease)]
    end_session(hook.address.url, hook.payload.session, hook.owner, hook.remembered, ours)


# Messages to the agent


def _name_the_agent(hook: HookCall) -> None:
    """Set its owner name for all its shell commands, if the client has an environment file."""
    path = os.environ.get(ENV_FILE_VARIABLE)
    line = f"export {OWNER_VARIABLE}={shlex.quote(hook.owner)}\n"
    if path and hook.must_pass_owner:
        # If this fails, the agent still gets its name in the text.
        with suppress(OSError), Path(path).open("a+", encoding="utf-8") as file:
            file.seek(0)
            if line not in file.read():
                file.write(line)


def _held_lines(hook: HookCall) -> Iterator[str]:
    """What it holds, with its checkpoints: the client's summary may leave them out."""
    held = claims_held_by(hook)
    if not held:
        return
    yield f"You are {visible(hook.owner)} and hold these jobs in OctoStore, with your last checkpoint of each:"
    yield from ask_in_time(hook.address, partial(_checkpoint_lines, [claim.job_id for claim in held[:SHOWN_MAX]]))
    if len(held) > SHOWN_MAX:
        yield f"- and {len(held) - SHOWN_MAX:,} more: `octostore mine`"
    yield "Release each of them when you stop working on it."


def _checkpoint_lines(jobs: list[str], store: "Reader") -> list[str]:
    saved = {job: store.get_job(job).checkpoint for job in jobs}
    return [
        f"- {visible(job)}: {'none yet' if data is None else visible(words.preview(data))}"
        for job, data in saved.items()
    ]


def _still_held_message(jobs: list[str], hook: HookCall) -> str:
    listed = ", ".join(visible(job) for job in jobs[:SHOWN_MAX]) + (" and more" if len(jobs) > SHOWN_MAX else "")
    owner = f" --owner {hook.owner}" if hook.must_pass_owner else ""
    return (
        f"You still hold {listed} in OctoStore. If the work is finished, run `octostore release{owner} JOB --outcome "
        "done`; if you give up, use `--outcome failed --error TEXT` or `--outcome released --note TEXT`. Use the tool "
        "release_job for jobs you claimed with a tool. If you will continue later, save a checkpoint and stop again. "
        "You will not be asked twice."
    )


def _unreadable_message(error: OctoStoreError) -> str:
    return f"OctoStore: the store cannot be read now: {words.shorten(str(error), REASON_MAX)}"
