"""Which process a keeper watches by default: the agent's, else the terminal's shell.

Every step of an agent runs in shells and wrappers that end with it. Watching one of those would end a claim right after
it was made, so only a process that certainly stays is chosen. If there is none, silence decides.
"""

import os
from collections.abc import Sequence
from pathlib import PurePath

import msgspec

from octostore.core.errors import InvalidInput
from octostore.keeping.leases import KeptLease
from octostore.keeping.processes import Process, Seen, ancestors, find

AGENTS = frozenset(
    {"aider", "amp", "claude", "codex", "copilot", "crush", "cursor", "cursor-agent", "gemini", "goose", "opencode"}
)
"""The program names of agents."""
INTERPRETERS = frozenset({"bun", "deno", "node", "python", "python3"})
SHELLS = frozenset({"bash", "dash", "fish", "ksh", "nu", "sh", "tcsh", "zsh"})
_WITH_FILE = frozenset({"--init-file", "--rcfile"})
"""Options of an interactive shell that take a value."""


def watched(pid: int | None) -> Process | None:
    """The process with that number (0: none), or the default. Raises `InvalidInput` if it is not running."""
    if pid is None:
        return chosen(ancestors(os.getpid()))
    if pid == 0:
        return None
    found = find(pid)
    if found is None:
        raise InvalidInput("--while-pid", f"names process {pid}, which is not running")
    return found


def agent_here() -> Process | None:
    """The agent that runs this command, if one can be found."""
    return chosen_agent(ancestors(os.getpid()))


def name_of(agent: Process | None) -> str | None:
    """The default owner: two agents of one user must not be the same owner."""
    return None if agent is None else f"{agent.name}-{agent.pid}@{os.uname().nodename}"


def is_of_another_agent(lease: KeptLease, agent: Process | None) -> bool:
    """Whether it is watched for an agent other than `agent`. Without an agent, that is unknown."""
    process = lease.watched
    return agent is not None and process is not None and process != agent and process.name in AGENTS


def chosen(candidates: Sequence[Seen]) -> Process | None:
    """From the ancestors of a command, nearest first."""
    shells = (seen for seen in candidates if seen.leads_terminal and _is_interactive_shell(seen.command))
    shell = next(shells, None)
    return chosen_agent(candidates) or (None if shell is None else shell.process)


def chosen_agent(candidates: Sequence[Seen]) -> Process | None:
    for seen in candidates:
        name = _agent_name(seen)
        if name is not None:
            return msgspec.structs.replace(seen.process, name=name)
    return None


def _agent_name(seen: Seen) -> str | None:
    """By the name of the program, or of the script an interpreter runs."""
    program, *arguments = map(_program, seen.command)
    names = [seen.process.name, program, *(arguments[:1] if program in INTERPRETERS else [])]
    return next((name for name in names if name in AGENTS), None)


def _is_interactive_shell(command: Sequence[str]) -> bool:
    """Not one that runs a script or a command line (`bash -c …`), and ends with it."""
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
