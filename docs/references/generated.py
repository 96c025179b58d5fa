"""Every file in the repository that is generated from the code."""

from functools import cache
from pathlib import Path

from docs.references import cli, errors, events, http, mcp, metrics, plugin, python, settings

PAGES = (cli, http, python, mcp, events, errors, metrics, settings)


@cache
def files() -> dict[Path, str]:
    """Text by path."""
    return {
        **{module.PATH: module.reference() for module in PAGES},
        **{plugin.ROOT / name: text for name, text in plugin.files().items()},
    }
