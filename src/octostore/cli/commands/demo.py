"""Watch five agents race for one job: one wins, is killed for real, and another takes over and finishes.

Each agent is a separate process. They share a throwaway store in a temporary folder; your own store is not touched, and
nothing is left behind. With --here, they race in your own store, where the live page shows the race as it happens.
"""

import argparse
import secrets
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from octostore.cli.console import Console
from octostore.cli.demo.live import LiveView
from octostore.cli.demo.narrator import Narrator, close_story, open_story
from octostore.cli.demo.plot import AGENTS, JOB_ID
from octostore.cli.demo.race import Race, Show
from octostore.cli.demo.team import Team
from octostore.cli.store_address import StoreAddress
from octostore.cli.subcommands import Arguments, Context
from octostore.client.store import OctoStore
from octostore.core.errors import Unreachable
from octostore.stores.sqlite.connection import make
from octostore.supervise.dispositions import TERMINATING_SIGNALS, Dispositions
from octostore.supervise.signal_pipe import SignalPipe

EXAMPLES = [
    "octostore demo",
    "octostore demo --json    # one document per line: what happens, then the event log",
    "octostore demo --here    # while `octostore ui` is open",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--here", action="store_true", help="use your own store, and leave the finished job there")


def run(arguments: Arguments, context: Context) -> None:
    began_at = time.monotonic()
    endings = [number for number in Dispositions().forwarded if number in TERMINATING_SIGNALS]
    # Signals are read from a pipe, so that none interrupts starting or cleaning up.
    with SignalPipe(endings) as signals, tempfile.TemporaryDirectory(prefix="octostore-demo-") as name:
        folder = Path(name)
        # A new job for each demo: the previous one is done.
        address, job_id = (
            (context.address, f"demo-{secrets.token_hex(3)}") if arguments.here else (_throwaway(folder), JOB_ID)
        )
        with address.open() as store:
            _check_store(store, job_id)
            open_story(context.console, job_id)
            with Team(AGENTS, address.url, job_id, folder, signals) as team:
                Race(team, store, _show(context.console, store, team, job_id), job_id, began_at).run()
            close_story(context.console, store.events(job_id=job_id))


def _check_store(store: OctoStore, job_id: str) -> None:
    """Fail here, and not in the agents, if the store cannot be reached. Create it if it does not exist."""
    try:
        store.get_job(job_id)
    except Unreachable as error:
        if error.reason != "no_store":
            raise
        store.claim_next(kinds=[job_id])  # finds no such job, but unlike a read, a claim creates the store


def _throwaway(folder: Path) -> StoreAddress:
    path = str(folder / "octostore.db")
    make(path)  # it is read before anyone has claimed
    return StoreAddress(f"sqlite:///{quote(path)}", "the demo")


def _show(console: Console, store: OctoStore, team: Team, job_id: str) -> Show:
    return LiveView(console, store, team.pids, job_id) if console.is_live else Narrator(console)
