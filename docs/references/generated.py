"""Every file in the repository that is generated from the code."""

from functools import cache
from pathlib import Path

from docs.references import cli, errors, events, http, llms, mcp, metrics, plugin, python, settings

PAGES = (cli, http, python, mcp, events, errors, metrics, settings)


@cache
def files() -> dict[Path, str]:
    """Text by path."""
    pages = {module.PATH: module.reference() for module in PAGES}
    plugins = {plugin.ROOT / name: text for name, text in plugin.files().items()}
    return {**pages, llms.PATH: llms.reference(pages), **plugins}
