"""How each client expects hook output. A client complains about what it does not understand, so none gets more."""

import json

from octostore.agents.hooks.payload import ClientName


def context_at_start(client: ClientName, text: str, owner: str) -> str:
    """For the agent, when its session begins."""
    if client == "cursor":
        return json.dumps({"additional_context": text, "env": {"OCTOSTORE_OWNER": owner}})
    return json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}})


def context_after_tool(client: ClientName, text: str) -> str:
    if client == "cursor":
        return json.dumps({"additional_context": text})
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": text}})


def before_compaction(client: ClientName, text: str) -> str | None:
    """Claude Code takes plain text as instructions for the summary. The others let a hook say nothing to the agent."""
    return text if client == "claude" else None


def not_yet(client: ClientName, text: str) -> str:
    """The agent gets this text instead of being stopped."""
    if client == "cursor":
        return json.dumps({"followup_message": text})
    return json.dumps({"decision": "block", "reason": text})


def notice(client: ClientName, text: str, *, is_compaction: bool = False) -> str | None:
    """For the person at the client. Cursor shows it only before a compaction."""
    if client == "cursor":
        return json.dumps({"user_message": text}) if is_compaction else None
    return json.dumps({"systemMessage": text})
