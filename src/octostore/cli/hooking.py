"""What happens at each event of a client: see `octostore.agents.hooks`."""

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import msgspec

from octostore.agents.hooks import answers
from octostore.agents.hooks.detached import in_a_detached_child
from octostore.agents.hooks.memory import Remembered
from octostore.agents.hooks.payload import Payload
from octostore.cli import words
from octostore.cli.place import Place
from octostore.client.owner import OWNER_VARIABLE
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.replies import JobOwner
from octostore.core.visible import visible

if TYPE_CHECKING:
    from octostore.keeping.processes import Process

PATIENCE_SECONDS = 0.2
"""For the store. A client waits for its hooks, and a person for the client."""
LIFE_SECONDS = 30.0
SHOWN_MAX = 8
REASON_MAX = 200
ENV_FILE_VARIABLE = "CLAUDE_ENV_FILE"


class Hook(msgspec.Struct, frozen=True):
    """One event of one session."""

    payload: Payload
    place: Place

    @property
    def named_owner(self) -> str | None:
        return os.environ.get(OWNER_VARIABLE) or None

    @property
    def owner(self) -> str:
        return self.named_owner or self.payload.owner

    @property
    def remembered(self) -> Remembered:
        return Remembered(self.place.url, self.payload.session)


def at_session_start(hook: Hook) -> str:
    in_a_detached_child(partial(_begin, hook, hook.remembered))
    with hook.remembered.memory() as memory:
        memory.life_at, memory.is_compacted = time.time(), False
    _name_the_agent(hook)
    from octostore.cli.priming import prime  # noqa: PLC0415  # not for every event

    text = prime(hook.owner, hook.place, patience=PATIENCE_SECONDS).text
    if hook.named_owner is None:
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
        held = [claim.job_id for claim in _held(hook)]
    except OctoStoreError as error:
        return answers.notice(hook.payload.client, _told_away(error))
    with hook.remembered.memory() as memory:
        new = [job for job in held if job not in memory.reported]
        memory.reported = held
    return answers.not_yet(hook.payload.client, _told_still_held(new, hook)) if new else None


def at_session_end(hook: Hook) -> None:
    from octostore.keeping.watching import watched  # noqa: PLC0415  # not for every event

    agent = None if hook.named_owner is None else watched(None)
    in_a_detached_child(partial(_end, hook, hook.remembered, agent))


EVENTS: dict[str, Callable[[Hook], str | None]] = {
    "session-start": at_session_start,
    "tool-use": at_tool_use,
    "compaction": at_compaction,
    "stop": at_stop,
    "session-end": at_session_end,
}


# In the background


def _begin(hook: Hook, remembered: Remembered) -> None:
    remembered.forget_old()
    _keep_session(hook, remembered)


def _show_life(hook: Hook) -> None:
    """At most once in a while: agents use tools all the time."""
    remembered = hook.remembered
    with remembered.memory() as memory:
        if not memory.needs_sign_of_life(time.time(), LIFE_SECONDS):
            return
        memory.life_at = time.time()
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # once in a while

    KeptLeases.of_store(hook.place.url).show_life(hook.owner)
    in_a_detached_child(partial(_keep_session, hook, remembered))


def _keep_session(hook: Hook, remembered: Remembered) -> None:
    from octostore.agents.hooks.sessions import keep_session  # noqa: PLC0415  # imports all of a client

    keep_session(hook.place.url, hook.payload.session, hook.owner, remembered)


def _end(hook: Hook, remembered: Remembered, agent: "Process | None") -> None:
    from octostore.agents.hooks.sessions import end_session  # noqa: PLC0415  # imports all of a client

    is_alone = hook.named_owner is None
    end_session(hook.place.url, hook.payload.session, hook.owner, remembered, agent=agent, is_alone=is_alone)


# What the agent is told


def _name_the_agent(hook: Hook) -> None:
    """For all commands of its shells, where the client has a file for that."""
    path = os.environ.get(ENV_FILE_VARIABLE)
    line = f"export {OWNER_VARIABLE}={shlex.quote(hook.owner)}\n"
    if path and hook.named_owner is None:
        with Path(path).open("a+", encoding="utf-8") as file:
            file.seek(0)
            if line not in file.read():
                file.write(line)


def _told_held(hook: Hook) -> Iterator[str]:
    """With what it has saved: a summary of a long talk may leave that out."""
    held = _held(hook)
    if held:
        yield f"You are {visible(hook.owner)} and hold these jobs in OctoStore. Release each of them when you stop."
    for claim in held[:SHOWN_MAX]:
        yield f"- {visible(claim.job_id)}: `octostore owner {shlex.quote(claim.job_id)} --json` has its checkpoint"
    if len(held) > SHOWN_MAX:
        yield f"- and {len(held) - SHOWN_MAX:,} more: `octostore mine`"


def _told_still_held(jobs: list[str], hook: Hook) -> str:
    listed = ", ".join(visible(job) for job in jobs[:SHOWN_MAX]) + (" and more" if len(jobs) > SHOWN_MAX else "")
    owner = "" if hook.named_owner else f" --owner {hook.owner}"
    return (
        f"You still hold {listed} in OctoStore. If the work is finished, run `octostore release{owner} JOB --outcome "
        "done`; if you give up, use `--outcome failed --error TEXT` or `--outcome released --note TEXT`. If you will "
        "continue later, save a checkpoint and stop again. You will not be asked twice."
    )


def _told_away(error: OctoStoreError) -> str:
    return f"OctoStore: the store cannot be asked now: {words.shortened(str(error), REASON_MAX)}"


# What it holds


def _held(hook: Hook) -> list[JobOwner]:
    """By this session: others may use the same name."""
    claims = [claim for claim in _asked(hook.place) if claim.owner == hook.owner]
    if not claims or hook.named_owner is None:
        return claims
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # not for every event
    from octostore.keeping.watching import watched  # noqa: PLC0415

    agent = watched(None)
    kept = KeptLeases.of_store(hook.place.url).of(hook.owner)
    ours = {lease.fencing_token for lease in kept if agent is not None and lease.watched == agent}
    return [claim for claim in claims if claim.fencing_token in ours]


def _asked(place: Place) -> list[JobOwner]:
    found: list[list[JobOwner]] = []
    failed: list[OctoStoreError] = []

    def ask() -> None:
        try:
            with place.look() as store:
                found.append(list(store.list_claimed_jobs()))
        except OctoStoreError as error:
            failed.append(error)

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    if found:
        return found[0]
    if failed and isinstance(failed[0], Unreachable) and failed[0].reason == "no_store":
        return []
    raise failed[0] if failed else Unreachable(f"no answer within {PATIENCE_SECONDS:g} s", reason="timeout")
