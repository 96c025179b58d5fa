"""Open a link in a browser without showing it to other users of the machine.

Others can read a process's arguments. So the browser gets the name of a file that only its user can read, and that
redirects to the link.
"""

import os
import secrets
import sys
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from html import escape
from pathlib import Path

from octostore.stores.opening import make_data_folder
from octostore.wire.token_files import write_private_file

LINK_SECONDS = 60
"""How long the link works."""
POLL_SECONDS = 0.1
READ_SECONDS = 1.0
"""How long a browser may take to read the file, once it has begun."""
NAME = "login-*.html"

HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>OctoStore</title>
<meta http-equiv="refresh" content="0; url={link}">
<p><a href="{link}">Open the page</a></p>
"""


def find_browser() -> webbrowser.BaseBrowser | None:
    """None if there is no graphical browser."""
    has_screen = sys.platform == "darwin" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))
    try:
        return webbrowser.get() if has_screen else None
    except webbrowser.Error:
        return None


def open_in(browser: webbrowser.BaseBrowser, link: str, on_open: Callable[[], None]) -> bool:
    """Whether it could be started. If so, call `on_open` and give the browser time to read the file."""
    folder = Path(make_data_folder())
    _delete_stale_files(folder)
    file = folder / NAME.replace("*", secrets.token_hex(8))
    try:
        write_private_file(file, HTML.format(link=escape(link)).encode())
        os.utime(file, (0, time.time()))
        if not browser.open(file.as_uri()):
            return False
        on_open()
        _wait_for_reader(file)
    finally:
        file.unlink(missing_ok=True)
    return True


def _wait_for_reader(file: Path) -> None:
    """If the file system does not record access times, wait until the link expires."""
    until = time.monotonic() + LINK_SECONDS
    while not file.stat().st_atime and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    time.sleep(READ_SECONDS)


def _delete_stale_files(folder: Path) -> None:
    """Delete files that killed processes left behind."""
    for left in folder.glob(NAME):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > LINK_SECONDS:
                left.unlink()
