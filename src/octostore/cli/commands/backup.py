"""Copy the embedded store to a new file while others keep writing to it.

The copy is one consistent state, synced to disk when the command ends. An existing file is never overwritten.
The copy contains every live lease, so only you can read it. `octostore restore` turns it into a store again.

For PostgreSQL, use its own tools; see docs/how-to/postgres.md.
"""

import argparse

from octostore.cli import exit_codes
from octostore.cli.exit_on_signals import exiting_on_signals
from octostore.cli.progress_bar import ProgressBar
from octostore.cli.subcommands import Arguments, Context

EXAMPLES = [
    "octostore backup /backups/octostore-monday.db",
    "octostore backup --url sqlite:////srv/jobs.db /backups/jobs.db",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the copy; it must not exist yet")


def run(arguments: Arguments, context: Context) -> int:
    with context.address.open_reader() as store, ProgressBar("copied") as bar, exiting_on_signals():
        store_id = store.figures().store_id
        seq = store.backup(arguments.file, bar.show)
    context.console.print_result(
        {"file": arguments.file, "store_id": store_id, "seq": seq},
        f"backed up store {store_id} up to event {seq:,} to {arguments.file}",
    )
    return exit_codes.SUCCESS
