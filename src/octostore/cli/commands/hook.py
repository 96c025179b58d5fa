"""Answer a hook of an agent's client, in its own format. `octostore setup` writes the lines that call this.

It reads the client's JSON from stdin, answers at once and always exits with 0: a store that is away does not stop an
agent. session-start opens a session and tells the agent what it should know; tool-use is a sign of life, told to the
store at most once in 30 s; compaction reminds the agent of what it holds; stop tells it once what it still holds;
session-end releases that, in the background.
"""

import argparse
import sys

from octostore.agents.hooks.payload import BadPayload, read_payload
from octostore.cli.command import Arguments, Context
from octostore.cli.hooked import Hook
from octostore.cli.hooking import EVENTS
from octostore.core.errors import OctoStoreError

EXAMPLES = ['echo \'{"session_id": "1"}\' | octostore hook session-start']


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("event", metavar="EVENT", choices=list(EVENTS), help=", ".join(EVENTS))


def run(arguments: Arguments, context: Context) -> None:
    try:
        answer = EVENTS[arguments.event](Hook(read_payload(sys.stdin), context.place))
    except BadPayload as problem:
        context.console.remark(f"hook {arguments.event} did nothing with its payload: {problem}")
    except (OctoStoreError, OSError) as problem:
        context.console.remark(f"hook {arguments.event}: {problem}")
    except Exception as fault:  # noqa: BLE001  # an agent must not fail because of us
        context.console.remark(f"hook {arguments.event}: this is a fault of ours: {type(fault).__name__}: {fault}")
    else:
        if answer is not None:
            context.console.say(*answer.splitlines())
