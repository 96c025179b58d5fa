"""What a command of the command line is made of."""

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import msgspec

from octostore.cli.console import Console
from octostore.cli.place import Place

Arguments = argparse.Namespace


class Context(msgspec.Struct, frozen=True):
    """What a command is carried out with."""

    console: Console
    place: Place


class CommandModule(Protocol):
    """A module of `commands/`: its docstring is the description."""

    __doc__: str | None
    EXAMPLES: Sequence[str]
    """Lines for a shell. Everything behind `#` explains."""

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: Arguments, context: Context) -> int | None:
        """The exit code, unless it is 0. Errors of the library are raised."""


class Command(msgspec.Struct, frozen=True):
    name: str
    group: str
    summary: str

    @property
    def module(self) -> CommandModule:
        # Only the one that is called: most of the time that a command takes is for imports.
        name = self.name.replace("-", "_")
        return cast("CommandModule", importlib.import_module(f"octostore.cli.commands.{name}"))


OWN, QUEUES, LOOK, OPERATE, SETUP = "Own a job", "Queues", "Look", "Operate", "Set up"
COMMANDS = [
    Command("run", OWN, "run a command as the one owner of a job"),
    Command("claim", OWN, "become the owner of a job"),
    Command("heartbeat", OWN, "prove you are alive, and keep the job"),
    Command("release", OWN, "end the claim, as done, failed or simply over"),
    Command("mine", OWN, "list what you hold, and what to do next"),
    Command("hand-over", OWN, "pass a live session on to another agent, with its jobs"),
    Command("progress", OWN, "show what you are doing"),
    Command("checkpoint", OWN, "save state for the next owner"),
    Command("batch", OWN, "carry out many commands in one call"),
    Command("enqueue", QUEUES, "put a job in a queue"),
    Command("next", QUEUES, "claim the job that is first in line"),
    Command("work", QUEUES, "run a command for each job of a queue"),
    Command("dead", QUEUES, "jobs that are out of attempts and wait for a person"),
    Command("requeue", QUEUES, "let a dead or done job run again"),
    Command("discard", QUEUES, "give a dead job up for good"),
    Command("cancel", QUEUES, "take a job out of its queue, and away from its owner"),
    Command("owner", LOOK, "who has a job, whether alive, doing what, and what was before"),
    Command("list", LOOK, "who has what"),
    Command("events", LOOK, "what happened, from the log"),
    Command("sessions", LOOK, "workers, their heartbeats, and what they are doing"),
    Command("health", LOOK, "whether the work gets done, and why not"),
    Command("recover", OPERATE, "write down every expiry now, and tell what was taken back"),
    Command("stop", OPERATE, "ask the owner of a job to stop"),
    Command("force-release", OPERATE, "take a job away from its owner"),
    Command("backup", OPERATE, "copy the store to a file while others keep writing"),
    Command("restore", OPERATE, "restore a backup"),
    Command("serve", SETUP, "serve a store over HTTP"),
    Command("mcp", SETUP, "serve a store to an agent, as MCP tools"),
    Command("setup", SETUP, "set up Claude Code, Codex or Cursor, in this folder or for all you do"),
    Command("hook", SETUP, "answer a hook of an agent's client"),
    Command("token", SETUP, "who may use a server"),
    Command("prime", SETUP, "print what an agent should know before it starts"),
    Command("doctor", SETUP, "check store, clock, token and permissions"),
    Command("demo", SETUP, "see five agents race for one job, in ten seconds"),
    Command("completion", SETUP, "what a shell needs to complete commands and job names"),
]
BY_NAME = {command.name: command for command in COMMANDS}

Completer = Callable[..., Sequence[str]]


def completed_by(action: argparse.Action, completer: Completer) -> None:
    """Let the shell offer what `completer` gives."""
    cast("Any", action).completer = completer
