"""Open the live page of a server in your browser, logged in with your token.

If the store is a file or a database, this finds the server that you started for it on this machine, or if there are
several, the one you started last. The browser gets a link that works once, within a minute.
"""

import argparse
from functools import partial

from octostore.cli.store_address import StoreAddress
from octostore.cli.subcommands import Arguments, Context
from octostore.core.errors import Unreachable

EXAMPLES = [
    "octostore ui",
    "octostore ui --url https://locks.example.org",
    "octostore ui --print  # a link to open elsewhere",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--print", action="store_true", dest="is_printed", help="print the link instead of opening a browser"
    )


def run(arguments: Arguments, context: Context) -> None:
    from octostore.cli.browser import find_browser, open_in  # noqa: PLC0415  # not for `--help`
    from octostore.client.http.page import make_link, serving  # noqa: PLC0415
    from octostore.client.http.server_url import find_server  # noqa: PLC0415

    address, console = context.address, context.console
    if address.is_server:
        found, others = find_server(address.url, None, None, allow_clear_text=False), []
    else:
        found, *others = serving(_id(address))
    link = make_link(*found)
    if others and not console.is_json:
        addresses = " or ".join(f"--url {other.origin}" for other, _ in others)
        console.print_message(
            f"several of your servers serve this store; using {found[0].origin}; for another, add {addresses}"
        )
    browser = None if arguments.is_printed else find_browser()
    if browser is not None:
        on_open = partial(console.print_result, {"page": link.page}, f"opening {link.page} in your browser, logged in")
        if open_in(browser, link.link, on_open=on_open):
            return
    if not arguments.is_printed:
        console.print_message(
            "no browser could be started here; open this link within a minute on a machine that has a browser"
        )
    console.print_result(link, link.link)


def _id(address: StoreAddress) -> str:
    from octostore.client.http.page import no_server  # noqa: PLC0415

    try:
        with address.open_reader() as store:
            return store.figures().store_id
    except Unreachable as error:
        raise no_server() if error.reason == "no_store" else error from None
