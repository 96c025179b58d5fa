"""Which store a command is about, and who said so: when it cannot be reached, that is the first question."""

import os
from typing import NamedTuple
from urllib.parse import urlsplit

from octostore.client.connect import connect
from octostore.client.store import OctoStore
from octostore.stores.opening import URL_VARIABLE, default_path


class Place(NamedTuple):
    url: str | None
    setting: str
    """What named it."""

    @property
    def is_server(self) -> bool:
        return self.url is not None and self.url.partition(":")[0].lower() in {"http", "https"}

    def __str__(self) -> str:
        """Without a password that may be in it."""
        if self.url is None:
            return str(default_path())
        try:
            parts = urlsplit(self.url)
            secret = parts.password
        except ValueError:
            return "a URL that cannot be understood"
        return self.url if secret is None else self.url.replace(f":{secret}@", ":***@")

    def open(self) -> OctoStore:
        return connect(self.url)


def chosen_place(url: str | None) -> Place:
    if url is not None:
        return Place(url, "--url")
    named = os.environ.get(URL_VARIABLE)
    return Place(named, URL_VARIABLE) if named else Place(None, f"the default, since {URL_VARIABLE} is not set")
