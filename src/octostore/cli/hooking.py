"""What happens at each event of a client: see `octostore.agents.hooks`."""

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from octostore.agents.hooks import answers
from octostore.agents.hooks.detached import in_a_detached_child
from octostore.cli import words
from octostore.cli.hooked import PATIENCE_SECONDS, Hook, asked, held_by, import_what_looking_takes
from octostore.client.owner import OWNER_VARIABLE
from octostore.core.errors import OctoStoreError
from octostore.core.visible import visible

if TYPE_CHECKING:
    from octostore.client.reader import Reader

LIFE_SECONDS = 30.0
SHOWN_MAX = 8
REASON_MAX = 200
ENV_FILE_VARIABLE = "CLAUDE_ENV_FILE"


def at_session_start(hook: Hook) -> str:
    _ = hook.owner  # which the child, an orphan, could not find out
    in_a_detached_child(partial(_begin, hook))
    with hook.remembered.memory() as memory:
        memory.life_at, memory.is_compacted = time.time(), False
    _name_the_agent(hook)
    from octostore.cli.priming import prime  # noqa: PLC0415  # not for every event

    import_what_looking_takes(hook.place)
    text = prime(hook.owner, hook.place, patience=PATIENCE_SECONDS).text
    if hook.has_to_say_who_it_is:
        text += f"\nUse `--owner {hook.owner}` in every octostore command, or `export {OWNER_VARIABLE}={hook.owner}`."
    if hook.payload.is_after_compaction:
        with suppress(OctoStoreError):  # that the store is away has been said
            text += "".join(f"\n{line}" for line in _told_held(hook))
    return answers.context_at_start(hook.payload.client, text, hook.owner)


def at_tool_use(hook: Hook) -> str | None:
    _show_life(hook)
    with hook.remembered.memory() as memory:
        tells, memory.is_compacted = memory.is_compacted, False
    if not tells:
        return None
    with suppress(OctoStoreError):
        text = "\n".join(_told_held(hook))
        return answers.context_after_tool(hook.payload.client, text) if text else None
    with hook.remembered.memory() as memory:
        memory.is_compacted = True  # next time
    return None


def at_compaction(hook: Hook) -> str | None:
    client = hook.payload.client
    if client == "cursor":
        # It has no other way to tell the agent, and does not start its session again afterwards.
        with hook.remembered.memory() as memory:
            memory.is_compacted = True
    try:
        return answers.before_compaction(client, "\n".join(_told_held(hook))) or None
    except OctoStoreError as error:
        return answers.notice(client, _told_away(error), is_compaction=True)


def at_stop(hook: Hook) -> str | None:
    _show_life(hook)
    if hook.payload.is_stopping_again:
        return None
    try:
        held = [claim.job_id for claim in held_by(hook)]
    except OctoStoreError as error:
        return answers.notice(hook.payload.client, _told_away(error))
    with hook.remembered.memory() as memory:
        new = [job for job in held if job not in memory.reported]
        memory.reported = held
    return answers.not_yet(hook.payload.client, _told_still_held(new, hook)) if new else None


def at_session_end(hook: Hook) -> None:
    _ = hook.owner, hook.agent  # which the child, an orphan, could not find out
    in_a_detached_child(partial(_end, hook))


EVENTS: dict[str, Callable[[Hook], str | None]] = {
    "session-start": at_session_start,
    "tool-use": at_tool_use,
    "compaction": at_compaction,
    "stop": at_stop,
    "session-end": at_session_end,
}


# In the background


def _begin(hook: Hook) -> None:
    hook.remembered.forget_old()
    _keep_session(hook)


def _show_life(hook: Hook) -> None:
    """At most once in a while: agents use tools all the time."""
    with hook.remembered.memory() as memory:
        if not memory.needs_sign_of_life(time.time(), LIFE_SECONDS):
            return
        memory.life_at = time.time()
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # once in a while

    KeptLeases.of_store(hook.place.url).show_life(hook.owner)
    in_a_detached_child(partial(_keep_session, hook))


def _keep_session(hook: Hook) -> None:
    from octostore.agents.hooks.sessions import keep_session  # noqa: PLC0415  # imports all of a client

    keep_session(hook.place.url, hook.payload.session, hook.owner, hook.remembered)


def _end(hook: Hook) -> None:
    from octostore.agents.hooks.sessions import end_session  # noqa: PLC0415  # imports all of a client
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # the same

    ours = [lease for lease in KeptLeases.of_store(hook.place.url).of(hook.owner) if hook.is_ours(lease)]
    end_session(hook.place.url, hook.payload.session, hook.owner, hook.remembered, ours)


# What the agent is told


def _name_the_agent(hook: Hook) -> None:
    """For all commands of its shells, where the client has a file for that."""
    path = os.environ.get(ENV_FILE_VARIABLE)
    line = f"export {OWNER_VARIABLE}={shlex.quote(hook.owner)}\n"
    if path and hook.has_to_say_who_it_is:
        # If it cannot be written, the agent still reads what it is called.
        with suppress(OSError), Path(path).open("a+", encoding="utf-8") as file:
            file.seek(0)
            if line not in file.read():
                file.write(line)


def _told_held(hook: Hook) -> Iterator[str]:
    """With what it has saved: a summary of a long talk may leave that out."""
    held = held_by(hook)
    if not held:
        return
    yield f"You are {visible(hook.owner)} and hold these jobs in OctoStore, with your last checkpoint of each:"
    yield from asked(hook.place, partial(_told_checkpoints, [claim.job_id for claim in held[:SHOWN_MAX]]))
    if len(held) > SHOWN_MAX:
        yield f"- and {len(held) - SHOWN_MAX:,} more: `octostore mine`"
    yield "Release each of them when you stop working on it."


def _told_checkpoints(jobs: list[str], store: "Reader") -> list[str]:
    saved = {job: store.get_job(job).checkpoint for job in jobs}
    return [
        f"- {visible(job)}: {'none yet' if data is None else visible(words.glimpse(data))}"
        for job, data in saved.items()
    ]


def _told_still_held(jobs: list[str], hook: Hook) -> str:
    listed = ", ".join(visible(job) for job in jobs[:SHOWN_MAX]) + (" and more" if len(jobs) > SHOWN_MAX else "")
    owner = f" --owner {hook.owner}" if hook.has_to_say_who_it_is else ""
    return (
        f"You still hold {listed} in OctoStore. If the work is finished, run `octostore release{owner} JOB --outcome "
        "done`; if you give up, use `--outcome failed --error TEXT` or `--outcome released --note TEXT`. Use the tool "
        "release_job for what was claimed with a tool. If you will continue later, save a checkpoint and stop again. "
        "You will not be asked twice."
    )


def _told_away(error: OctoStoreError) -> str:
    return f"OctoStore: the store cannot be asked now: {words.shortened(str(error), REASON_MAX)}"
