"""Respond to a hook from an agent's client, in the client's format. `octostore setup` writes the lines that call this.

It reads the client's JSON from stdin, responds at once and exits with 0, so that an unreachable store does not stop the
agent. session-start opens a session and tells the agent what it should know; tool-use counts as a heartbeat, sent at
most once every 30 s; compaction reminds the agent of what it holds; stop does the same once, when the agent stops;
session-end releases what the agent holds, in the background. Any other EVENT does nothing: a newer version may have
written the line. Only a line without EVENT, or with an unknown option, is an error (exit code 64).
"""

import argparse
import sys

from octostore.agents.hooks.payload import BadPayload, read_payload
from octostore.cli.hook_call import HookCall
from octostore.cli.hook_events import EVENTS
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.core.errors import OctoStoreError

EXAMPLES = ['echo \'{"session_id": "1"}\' | octostore hook session-start']


def configure(parser: argparse.ArgumentParser) -> None:
    # Without `choices`, because an event that this version does not know is not an error.
    set_completer(parser.add_argument("event", metavar="EVENT", help=", ".join(EVENTS)), lambda **_: list(EVENTS))


def run(arguments: Arguments, context: Context) -> None:
    handle = EVENTS.get(arguments.event, _do_nothing)
    try:
        output = handle(HookCall(read_payload(sys.stdin), context.address))
    except BadPayload as problem:
        context.console.print_message(f"hook {arguments.event} ignored its payload: {problem}")
    except (OctoStoreError, OSError) as problem:
        context.console.print_message(f"hook {arguments.event}: {problem}")
    except Exception as fault:  # noqa: BLE001  # a hook must never fail the agent
        context.console.print_message(f"hook {arguments.event}: internal error: {type(fault).__name__}: {fault}")
    else:
        if output is not None:
            context.console.print_lines(*output.splitlines())


def _do_nothing(_call: HookCall) -> None:
    """The payload has been read, so the client does not write to a closed pipe."""
