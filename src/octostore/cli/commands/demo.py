"""Watch five agents race for one job: one wins, is killed for real, and another takes over and finishes.

Each agent is a separate process. They share a throwaway store in a temporary folder; your own store is not touched, and
nothing is left behind.
"""

import argparse
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from octostore.cli.command import Arguments, Context
from octostore.cli.console import Console
from octostore.cli.demo.live import LiveView
from octostore.cli.demo.plot import AGENTS
from octostore.cli.demo.race import Race
from octostore.cli.demo.team import Team
from octostore.cli.demo.telling import Narrator, close_story, open_story
from octostore.client.connect import connect
from octostore.stores.sqlite.connection import make
from octostore.supervise.dispositions import ENDING, Dispositions
from octostore.supervise.wakeups import SignalPipe

EXAMPLES = [
    "octostore demo",
    "octostore demo --json    # one document per line: what happens, then the event log",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(_arguments: Arguments, context: Context) -> None:
    began_at = time.monotonic()
    endings = [number for number in Dispositions().forwarded if number in ENDING]
    open_story(context.console)
    # A signal is waited for like everything else, so that it never comes in the middle of starting or tidying up.
    with SignalPipe(endings) as signals, tempfile.TemporaryDirectory(prefix="octostore-demo-") as folder:
        _race(Path(folder), signals, context.console, began_at)


def _race(folder: Path, signals: SignalPipe, console: Console, began_at: float) -> None:
    path = str(folder / "octostore.db")
    url = f"sqlite:///{quote(path)}"
    make(path)  # it is looked at before anybody has claimed
    with connect(url) as store:
        with Team(AGENTS, url, folder, signals) as team:
            show = LiveView(console, store, team.pids) if console.is_live else Narrator(console)
            Race(team, store, show, began_at).run()
        close_story(console, store.events())
