"""Make a store of a backup, at the place that --url or OCTOSTORE_URL names.

The store goes on with higher numbers than any that can have been given out since the backup, so that no fencing token
is given out twice; the log says so with an event, `restored`. Claims that were made since are gone: let the longest TTL
pass before workers start again, or rely on fencing tokens. See docs/how-to/backup.md.

With --replace, a store that is there is put aside under another name; nobody may be using it. With --forward and no
file, the store that is there, put back by other means, goes on with higher numbers.
"""

import argparse

from octostore.cli import exits
from octostore.cli.command import Arguments, Context
from octostore.cli.progress_bar import ProgressBar
from octostore.core.errors import InvalidInput
from octostore.stores.opening import sqlite_path

EXAMPLES = [
    "octostore restore /backups/octostore-monday.db",
    "octostore restore --url sqlite:////srv/jobs.db --replace /backups/jobs.db",
    "octostore restore --forward    # after the file was put back by hand",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="the backup")
    parser.add_argument("--replace", action="store_true", help="put aside what is there, instead of refusing")
    parser.add_argument("--forward", action="store_true", help="only go on with higher numbers; takes no FILE")


def run(arguments: Arguments, context: Context) -> int:
    from octostore.stores.sqlite import copying  # noqa: PLC0415  # brings SQLite along

    path = sqlite_path(context.place.url)
    if path is None:
        raise InvalidInput("url", "must name a file, as in sqlite:///FILE; for PostgreSQL see docs/how-to/postgres.md")
    if arguments.forward == (arguments.file is not None) or (arguments.forward and arguments.replace):
        raise InvalidInput("file", "is needed, or --forward without one")
    aside = None
    if arguments.forward:
        seq = copying.go_on_ahead(path)
    else:
        with ProgressBar("copied") as bar:
            seq, aside = copying.restore(arguments.file, path, replace=arguments.replace, on_step=bar.show)
    lines = [f"{path} goes on with event {seq + 1:,}: no fencing token is given out twice"]
    if aside is not None:
        lines.append(f"what was there is at {aside}")
    context.console.answer({"path": path, "seq": seq, "replaced": aside}, *lines)
    return exits.DID
