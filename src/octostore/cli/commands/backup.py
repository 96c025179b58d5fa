"""Copy the embedded store to a new file while others keep writing to it.

The copy is one consistent state, synced to disk when the command ends. An existing file is never overwritten.
The copy contains every live lease, so only you may read it. `octostore restore` turns it into a store again.

For PostgreSQL, use its own tools; see docs/how-to/postgres.md.
"""

import argparse

from octostore.cli import exits
from octostore.cli.command import Arguments, Context
from octostore.cli.progress_bar import ProgressBar
from octostore.cli.tidying import tidied_up

EXAMPLES = [
    "octostore backup /backups/octostore-monday.db",
    "octostore backup --url sqlite:////srv/jobs.db /backups/jobs.db",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the copy; it must not exist yet")


def run(arguments: Arguments, context: Context) -> int:
    with context.place.look() as store, ProgressBar("copied") as bar, tidied_up():
        store_id = store.figures().store_id
        seq = store.backup(arguments.file, bar.show)
    context.console.answer(
        {"file": arguments.file, "store_id": store_id, "seq": seq},
        f"backed up store {store_id} up to event {seq:,} to {arguments.file}",
    )
    return exits.DID
