"""Copy the embedded store to a new file, while others go on writing to it.

The copy is one consistent state, and durable when the command ends. A file that exists is never overwritten. `octostore
restore` makes a store of it. It holds every live lease: only you may read it, and nobody else should.

PostgreSQL has tools of its own for this; see docs/how-to/postgres.md.
"""

import argparse

from octostore.cli import exits
from octostore.cli.command import Arguments, Context
from octostore.cli.progress_bar import ProgressBar

EXAMPLES = [
    "octostore backup /backups/octostore-monday.db",
    "octostore backup --url sqlite:////srv/jobs.db /backups/jobs.db",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="where the copy goes; nothing may be there")


def run(arguments: Arguments, context: Context) -> int:
    with context.place.look() as store, ProgressBar("copied") as bar:
        store_id = store.figures().store_id
        seq = store.backup(arguments.file, bar.show)
    context.console.answer(
        {"file": arguments.file, "store_id": store_id, "seq": seq},
        f"{arguments.file} has all of store {store_id} up to event {seq:,}",
    )
    return exits.DID
