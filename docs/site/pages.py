"""What the site is built from: docs/, and under project/ each file elsewhere in the repository that a page links to."""

import re
import shutil
from os.path import relpath
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = "project"
ALWAYS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
COPIED = {".md", ".png", ".svg", ".txt"}
ASSETS = (DOCS / "site" / "look.css", DOCS / "site" / "iframe-worker.js", ROOT / "src/octostore/server/page/icon.svg")

CODE = re.compile(r"(^```.*?^```$|`[^`]*`)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<before>\]\(|\b(?:src|srcset|href)=\")(?!\w+:)(?P<path>[^)#\"\s]+)")
LANGUAGES = {".py": "python", ".sh": "sh", ".sql": "sql", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


def lay_out(folder: Path) -> None:
    """Fill `folder`, from which the site is built."""
    shutil.rmtree(folder, ignore_errors=True)
    waiting = [path for path in DOCS.rglob("*") if path.suffix in COPIED] + [ROOT / name for name in ALWAYS]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        found = _put(path, folder / place_of(path))
        waiting += found - seen
        seen |= found
    for path in ASSETS:
        _copy(path, folder / "assets" / path.name)


def place_of(path: Path) -> Path:
    """Where in the site's folder a file of the repository is. Code becomes a page that shows it."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS)
    place = ELSEWHERE / path.relative_to(ROOT)
    return place if path.suffix in COPIED else place.with_name(f"{place.name}.md")


def _put(path: Path, place: Path) -> set[Path]:
    """The other files that it links to."""
    if path.suffix == ".md":
        text, found = _with_links_from(path)
        _write(place, text)
        return found
    if path.suffix in COPIED:
        _copy(path, place)
    else:
        language = LANGUAGES.get(path.suffix, "text")
        _write(place, f"# {path.relative_to(ROOT)}\n\n````{language}\n{path.read_text(encoding='utf-8')}````\n")
    return set()


def _with_links_from(page: Path) -> tuple[str, set[Path]]:
    found = set()

    def moved(link: re.Match[str]) -> str:
        target = (page.parent / link["path"]).resolve()
        if target.is_dir():
            target /= "README.md"
        if not target.is_file():
            raise FileNotFoundError(f"{page.relative_to(ROOT)} links to {link['path']}, which does not exist")
        found.add(target)
        return link["before"] + relpath(place_of(target), place_of(page).parent)

    parts = CODE.split(page.read_text(encoding="utf-8"))
    parts[::2] = [LINK.sub(moved, prose) for prose in parts[::2]]
    return "".join(parts), found


def _write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


def _copy(path: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, place)
