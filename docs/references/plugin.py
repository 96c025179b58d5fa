"""The plugin for Claude Code and Codex, from what `octostore setup` writes."""

import json
from pathlib import Path
from typing import Any

from octostore._version import __version__
from octostore.agents import skill
from octostore.agents.setup.clients import MCP_SERVER, hook_entries
from octostore.agents.setup.json_edits import written_from_scratch

ROOT = Path(__file__).parents[2]
FOLDER = "plugins/octostore"
ABOUT: dict[str, Any] = {
    "name": "octostore",
    "version": __version__,
    "description": "Agents claim work before they do it, continue what others left, and never do a job twice.",
    "author": {"name": "OctoStore"},
    "license": "MIT",
    "keywords": ["agents", "coordination", "lock", "lease", "job queue"],
}
CODEX_ONLY = {
    "skills": "./skills/",
    "mcpServers": "./.mcp.json",
    "hooks": "./hooks/hooks.json",
    "interface": {
        "displayName": "OctoStore",
        "shortDescription": "One owner for each job",
        "developerName": "OctoStore",
        "category": "Productivity",
    },
}
"""Claude Code finds these by their names, and reads hooks twice if they are named, too."""
MARKETPLACE = {
    "name": "octostore",
    "description": "OctoStore for coding agents",
    "owner": {"name": "OctoStore"},
    "plugins": [{"name": "octostore", "source": f"./{FOLDER}", "description": ABOUT["description"]}],
}


def files() -> dict[str, str]:
    """Text by path, from the root of the repository."""
    return {
        ".claude-plugin/marketplace.json": _text(MARKETPLACE),
        f"{FOLDER}/.claude-plugin/plugin.json": _text(ABOUT),
        f"{FOLDER}/.codex-plugin/plugin.json": _text({**ABOUT, **CODEX_ONLY}),
        f"{FOLDER}/.mcp.json": _text({"mcpServers": {"octostore": MCP_SERVER}}),
        f"{FOLDER}/hooks/hooks.json": written_from_scratch(hook_entries(), {}) + "\n",
        **{f"{FOLDER}/skills/{skill.NAME}/{name}": text for name, text in skill.pages().items()},
    }


def _text(document: Any) -> str:
    return json.dumps(document, indent=2) + "\n"
