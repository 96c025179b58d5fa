"""Open the live page of a server in your browser, logged in with your token.

If the store is a file or a database, this finds the server that you have started for it on this machine; of several,
the last one. The browser gets a link that works once, within a minute.
"""

import argparse
from functools import partial

from octostore.cli.command import Arguments, Context
from octostore.cli.place import Place
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
    from octostore.cli.browsing import find_browser, open_in  # noqa: PLC0415  # not for `--help`
    from octostore.client.http.page import make_link, serving  # noqa: PLC0415
    from octostore.client.http.server_url import find_server  # noqa: PLC0415

    place, console = context.place, context.console
    if place.is_server:
        found, others = find_server(place.url, None, None, allow_clear_text=False), []
    else:
        found, *others = serving(_id(place))
    link = make_link(*found)
    if others and not console.is_json:
        addresses = " or ".join(f"--url {other.origin}" for other, _ in others)
        console.remark(f"several of your servers serve this store; this is {found[0].origin}, else use {addresses}")
    browser = None if arguments.is_printed else find_browser()
    if browser is not None:
        told = partial(console.answer, {"page": link.page}, f"opening {link.page} in your browser, logged in")
        if open_in(browser, link.link, on_open=told):
            return
    if not arguments.is_printed:
        console.remark("no browser could be started here; open this link on a machine that has one, within a minute")
    console.answer(link, link.link)


def _id(place: Place) -> str:
    from octostore.client.http.page import no_server  # noqa: PLC0415

    try:
        with place.look() as store:
            return store.figures().store_id
    except Unreachable as error:
        raise no_server() if error.reason == "no_store" else error from None
