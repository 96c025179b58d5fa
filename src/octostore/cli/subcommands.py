"""The table of subcommands, and what each module of `commands/` provides."""

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import msgspec

from octostore.cli.console import Console
from octostore.cli.store_address import StoreAddress

Arguments = argparse.Namespace


class Context(msgspec.Struct, frozen=True):
    """Where a subcommand prints, and the store it uses."""

    console: Console
    address: StoreAddress


class SubcommandModule(Protocol):
    """A module of `commands/`. Its docstring is the description in the help."""

    __doc__: str | None
    EXAMPLES: Sequence[str]
    """Shell lines, with explanations after `#`."""

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: Arguments, context: Context) -> int | None:
        """Return the exit code, or None for 0. The library's errors may propagate."""


class Subcommand(msgspec.Struct, frozen=True):
    name: str
    group: str
    summary: str

    @property
    def module(self) -> SubcommandModule:
        # Import only the one that runs: most of a command's time goes into imports.
        name = self.name.replace("-", "_")
        return cast("SubcommandModule", importlib.import_module(f"octostore.cli.commands.{name}"))


OWN, QUEUES, LOOK, OPERATE, SETUP = "Own a job", "Queues", "Look", "Operate", "Set up"
SUBCOMMANDS = [
    Subcommand("run", OWN, "run a command as the sole owner of a job"),
    Subcommand("claim", OWN, "become the owner of a job"),
    Subcommand("heartbeat", OWN, "prove you are alive and keep the job"),
    Subcommand("release", OWN, "end a claim: released, done, failed or deferred"),
    Subcommand("mine", OWN, "list what you hold, and what to do next"),
    Subcommand("hand-over", OWN, "pass a live session, with its jobs, to another agent"),
    Subcommand("progress", OWN, "show what you are doing"),
    Subcommand("checkpoint", OWN, "save state for the next owner"),
    Subcommand("batch", OWN, "run many commands in one call"),
    Subcommand("enqueue", QUEUES, "put a job in a queue"),
    Subcommand("next", QUEUES, "claim the next job of a queue"),
    Subcommand("work", QUEUES, "run a command for each job in a queue"),
    Subcommand("queues", QUEUES, "list queues, their jobs by status, and their throughput"),
    Subcommand("queue", QUEUES, "pause, resume or limit a queue"),
    Subcommand("dead", QUEUES, "list dead jobs: out of attempts, or cancelled"),
    Subcommand("requeue", QUEUES, "run a dead or finished job again"),
    Subcommand("discard", QUEUES, "drop a dead job for good"),
    Subcommand("cancel", QUEUES, "cancel a job, queued or claimed"),
    Subcommand("owner", LOOK, "show who owns a job, whether they are alive, and its history"),
    Subcommand("list", LOOK, "list jobs and their owners"),
    Subcommand("events", LOOK, "show what happened, from the log"),
    Subcommand("sessions", LOOK, "show sessions, their heartbeats, and what they are doing"),
    Subcommand("health", LOOK, "show whether work is getting done"),
    Subcommand("ui", LOOK, "open the live page in your browser"),
    Subcommand("recover", OPERATE, "record every expired lease now"),
    Subcommand("stop", OPERATE, "ask the owner of a job to stop"),
    Subcommand("force-release", OPERATE, "take a job away from its owner"),
    Subcommand("backup", OPERATE, "copy the store to a file while others keep writing"),
    Subcommand("restore", OPERATE, "restore a backup"),
    Subcommand("serve", SETUP, "serve a store over HTTP"),
    Subcommand("mcp", SETUP, "serve a store to an agent, as MCP tools"),
    Subcommand("setup", SETUP, "set up Claude Code, Codex or Cursor, for this project or for your user account"),
    Subcommand("hook", SETUP, "respond to a hook from an agent's client"),
    Subcommand("token", SETUP, "create, list, revoke and rotate tokens"),
    Subcommand("prime", SETUP, "print what an agent should know before it starts"),
    Subcommand("doctor", SETUP, "check the setup: store, clock, token, permissions"),
    Subcommand("demo", SETUP, "watch five agents race for one job, in about eight seconds"),
    Subcommand("completion", SETUP, "print shell completion for commands and job names"),
]
BY_NAME = {command.name: command for command in SUBCOMMANDS}

Completer = Callable[..., Sequence[str]]


def set_completer(action: argparse.Action, completer: Completer) -> None:
    """Offer what `completer` returns when the user presses Tab."""
    cast("Any", action).completer = completer
