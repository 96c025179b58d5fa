"""The skill: what an agent reads about OctoStore, as files in the package."""

from importlib.resources import files

NAME = "octostore"
PAGES = ("SKILL.md", "shell.md", "mcp.md", "curl.md")


def pages() -> dict[str, str]:
    """Text by file name."""
    folder = files(__name__)
    return {name: folder.joinpath(name).read_text(encoding="utf-8") for name in PAGES}
