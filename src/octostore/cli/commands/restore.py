"""Restore a backup to the file that --url or OCTOSTORE_URL names, or else to your own file.

The store continues above every number that could have been issued since the backup, so no fencing token is issued
twice; a `restored` event records this. Claims made since the backup are gone: wait for the longest TTL before you
restart the workers, or rely on fencing tokens. See docs/how-to/backup.md.

With --replace, an existing store is moved aside, unless it is in use. --forward, without FILE, makes a store that was
put back by other means continue with higher numbers.
"""

import argparse

from octostore.cli import exit_codes
from octostore.cli.exit_on_signals import exiting_on_signals
from octostore.cli.progress_bar import ProgressBar
from octostore.cli.subcommands import Arguments, Context
from octostore.core.errors import InvalidInput
from octostore.stores.opening import make_data_folder, sqlite_path

EXAMPLES = [
    "octostore restore /backups/octostore-monday.db",
    "octostore restore --url sqlite:////srv/jobs.db --replace /backups/jobs.db",
    "octostore restore --forward    # after the file was restored by other means",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="the backup")
    parser.add_argument("--replace", action="store_true", help="move an existing store aside instead of refusing")
    parser.add_argument(
        "--forward", action="store_true", help="do not copy anything; make the store continue with higher numbers"
    )


def run(arguments: Arguments, context: Context) -> int:
    from octostore.stores.sqlite import copying  # noqa: PLC0415  # imports SQLite

    path = sqlite_path(context.address.url)
    if path is None:
        raise InvalidInput("url", "must name a file, as in sqlite:///FILE; for PostgreSQL see docs/how-to/postgres.md")
    if arguments.forward == (arguments.file is not None) or (arguments.forward and arguments.replace):
        raise InvalidInput("restore", "needs either FILE or --forward; --replace needs FILE")
    if context.address.url is None:
        make_data_folder()
    aside = None
    if arguments.forward:
        seq = copying.go_on_ahead(path)
    else:
        with ProgressBar("copied") as bar, exiting_on_signals():
            seq, aside = copying.restore(arguments.file, path, replace=arguments.replace, on_step=bar.show)
    lines = [f"{path} continues with event {seq + 1:,}; no fencing token is issued twice"]
    if aside is not None:
        lines.append(f"the previous store is now {aside}")
    context.console.print_result({"path": path, "seq": seq, "replaced": aside}, *lines)
    return exit_codes.SUCCESS
