"""Which process a keeper watches if nobody says: the agent's, else the shell of the terminal.

Every step of an agent runs in shells and wrappers that end with it. Watching one of those would end a claim right after
it was made, so only what surely stays is chosen. Where nothing does, silence decides.
"""

import os
from collections.abc import Sequence
from pathlib import PurePath

from octostore.core.errors import InvalidInput
from octostore.keeping.processes import Process, Seen, ancestors, find

AGENTS = frozenset(
    {"aider", "amp", "claude", "codex", "copilot", "crush", "cursor", "cursor-agent", "gemini", "goose", "opencode"}
)
"""What the programs of agents are called."""
INTERPRETERS = frozenset({"bun", "deno", "node", "python", "python3"})
SHELLS = frozenset({"bash", "dash", "fish", "ksh", "nu", "sh", "tcsh", "zsh"})
_WITH_FILE = frozenset({"--init-file", "--rcfile"})
"""Options of an interactive shell that have a value."""


def watched(pid: int | None) -> Process | None:
    """The process with that number (0: none), or the one that is found. Raises `InvalidInput` if it does not run."""
    if pid is None:
        return chosen(ancestors(os.getpid()))
    if pid == 0:
        return None
    found = find(pid)
    if found is None:
        raise InvalidInput("--while-pid", f"names process {pid}, which does not run")
    return found


def chosen(candidates: Sequence[Seen]) -> Process | None:
    """Of the ancestors of a command, nearest first."""
    agents = (seen for seen in candidates if _is_agent(seen))
    shells = (seen for seen in candidates if seen.leads_terminal and _is_interactive_shell(seen.command))
    found = next(agents, None) or next(shells, None)
    return None if found is None else found.process


def _is_agent(seen: Seen) -> bool:
    """By its name; or by that of the script, if it is run by an interpreter."""
    program, *arguments = map(_program, seen.command)
    if seen.process.name in AGENTS or program in AGENTS:
        return True
    return program in INTERPRETERS and bool(arguments) and arguments[0] in AGENTS


def _is_interactive_shell(command: Sequence[str]) -> bool:
    """Not one that runs a script or a line (`bash -c …`), and ends with it."""
    if _program(command[0]) not in SHELLS:
        return False
    arguments = iter(command[1:])
    for argument in arguments:
        if argument in _WITH_FILE:
            next(arguments, None)
        elif not argument.startswith("-") or (not argument.startswith("--") and "c" in argument):
            return False
    return True


def _program(word: str) -> str:
    """A login shell has a dash in front of its name."""
    return PurePath(word.removeprefix("-")).name.removesuffix(".js")
