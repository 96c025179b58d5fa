"""Reads settings as clients do, with other code than `setup` uses."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)


def read_json(text: str) -> Any:
    """Comments and trailing commas are allowed; a blank file has no settings."""
    text = text.removeprefix("\ufeff")
    plain = _TOKEN.sub(lambda found: found.group() if found.group().startswith('"') else " ", text)
    plain = _TRAILING.sub(lambda found: found.group(1) or "", plain)
    return json.loads(plain) if plain.strip() else {}


def read_toml(text: str) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))


def read_settings(path: Path) -> Any:
    if not path.exists():
        return {}
    text = path.read_bytes().decode()
    return read_toml(text) if path.suffix == ".toml" else read_json(text)


def without_ours(settings: dict[str, Any]) -> dict[str, Any]:
    """Leave out our entries, and every container that is empty without them."""
    for key in ("mcpServers", "mcp_servers"):
        servers = settings.get(key, {})
        if servers.get("octostore", {}).get("command") == "octostore":
            del servers["octostore"]
    hooks = settings.get("hooks", {})
    for event, found in list(hooks.items()):
        hooks[event] = [one for one in found if "octostore hook" not in json.dumps(one)]
        if not hooks[event]:
            del hooks[event]
    empty = [key for key in ("mcpServers", "mcp_servers", "hooks") if not settings.get(key, True)]
    return {key: value for key, value in settings.items() if key not in empty}
