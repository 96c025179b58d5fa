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
    Command("run", OWN, "run a command as the sole owner of a job"),
    Command("claim", OWN, "become the owner of a job"),
    Command("heartbeat", OWN, "prove you are alive and keep the job"),
    Command("release", OWN, "end a claim: released, done, failed or deferred"),
    Command("mine", OWN, "list what you hold, and what to do next"),
    Command("hand-over", OWN, "pass a live session to another agent, with its jobs"),
    Command("progress", OWN, "show what you are doing"),
    Command("checkpoint", OWN, "save state for the next owner"),
    Command("batch", OWN, "run many commands in one call"),
    Command("enqueue", QUEUES, "put a job in a queue"),
    Command("next", QUEUES, "claim the next job of a queue"),
    Command("work", QUEUES, "run a command for each job in a queue"),
    Command("queues", QUEUES, "list queues: what waits, runs and is done, and how fast"),
    Command("queue", QUEUES, "pause, resume or limit a queue"),
    Command("dead", QUEUES, "list dead jobs: out of attempts, or cancelled"),
    Command("requeue", QUEUES, "run a dead or finished job again"),
    Command("discard", QUEUES, "drop a dead job for good"),
    Command("cancel", QUEUES, "cancel a job, queued or claimed"),
    Command("owner", LOOK, "show who owns a job, whether they are alive, and its history"),
    Command("list", LOOK, "list jobs and their owners"),
    Command("events", LOOK, "show what happened, from the log"),
    Command("sessions", LOOK, "show sessions, their heartbeats, and what they are doing"),
    Command("health", LOOK, "show whether work is getting done"),
    Command("ui", LOOK, "open the live page in your browser"),
    Command("recover", OPERATE, "record every expired lease now"),
    Command("stop", OPERATE, "ask the owner of a job to stop"),
    Command("force-release", OPERATE, "take a job away from its owner"),
    Command("backup", OPERATE, "copy the store to a file while others keep writing"),
    Command("restore", OPERATE, "restore a backup"),
    Command("serve", SETUP, "serve a store over HTTP"),
    Command("mcp", SETUP, "serve a store to an agent, as MCP tools"),
    Command("setup", SETUP, "set up Claude Code, Codex or Cursor, for this project or for your user"),
    Command("hook", SETUP, "answer a hook of an agent's client"),
    Command("token", SETUP, "create, list and revoke tokens"),
    Command("prime", SETUP, "print what an agent should know before it starts"),
    Command("doctor", SETUP, "check the setup: store, clock, token, permissions"),
    Command("demo", SETUP, "watch five agents race for one job, in ten seconds"),
    Command("completion", SETUP, "shell completion for commands and job names"),
]
BY_NAME = {command.name: command for command in COMMANDS}

Completer = Callable[..., Sequence[str]]


def completed_by(action: argparse.Action, completer: Completer) -> None:
    """Let the shell offer what `completer` gives."""
    cast("Any", action).completer = completer
