"""What a built site must not have: links that lead nowhere, and anything that is loaded from elsewhere."""

import os.path
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"audio", "embed", "iframe", "img", "link", "object", "script", "source", "video"}


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str]] = []
        """The tag, and where it leads."""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in {"href", "src", "srcset", "data"} and value:
                self.links.append((tag, value))


def problems_of(site: Path) -> Iterator[str]:
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for tag, link in page.links:
            problem = _problem(site, path, tag, link, pages)
            if problem:
                yield f"{path.relative_to(site)}: {link} {problem}"


def _problem(site: Path, path: Path, tag: str, link: str, pages: dict[Path, _Page]) -> str | None:
    parts = urlsplit(link)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "is loaded from elsewhere" if tag in LOADED else None
    start = site if parts.path.startswith("/") else path.parent  # only 404.html, which is shown at any address
    target = Path(os.path.normpath(start / unquote(parts.path).lstrip("/"))) if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "leads nowhere"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "leads to no heading"
    return None
