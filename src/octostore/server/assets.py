"""The files browsers load. They are part of the package, and their URL changes whenever any of them does."""

import gzip
import hashlib
from functools import cache, cached_property
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable

from octostore.server.http import Headers, Request, Response, response_start, security_headers

SHELL = "index.html"
API_STYLE = "api.css"
ICON = "icon.svg"
TYPES = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
DIGEST_CHARACTERS = 16
FOR_EVER = b"public, max-age=31536000, immutable"
_START = response_start(HTTPStatus.OK, security_headers(cache=FOR_EVER))


class Asset:
    def __init__(self, name: str, content: bytes) -> None:
        self._type = TYPES[name.rpartition(".")[2]]
        self._content = content

    @cached_property
    def _gzipped(self) -> bytes:
        return gzip.compress(self._content, mtime=0)

    def respond(self, request: Request) -> Response:
        headers: Headers = [(b"vary", b"accept-encoding")]
        content = self._content
        if _takes_gzip(request.headers.get(b"accept-encoding", b"")):
            headers = [*headers, (b"content-encoding", b"gzip")]
            content = self._gzipped
        return Response(content, content_type=self._type, headers=headers, start=_START)


class Assets:
    """`folder` is their path relative to the page; `shell` is the page itself."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        digest = hashlib.sha256()
        for name, content in sorted(contents.items()):
            digest.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
        self.folder = f"ui/{digest.hexdigest()[:DIGEST_CHARACTERS]}"
        # Preload all modules: otherwise a browser discovers imports, and so requests, one after the other.
        modules = "\n".join(f'<link rel="modulepreload" href="{{assets}}/{name}">' for name in _scripts(contents))
        shell = contents[SHELL].decode().replace("{modules}", modules).replace("{assets}", self.folder)
        self.shell = shell.encode()
        self.by_path = {f"/{self.folder}/{name}": Asset(name, contents[name]) for name in contents if name != SHELL}
        """By request path."""


@cache
def assets() -> Assets:
    return Assets(dict(_contents_of(files("octostore.server") / "page")))


def _scripts(contents: dict[str, bytes]) -> list[str]:
    return sorted(name for name in contents if name.endswith(".js"))


def _contents_of(folder: Traversable, within: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _contents_of(entry, f"{within}{entry.name}/")
        elif entry.name == SHELL or entry.name.rpartition(".")[2] in TYPES:
            found.append((within + entry.name, entry.read_bytes()))
    return found


def _takes_gzip(accepted: bytes) -> bool:
    for one in accepted.lower().split(b","):
        coding, _, quality = one.replace(b" ", b"").partition(b";")
        if coding == b"gzip":
            return quality.rstrip(b"0") not in {b"q=", b"q=0."}
    return False
